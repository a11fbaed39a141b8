//! The driver: calls the executor's steps at the right moments, until it is told to stop.
//!
//! It sleeps to the instant at which something is due, so that a per-second trigger is on time
//! without anyone tuning an interval, and never longer than `cron.trigger_check_interval`: then
//! it looks, whether a hint came or not. While the database is away it tries again, ever less
//! often, and loses nothing.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ahead::Ahead;
use super::attempt::Done;
use super::beside::Beside;
use super::chores::Chores;
use super::finishers::finishers;
use super::{BATCH, Executor};
use crate::app::SKEW_MAX;
use crate::error::{Error, Result};
use crate::store::executor::{NextDue, next_due};

/// How long the driver waits when there is due work that it may not take now.
const BLOCKED: Duration = Duration::from_millis(250);
/// How long a step may take.
const STEP_MAX: Duration = Duration::from_secs(30);
/// How far two clocks may drift apart from one step to the next, in milliseconds.
const JUMP: u64 = 1_000;
const RETAIN_EVERY: Duration = Duration::from_secs(600);
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A running executor.
struct Driver {
    executor: Arc<Executor>,
    chores: Chores,
    done: mpsc::UnboundedSender<Done>,
    workers: TaskTracker,
    /// Evaluates events: what is due must not wait for a batch of them.
    events: Beside,
    /// Begins cycles.
    begun: Beside,
    /// Walks cycles.
    walked: Beside,
    /// Takes back what waits.
    withdrawn: Beside,
    /// Counts what waits.
    gauges: Beside,
    skew: chrono::Duration,
    /// Two clocks at the step before: the one that can be set, and the one that can't.
    clocks: (DateTime<Utc>, Instant),
    ahead: Ahead,
    /// What is due when, unless it has to be asked for.
    known: Option<NextDue>,
}

/// Runs `executor` until `stop`, then ends what is in flight within the configured grace, gives
/// back what it held, and returns.
pub async fn run(executor: Arc<Executor>, stop: CancellationToken) {
    let (done, ended) = mpsc::unbounded_channel();
    let finishers = finishers(&executor, ended);
    let grace = executor.app.config.shutdown.grace;
    let retention = tokio::spawn(retain(executor.clone(), stop.clone()));
    let mut driver = Driver {
        chores: Chores::new(&executor),
        workers: TaskTracker::new(),
        events: Beside::new("events"),
        begun: Beside::new("beginning cycles"),
        walked: Beside::new("walking cycles"),
        withdrawn: Beside::new("taking back"),
        gauges: Beside::new("gauges"),
        skew: chrono::Duration::zero(),
        clocks: (executor.clock().now(), Instant::now()),
        ahead: Ahead::default(),
        known: None,
        executor,
        done,
    };
    tokio::select! {
        () = driver.drive(&stop) => {}
        () = async { stop.cancelled().await; rest_for(grace).await } => {}
    }
    retention.abort();
    driver.stop(finishers).await;
}

/// Deletes what has been kept long enough, beside the work and not in its way.
async fn retain(executor: Arc<Executor>, stop: CancellationToken) {
    loop {
        if let Err(error) = retain_once(&executor).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old rows could not be deleted, which is tried again"
            );
        }
        if tokio::time::timeout(RETAIN_EVERY, stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

/// A clock that is wrong would delete what is to be kept.
async fn retain_once(executor: &Executor) -> Result<()> {
    executor.app.check_clock().await?;
    executor.app.clock_holds()?;
    executor.retain(executor.clock().now()).await.map(drop)
}

/// A step that takes longer hangs on a connection that is dead and does not know it.
pub(super) async fn within_bounds<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(STEP_MAX, step).await.unwrap_or_else(|_| {
        Err(Error::internal("the database did not answer for 30 s; its connection is given up"))
    })
}

impl Executor {
    /// So much was done of events or cycles. If nothing, others have what is due: it is looked at
    /// again later.
    fn did(&self, taken: usize) {
        if taken > 0 {
            self.app.wake.hint_near();
        }
    }
}

