//! The process role that evaluates schedules and events and works the queue.
//!
//! # Theory of operation
//!
//! All state is in the database; an executor that dies loses nothing, and any number of them
//! work on one database without a leader. Each step is one transaction:
//!
//! * a **pass** locks the triggers that are due, turns their windows into occurrences and
//!   deliveries, and moves the windows;
//! * an **event pass** evaluates stored events and queues what rules want done;
//! * a **cycle** of a time-based rule is begun once and walked in batches of users, taking turns;
//! * a **claim** puts due work under a lease; nothing is locked while it is sent;
//! * an **attempt** does one piece of work, once;
//! * a **finish** records what came of attempts, in batches, where the lease still holds;
//! * **reaping** makes work whose lease has ended due again.
//!
//! Deliveries that a pass makes are born under a lease of the executor that makes them, as far
//! as it has room: they are sent without being claimed first.
//!
//! Every step is a function of `now` that says what it did. [`Executor::run_until_idle`] calls
//! them until nothing is due; [`driver`] calls them at the right moments.

mod ahead;
mod attempt;
mod beside;
mod chores;
mod claim;
mod cycles;
pub mod driver;
mod effect;
mod events;
mod finish;
mod finishers;
mod firing;
mod gone;
mod job;
mod lanes;
mod meeting;
mod pass;
mod reap;
mod retain;
mod rulebook;
mod status;
mod target;
mod verdict;
mod waiting;
mod walks;
mod withdraw;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration as Span;

use chrono::{DateTime, Duration, Utc};
use futures::FutureExt;
use uuid::Uuid;

use crate::app::App;
use crate::clock::SharedClock;
use crate::domain::fan_out::RetryPolicy;
use crate::domain::id::{EventId, ExecutorId};
use crate::error::{Error, Result};
use crate::store::executor::{Lease, next_due};

use lanes::Lanes;
use rulebook::Rulebook;
use target::Targets;
use walks::Walks;

pub use events::EventReport;
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
    rulebook: Rulebook,
    /// When it last evaluated what was due of schedules; at first when it started.
    passed_at: Mutex<DateTime<Utc>>,
    turn: Mutex<claim::Turn>,
    /// How often in a row events could not be evaluated.
    failures: AtomicU32,
    /// The event that is evaluated alone, and how often it was.
    alone: Mutex<Option<(EventId, u32)>>,
    unserved: pass::Unserved,
    /// Cycles that could not be walked, and whose turn it is.
    walks: Walks,
    /// Whether more events wait than one batch holds, and several at once are worth it.
    events_wait: AtomicBool,
    jitter: Jitter,
    /// How many of the deliveries that a pass makes [`Executor::run_until_idle`] holds from birth.
    room: usize,
}

/// What spreads retries, from 0 to 1.
type Jitter = Box<dyn Fn() -> f64 + Send + Sync>;

/// What a run until idle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Occurrences made.
    pub occurrences: usize,
    /// Attempts made.
    pub attempts: usize,
    /// Events evaluated.
    pub events: usize,
    /// Work taken back from executors that went away.
    pub reaped: usize,
}

/// A step that panics is one that failed: the executor goes on, and says so.
async fn whole<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(step)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Error::internal("a step of the executor panicked")))
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
        let (targets, rulebook, turn) = Default::default();
        let (failures, alone, walks, unserved, events_wait) = Default::default();
        let jitter = Box::new(rand::random::<f64>);
        Self {
            app,
            id: ExecutorId::new(),
            started_at,
            passed_at: Mutex::new(started_at),
            lanes,
            targets,
            rulebook,
            turn,
            failures,
            alone,
            walks,
            unserved,
            events_wait,
            jitter,
            room: 0,
        }
    }

    /// This executor, its retries spread by `jitter`, from 0 to 1: for simulations.
    #[doc(hidden)]
    pub fn with_jitter(self, jitter: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self { jitter: Box::new(jitter), ..self }
    }

    /// This executor, which holds up to `room` of the deliveries that a pass makes when it runs until
    /// idle: for simulations.
    #[doc(hidden)]
    pub fn with_room(self, room: usize) -> Self {
        Self { room, ..self }
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
            let due = next_due(self.app.store.read()).await?;
            let is_due = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at <= now);
            let mut did = reaped;
            if is_due(due.trigger_at) {
                let pass = self.pass(now, self.room).await?;
                report.occurrences += pass.occurrences;
                did += pass.triggers;
            }
            self.looked(now);
            if is_due(due.waiting_at) {
                did += self.fan_out_waiting(now).await?;
            }
            if is_due(due.event_at) {
                let taken = self.take_events(now).await?;
                report.events += taken.events;
                did += taken.events;
            }
            if is_due(due.rule_at) {
                did += self.begin_cycles(now).await?;
            }
            if is_due(due.cycle_at) {
                did += usize::from(self.walk_cycle(now).await?);
            }
            if is_due(due.withdrawal_at) {
                did += usize::from(self.withdraw(now).await?);
            }
            did += self.claim(now, BATCH).await?;
            report.reaped += reaped;
            let mut done = Vec::new();
            while let Some(work) = self.lanes.next(self.app.now()) {
                done.push(self.perform(work).await);
            }
            report.attempts += done.iter().filter(|done| done.attempt.is_some()).count();
            // As the driver, once more when it failed: the answer of a commit may be lost.
            if !done.is_empty() && self.finish(&mut done, false).await.is_err() {
                self.finish(&mut done, true).await?;
            }
            if did == 0 {
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

    /// How long after its claim an attempt may still start.
    fn start_within(&self) -> Duration {
        let (dispatch, cron) = (&self.app.config.dispatch, &self.app.config.cron);
        let timeout = dispatch.timeout.max(self.app.config.line.timeout);
        crate::app::span(start_within(dispatch.lease, timeout, cron.trigger_check_interval))
    }

    fn jitter(&self) -> f64 {
        (self.jitter)()
    }

    /// When that is done which a step began at `now`, once its transaction holds what it needs: the
    /// process may have stood still in between, and rates count from when work is queued.
    fn since(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now.max(self.clock().now())
    }
}

/// What a lease should have left when an attempt has run out of time: to write down its outcome,
/// and since the executor that takes over may read a clock that is ahead of this one's, each by
/// [`SKEW_MAX`](crate::app::SKEW_MAX) from the database's.
const TO_WRITE: Span = Span::from_secs(10);

/// How long after its claim an attempt may still start: it must end within the lease, with time
/// left to be written down, and what is held must not outlive a delete or disable by more than a
/// pass. A short lease leaves as much time for the one as for the other.
fn start_within(lease: Span, timeout: Span, pass: Span) -> Span {
    let room = lease.saturating_sub(timeout);
    (room - TO_WRITE.min(room / 2)).min(pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_last_leaves_time_to_write_down_its_outcome() {
        let s = Span::from_secs;
        assert_eq!(start_within(s(30), s(10), s(30)), s(10));
        assert_eq!(start_within(s(60), s(10), s(60)), s(40));
        assert_eq!(start_within(s(30), s(10), s(1)), s(1), "off is off after a pass");
        assert_eq!(start_within(s(10), s(5), s(30)), Span::from_millis(2_500));
    }
}
