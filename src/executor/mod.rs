//! The process role that evaluates schedules and works the queue.
//!
//! # Theory of operation
//!
//! All state is in the database; an executor that dies loses nothing, and any number of them
//! work on one database without a leader. Each step is one transaction:
//!
//! * a **pass** locks the triggers that are due, turns their windows into occurrences and
//!   deliveries, and moves the windows;
//! * a **claim** puts due deliveries under a lease; nothing is locked while they are sent;
//! * an **attempt** sends one delivery, once;
//! * a **finish** records what came of attempts, in batches, where the lease still holds;
//! * **reaping** makes deliveries whose lease has ended due again.
//!
//! Deliveries that a pass makes are born under a lease of the executor that makes them, as far
//! as it has room: they are sent without being claimed first.
//!
//! Every step is a function of `now` that says what it did. [`Executor::run_until_idle`] calls
//! them until nothing is due; [`driver`] calls them at the right moments.

mod attempt;
mod claim;
pub mod driver;
mod finish;
mod gone;
mod lanes;
mod pass;
mod reap;
mod retain;
mod status;
mod target;
mod verdict;
mod waiting;

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::app::App;
use crate::clock::SharedClock;
use crate::domain::fan_out::RetryPolicy;
use crate::domain::id::ExecutorId;
use crate::error::Result;
use crate::store::executor::Lease;

use lanes::Lanes;
use target::Targets;

pub use finish::FinishReport;
pub use pass::PassReport;
pub use retain::RetainReport;

/// How many triggers a pass takes at once, and how many rows other steps do.
const BATCH: u64 = 500;

/// An executor.
pub struct Executor {
    app: Arc<App>,
    id: ExecutorId,
    started_at: DateTime<Utc>,
    lanes: Lanes,
    targets: Targets,
    /// The lane after which the next claim begins, so that lanes take turns.
    cursor: Mutex<Uuid>,
}

/// What a run until idle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Occurrences made.
    pub occurrences: usize,
    /// Attempts made.
    pub attempts: usize,
    /// Deliveries taken back from executors that went away.
    pub reaped: usize,
}

impl Executor {
    /// An executor of its own identity.
    pub fn new(app: Arc<App>) -> Self {
        let dispatch = &app.config.dispatch;
        let lanes = Lanes::new(lanes::Limits {
            total: dispatch.concurrency,
            per_application: dispatch.concurrency_per_application,
            per_backend: dispatch.concurrency_per_backend,
            low_water: usize::try_from(dispatch.batch_size).unwrap_or(usize::MAX),
        });
        let started_at = app.now();
        let (id, targets, cursor) = Default::default();
        Self { app, id, started_at, lanes, targets, cursor }
    }

    /// Which executor this is.
    pub fn id(&self) -> ExecutorId {
        self.id
    }

    /// Does, step by step, all that is due at the clock's time, until nothing is.
    pub async fn run_until_idle(&self) -> Result<RunReport> {
        let mut report = RunReport::default();
        loop {
            let now = self.app.now();
            let reaped = self.reap(now).await?;
            let pass = self.pass(now, 0).await?;
            let waiting = self.fan_out_waiting(now).await?;
            let claimed = self.claim(now, BATCH).await?;
            let idle = reaped == 0 && pass.triggers == 0 && waiting == 0 && claimed == 0;
            report.reaped += reaped;
            report.occurrences += pass.occurrences;
            let mut done = Vec::new();
            while let Some(work) = self.lanes.next(self.app.now()) {
                done.push(self.perform(work).await);
            }
            report.attempts += done.iter().filter(|done| done.attempt.is_some()).count();
            if !done.is_empty() {
                self.finish(&done).await?;
            }
            if idle {
                return Ok(report);
            }
        }
    }

    fn clock(&self) -> &SharedClock {
        &self.app.clock
    }

    fn policy(&self) -> RetryPolicy {
        self.app.retry_policy()
    }

    /// A fresh lease that begins at `now`.
    fn lease(&self, now: DateTime<Utc>) -> Lease {
        let length = crate::app::span(self.app.config.dispatch.lease);
        Lease { token: Uuid::new_v4(), until: now + length }
    }

    /// How long after its claim an attempt may still start: it must end within the lease, and
    /// what is held must not outlive a delete or disable by more than a pass.
    fn start_within(&self) -> Duration {
        let dispatch = &self.app.config.dispatch;
        let room = crate::app::span(dispatch.lease.saturating_sub(dispatch.timeout));
        room.min(crate::app::span(self.app.config.cron.trigger_check_interval))
    }

    fn jitter(&self) -> f64 {
        rand::random::<f64>()
    }
}
