//! The event pass: what happened meets the rules that could wait for it.
//!
//! One transaction takes a batch of stored events, evaluates them, takes the right to fire, queues
//! the work, writes the log and marks the events as processed. A crash undoes all of it, and the
//! events are evaluated again; nothing is queued twice.

use std::collections::HashMap;
use std::ops::Add;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::firing::Fate;
use super::meeting::{TooCostly, one_of_a_subject, read};
use super::{BATCH, Executor, whole};
use crate::domain::event::Event;
use crate::domain::id::EventId;
use crate::error::{Error, Result};
use crate::store::event::{self, Processed};
use crate::store::{Engine, Tx};

/// After so many failures in a row a batch of one has failed often enough.
const HOPELESS: u32 = 12;

/// How often after that an event is tried whose evaluation brings no verdict: it takes so long that
/// the step is dropped or the connection lost.
const TRIES: u32 = 3;

/// How many full batches are evaluated beside each other on PostgreSQL. SQLite has one writer.
const BESIDE: usize = 2;

/// What an event pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventReport {
    /// Events evaluated.
    pub events: usize,
    /// Actions queued.
    pub queued: usize,
}

/// What a batch came to.
struct Evaluated {
    events: usize,
    /// The type of each event that a rule accepted.
    matched: Vec<String>,
    fates: Vec<Fate>,
}

impl Add for EventReport {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { events: self.events + other.events, queued: self.queued + other.queued }
    }
}

/// What a transaction did with a batch.
enum Batch {
    Done(EventReport),
    /// It costs too much, and nothing was done: so many of its events fit into one.
    TooCostly(usize),
}

impl Executor {
    /// Evaluates stored events, one batch of them, oldest first; on PostgreSQL, where one waits for
    /// the database most of the time, two batches beside each other as long as they are full.
    ///
    /// After each failure in a row the batch is half as large, so that one event that can't be
    /// evaluated, for whatever reason, ends up alone; it is then recorded as failed, and the others
    /// go on. A batch ends where its events would cost too much to evaluate in one transaction, or meet too
    /// many rules.
    pub async fn take_events(&self, now: DateTime<Utc>) -> Result<EventReport> {
        // Counted before, since a step that takes too long is dropped.
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let limit = BATCH.checked_shr(failures).unwrap_or_default().max(1);
        let one = || self.evaluate_some(now, limit, failures >= HOPELESS);
        let report = if failures == 0 && self.events_wait.load(Ordering::Relaxed) {
            let all = (0..BESIDE).map(|_| one());
            let all = join_all(all).await.into_iter().collect::<Result<Vec<_>>>()?;
            all.into_iter().fold(EventReport::default(), EventReport::add)
        } else {
            one().await?
        };
        self.failures.store(0, Ordering::Relaxed);
        self.forget_tries();
        let full = report.events as u64 >= BATCH && self.app.store.engine() == Engine::Postgres;
        self.events_wait.store(full, Ordering::Relaxed);
        Ok(report)
    }