impl Driver {
    async fn drive(&mut self, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while !stop.is_cancelled() {
            match within_bounds(super::whole(self.step())).await {
                Ok(wait) => {
                    pause = FIRST_PAUSE;
                    self.rest(wait, stop).await;
                }
                Err(error) => {
                    let error = self.executor.app.store.why(error).await;
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "the executor can't work, and tries again"
                    );
                    self.known = None;
                    rest_for(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Does what is due, once, and says how long there is nothing to do.
    async fn step(&mut self) -> Result<Duration> {
        let executor = self.executor.clone();
        let now = executor.clock().now();
        if self.known.is_none_or(|known| self.ahead.soon(&known, now).is_none()) {
            self.chores(now).await?;
        }
        if self.skew.abs() > SKEW_MAX {
            return Ok(Duration::from_secs(1));
        }
        let look = self.chores.look.is_due(now);
        // A look asks anew: others may have made work, and a hint may be lost.
        let due = match self.known.take().filter(|_| !look) {
            Some(known) => known,
            None => next_due(executor.app.store.read()).await?,
        };
        let is_due = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at <= now);
        self.start_others(&due, now).await;
        let mut did = 0;
        let pass_at =
            self.ahead.soon(&due, now).or((look || is_due(due.trigger_at)).then_some(now));
        if let Some(at) = pass_at {
            let room = self.room();
            did += self.ahead.pass(&executor, at, room).await?;
            self.start();
        }
        if is_due(due.waiting_at) {
            did += executor.fan_out_waiting(now).await?;
        }
        executor.looked(pass_at.unwrap_or(now));
        if self.chores.report.is_due(now) {
            executor.report(now, self.skew, false).await?;
        }
        if is_due(due.action_at) && executor.lanes.startable() <= self.batch() {
            did += executor.claim(now, self.batch() as u64).await?;
        }
        self.start();
        if did > 0 {
            return Ok(Duration::ZERO);
        }
        let blocked = is_due(due.earliest());
        self.known = (!blocked).then_some(due);
        Ok(self.until(due, now, blocked))
    }

    /// Lets due events be evaluated, cycles begun and walked, and work be taken back, each unless that is
    /// being done.
    async fn start_others(&mut self, due: &NextDue, now: DateTime<Utc>) {
        let is_due = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at <= now);
        if is_due(due.event_at) {
            let executor = self.executor.clone();
            let work = async move {
                executor.did(executor.take_events(executor.clock().now()).await?.events);
                Ok(())
            };
            self.events.start(work).await;
        }
        if is_due(due.rule_at) {
            let executor = self.executor.clone();
            let work = async move {
                executor.did(executor.begin_cycles(executor.clock().now()).await?);
                Ok(())
            };
            self.begun.start(work).await;
        }
        if is_due(due.cycle_at) {
            let executor = self.executor.clone();
            let work = async move {
                executor.did(usize::from(executor.walk_cycle(executor.clock().now()).await?));
                Ok(())
            };
            self.walked.start(work).await;
        }
        if is_due(due.withdrawal_at) {
            let executor = self.executor.clone();
            let work = async move {
                executor.did(usize::from(executor.withdraw(executor.clock().now()).await?));
                Ok(())
            };
            self.withdrawn.start(work).await;
        }
    }

    /// How long until something else is due. Due work that could not be taken, because others
    /// have it or its backends have enough, is looked at again soon.
    fn until(&self, due: NextDue, asked: DateTime<Utc>, blocked: bool) -> Duration {
        let longest = self.executor.app.config.cron.trigger_check_interval;
        let longest = if blocked { BLOCKED.min(longest) } else { longest };
        let early = due.trigger_at.map(|at| at - self.ahead.lead());
        let times = due.times().into_iter().chain([early]).flatten();
        let next = times.filter(|at| *at > asked).min();
        let wait = next.map(|next| (next - self.executor.clock().now()).to_std());
        wait.map_or(longest, |wait| wait.unwrap_or_default().min(longest))
    }

    fn batch(&self) -> usize {
        usize::try_from(self.executor.app.config.dispatch.batch_size).unwrap_or(usize::MAX)
    }

    /// How much more the executor may hold.
    fn room(&self) -> usize {
        (2 * self.batch()).saturating_sub(self.executor.lanes.startable())
    }

    /// Whether the clock was set since the step before, or the machine slept.
    fn jumped(&mut self, now: DateTime<Utc>) -> bool {
        let (then, at) = std::mem::replace(&mut self.clocks, (now, Instant::now()));
        let passed = (now - then).num_milliseconds().abs_diff(at.elapsed().as_millis() as i64);
        passed > JUMP
    }

    async fn chores(&mut self, now: DateTime<Utc>) -> Result<()> {
        // Whoever takes back what others hold must know what time it is.
        let reap = self.chores.reap.is_due(now);
        if reap || self.jumped(now) || self.chores.skew.is_due(now) {
            self.skew = self.executor.app.check_clock().await?;
            if self.skew.abs() > SKEW_MAX {
                tracing::error!(
                    skew_ms = self.skew.num_milliseconds(),
                    "this machine's clock and the database's differ by more than 5 s; this executor does nothing until they agree"
                );
                (self.chores.skew.last, self.chores.reap.last) = (None, None);
                return Ok(());
            }
        }
        if self.chores.observe.is_due(now) {
            let executor = self.executor.clone();
            self.gauges.start(async move { executor.observe().await }).await;
        }
        if reap {
            let reaped = self.executor.reap(now).await?;
            if reaped > 0 {
                self.known = None;
            }
            if reaped as u64 == BATCH {
                // There may be more, which has waited long enough.
                self.chores.reap.last = None;
            }
        }
        Ok(())
    }

    /// Starts as many workers as there are free slots and held deliveries.
    fn start(&self) {
        let lanes = &self.executor.lanes;
        for _ in 0..lanes.free().min(lanes.queued()) {
            let (executor, done) = (self.executor.clone(), self.done.clone());
            self.workers.spawn(async move {
                while let Some(work) = executor.lanes.next(executor.clock().now()) {
                    let ended = executor.perform(work).await;
                    if done.send(ended).is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// Waits until something is due or changes. What is known of what is due stays known only
    /// when the time itself ends the wait.
    async fn rest(&mut self, wait: Duration, stop: &CancellationToken) {
        if wait.is_zero() {
            tokio::task::yield_now().await;
            return;
        }
        tokio::select! {
            () = rest_for(wait) => {}
            () = self.executor.app.wake.near().notified() => self.known = None,
            () = self.executor.lanes.room.notified() => self.known = None,
            () = stop.cancelled() => {}
        }
    }

    async fn stop(self, finishers: TaskTracker) {
        let Self { executor, done, workers, skew, .. } = self;
        [&self.events, &self.begun, &self.walked, &self.withdrawn, &self.gauges]
            .into_iter()
            .for_each(Beside::abort);
        for work in executor.lanes.drain() {
            let finished = super::verdict::given_back(&work.claimed);
            let at = executor.clock().now();
            let _ = done.send(Done {
                claimed: work.claimed,
                finished,
                attempt: None,
                effect: None,
                began: at,
                at,
            });
        }
        drop(done);
        workers.close();
        let grace = executor.app.config.shutdown.grace;
        let ended = tokio::time::timeout(grace, async {
            workers.wait().await;
            finishers.wait().await;
            executor.report(executor.clock().now(), skew, true).await
        });
        match ended.await {
            Ok(Ok(())) => tracing::info!("the executor ended; nothing is left in flight"),
            Ok(Err(error)) => tracing::warn!(%error, "the executor ended, but could not say so"),
            Err(_) => tracing::warn!(
                in_flight = executor.lanes.in_flight(),
                "the executor was ended with work in flight; it is taken over when its lease ends"
            ),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver is what waits")]
pub(super) async fn rest_for(duration: Duration) {
    tokio::time::sleep(duration).await;
}
