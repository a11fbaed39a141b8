//! What is done to the processes and the database, one after the other, and when.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use trigger_manager::line::stand_in::{Fault as Platform, StandIn};

use crate::backends::{Backends, Trap};
use crate::cluster::Cluster;
use crate::processes::{Fleet, Slot};
use crate::proxy::Cut;
use crate::settings::Form;

/// How long a trap or a cut may take to be sprung.
const SPRING: Duration = Duration::from_secs(120);

/// What kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An executor is killed at a random moment.
    Kill,
    /// … after a backend received a request, before it answers.
    KillOnRequest,
    /// … after a backend answered.
    KillOnAnswer,
    /// … after a commit, before its answer.
    KillOnCommit,
    /// An executor stops for longer than its lease, after it sent a request.
    Stop,
    /// … before a commit, with a transaction open.
    StopInTransaction,
    /// A connection is cut before a commit.
    CutBeforeCommit,
    /// … after a commit, before its answer.
    CutAfterCommit,
    /// The database crashes and is away for a while.
    DatabaseDown,
    /// An API is killed.
    KillApi,
}

/// A fault that was.
#[derive(Debug, Clone, Serialize)]
pub struct Fault {
    pub kind: Kind,
    /// Of which executor; none: of all, or of an API.
    pub slot: Option<usize>,
    pub start: DateTime<Utc>,
    pub end: DateTime<Utc>,
}

/// Everything that can be hurt.
pub struct Victims<'a> {
    pub form: &'a Form,
    pub fleet: &'a Arc<Fleet>,
    pub cluster: &'a Cluster,
    pub backends: &'a Backends,
    pub platform: &'a StandIn,
}

/// What happened, and what could not be made to happen.
#[derive(Default)]
pub struct Past {
    pub faults: Vec<Fault>,
    pub missed: Vec<String>,
}

impl Past {
    fn add(&mut self, kind: Kind, slot: Option<usize>, start: DateTime<Utc>) {
        self.faults.push(Fault { kind, slot, start, end: Utc::now() });
    }

    fn miss(&mut self, kind: Kind) {
        self.missed.push(format!("{kind:?}"));
    }
}

impl Victims<'_> {
    /// Every kind of fault, as often as the form says.
    pub async fn hurt(&self, past: &mut Past) -> Result<()> {
        for _ in 0..self.form.rounds {
            self.platform.fail_next(1, Platform::ErrorAfter);
            self.kill_anywhere(past).await?;
            self.spring(past, (Trap::Kill, Kind::KillOnRequest)).await?;
            self.platform.fail_next(2, Platform::SilenceAfter);
            self.spring(past, (Trap::AnswerAndKill, Kind::KillOnAnswer)).await?;
            self.cut(past, (Cut::After, Kind::KillOnCommit)).await?;
            for _ in 0..3 {
                self.cut(past, (Cut::Before, Kind::CutBeforeCommit)).await?;
                self.cut(past, (Cut::After, Kind::CutAfterCommit)).await?;
            }
            self.platform.fail_next(2, Platform::CutAfter);
            self.cut_api(past).await?;
            self.spring(past, (Trap::Stop, Kind::Stop)).await?;
            self.database(past).await?;
            self.kill_api(past).await?;
            self.stop_in_transaction(past).await?;
            self.rest().await;
        }
        Ok(())
    }

    async fn rest(&self) {
        sleep(self.form.gap).await;
    }

    fn any(&self) -> (usize, &Arc<Slot>) {
        let slot = rand::random_range(0..self.fleet.executors.len());
        (slot, &self.fleet.executors[slot])
    }

    async fn replace(&self, slot: &Slot) -> Result<()> {
        sleep(self.form.absence).await;
        slot.start().await
    }

    async fn kill_anywhere(&self, past: &mut Past) -> Result<()> {
        sleep(Duration::from_millis(rand::random_range(0..1_000))).await;
        let (number, slot) = self.any();
        let start = Utc::now();
        slot.kill();
        self.replace(slot).await?;
        past.add(Kind::Kill, Some(number), start);
        self.rest().await;
        Ok(())
    }

    async fn spring(&self, past: &mut Past, (trap, kind): (Trap, Kind)) -> Result<()> {
        let Some(sprung) = wait(self.backends.set(trap)).await else {
            past.miss(kind);
            return Ok(());
        };
        let slot = &self.fleet.executors[sprung.slot];
        if trap == Trap::Stop {
            sleep(self.form.longer_than_lease()).await;
            slot.signal("CONT");
        } else {
            self.replace(slot).await?;
        }
        past.add(kind, Some(sprung.slot), sprung.at);
        self.rest().await;
        Ok(())
    }

    async fn cut(&self, past: &mut Past, (cut, kind): (Cut, Kind)) -> Result<()> {
        let (number, slot) = self.any();
        let kills = kind == Kind::KillOnCommit;
        let victim = slot.clone();
        let fired = slot.proxy.arm(cut, move || {
            if kills {
                victim.kill();
            }
        });
        let Some(start) = wait(fired).await else {
            slot.proxy.disarm();
            past.miss(kind);
            return Ok(());
        };
        if kills {
            self.replace(slot).await?;
            self.rest().await;
        }
        past.add(kind, Some(number), start);
        Ok(())
    }

    async fn cut_api(&self, past: &mut Past) -> Result<()> {
        for (cut, kind) in
            [(Cut::Before, Kind::CutBeforeCommit), (Cut::After, Kind::CutAfterCommit)]
        {
            for slot in &self.fleet.apis {
                match wait(slot.proxy.arm(cut, || {})).await {
                    Some(start) => past.add(kind, None, start),
                    None => past.miss(kind),
                }
            }
        }
        Ok(())
    }

    async fn stop_in_transaction(&self, past: &mut Past) -> Result<()> {
        let (number, slot) = self.any();
        let victim = slot.clone();
        let fired = slot.proxy.arm(Cut::Hold, move || victim.signal("STOP"));
        let Some(start) = wait(fired).await else {
            slot.proxy.disarm();
            past.miss(Kind::StopInTransaction);
            return Ok(());
        };
        sleep(self.form.longer_than_lease()).await;
        slot.proxy.thaw();
        slot.signal("CONT");
        past.add(Kind::StopInTransaction, Some(number), start);
        Ok(())
    }

    async fn database(&self, past: &mut Past) -> Result<()> {
        let start = Utc::now();
        self.cluster.crash().await?;
        sleep(self.form.outage).await;
        self.cluster.revive().await?;
        past.add(Kind::DatabaseDown, None, start);
        self.rest().await;
        Ok(())
    }

    async fn kill_api(&self, past: &mut Past) -> Result<()> {
        for slot in &self.fleet.apis {
            let start = Utc::now();
            slot.kill();
            self.replace(slot).await?;
            past.add(Kind::KillApi, None, start);
        }
        Ok(())
    }
}

async fn wait<T>(sprung: oneshot::Receiver<T>) -> Option<T> {
    timeout(SPRING, sprung).await.ok()?.ok()
}