    /// Evaluates up to `limit` events, and less where they cost too much together.
    async fn evaluate_some(
        &self,
        now: DateTime<Utc>,
        mut limit: u64,
        hopeless: bool,
    ) -> Result<EventReport> {
        loop {
            match self.evaluate_batch(now, limit, hopeless).await {
                Ok(Batch::Done(report)) => return Ok(report),
                Ok(Batch::TooCostly(fit)) => limit = fit as u64,
                Err(error) => {
                    if matches!(error, Error::Busy) {
                        self.forget_tries();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Evaluates up to `limit` events, all or none; those of a hopeless batch are recorded as
    /// failed when it fails once more, unless the database is what fails. So are they, and not
    /// evaluated again, when several tries have brought no verdict.
    async fn evaluate_batch(
        &self,
        now: DateTime<Utc>,
        limit: u64,
        hopeless: bool,
    ) -> Result<Batch> {
        let tx = self.app.store.begin().await?;
        let events = event::pending(&*tx, limit).await?;
        let Some(first) = events.first() else { return Ok(Batch::Done(EventReport::default())) };
        let now = self.since(now);
        if hopeless && self.tries_of(first.id) > TRIES {
            let error = Error::internal("no evaluation of it came to an end");
            return give_up(tx, &events, &error, now).await.map(Batch::Done);
        }
        if hopeless {
            tx.set_savepoint().await?;
        }
        match whole(self.evaluate_all(&tx, &events, now)).await {
            Ok(Ok(evaluated)) => {
                tx.commit_unaudited().await?;
                Ok(Batch::Done(self.count_events(&evaluated)))
            }
            Ok(Err(TooCostly { fit })) => {
                tx.rollback().await?;
                Ok(Batch::TooCostly(fit))
            }
            Err(error) if hopeless && !matches!(error, Error::Busy) => {
                // Gone with its connection, which ends a transaction that thinks for too long. That
                // is no verdict, and not the database's fault: it is tried again, and counted.
                if tx.back_to_savepoint().await.is_err() {
                    return Err(error);
                }
                give_up(tx, &events, &error, now).await.map(Batch::Done)
            }
            Err(error) => {
                // Waited for, so that the next batch begins with the same events. If it fails, so
                // does the connection, and then its transaction has ended.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    /// Counts how often in a row that event is tried alone.
    fn tries_of(&self, event: EventId) -> u32 {
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        *alone = match *alone {
            Some((known, tries)) if known == event => Some((known, tries + 1)),
            _ => Some((event, 1)),
        };
        alone.map_or(0, |(_, tries)| tries)
    }

    fn forget_tries(&self) {
        *self.alone.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn evaluate_all(
        &self,
        tx: &Tx,
        events: &[Event],
        now: DateTime<Utc>,
    ) -> Result<Result<Evaluated, TooCostly>> {
        let (met, mut processed) = read(events);
        let (met, stale) = one_of_a_subject(tx, met).await?;
        let candidates = match self.meet(tx, (&met, &stale), now).await? {
            Ok(candidates) => candidates,
            Err(too_costly) => return Ok(Err(too_costly)),
        };
        let fates = self.fire(tx, &candidates, now).await?;
        let mut matched = HashMap::<EventId, i32>::new();
        for (candidate, fate) in candidates.iter().zip(&fates) {
            if let (Some(event), Fate::Queued) = (candidate.by.event_id(), fate) {
                *matched.entry(event).or_default() += 1;
            }
        }
        processed.extend(met.iter().map(|met| Processed {
            id: met.event.id,
            matched: matched.get(&met.event.id).copied().unwrap_or_default(),
            error: None,
        }));
        event::processed(&**tx, &processed, now).await?;
        let met = met.iter().filter(|met| matched.contains_key(&met.event.id));
        let matched = met.map(|met| met.event.event_type.clone()).collect();
        Ok(Ok(Evaluated { events: processed.len(), matched, fates }))
    }

    fn count_events(&self, evaluated: &Evaluated) -> EventReport {
        let Evaluated { events, matched, fates } = evaluated;
        for event_type in matched {
            self.app.metrics.events_matched(event_type, 1);
        }
        self.count_fates(fates);
        if !fates.is_empty() {
            self.app.live.hint();
        }
        let queued = fates.iter().filter(|fate| **fate == Fate::Queued).count();
        EventReport { events: *events, queued }
    }

    pub(super) fn count_fates(&self, fates: &[Fate]) {
        let kinds =
            [(Fate::Queued, "queued"), (Fate::HeldBack, "held_back"), (Fate::Failed, "failed")];
        for (kind, name) in kinds {
            let count = fates.iter().filter(|fate| **fate == kind).count() as u64;
            self.app.metrics.rules_evaluated(name, count);
        }
    }
}

/// Records that `events` can't be evaluated.
async fn give_up(
    tx: Tx,
    events: &[Event],
    error: &Error,
    now: DateTime<Utc>,
) -> Result<EventReport> {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "an event can't be evaluated, and is recorded as failed"
    );
    let why = "it could not be evaluated; the server's log says why";
    let failed: Vec<_> = events
        .iter()
        .map(|event| Processed { id: event.id, matched: 0, error: Some(why.to_owned()) })
        .collect();
    event::processed(&*tx, &failed, now).await?;
    tx.commit_unaudited().await?;
    Ok(EventReport { events: failed.len(), queued: 0 })
}
