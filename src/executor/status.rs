//! What an executor tells of itself: to the database, and to whoever scrapes it.

use std::sync::PoisonError;

use chrono::{DateTime, Duration, Utc};

use super::Executor;
use crate::domain::executor::ExecutorInstance;
use crate::error::Result;
use crate::store::{executor, line};
use crate::telemetry::RulesWaiting;

impl Executor {
    /// At `now` what was due of schedules was evaluated.
    pub(super) fn looked(&self, now: DateTime<Utc>) {
        *self.passed_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Writes the executor's row, with the time of its last pass that succeeded; with `stopped`, it
    /// ended at `now`.
    pub async fn report(&self, now: DateTime<Utc>, skew: Duration, stopped: bool) -> Result<()> {
        let last_pass_at = *self.passed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let instance = ExecutorInstance {
            id: self.id,
            host: host(),
            process_id: i64::from(std::process::id()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            last_pass_at,
            in_flight: i32::try_from(self.lanes.in_flight()).unwrap_or(i32::MAX),
            clock_skew_ms: i32::try_from(skew.num_milliseconds()).unwrap_or(i32::MAX),
            stopped_at: stopped.then_some(now),
        };
        let tx = self.app.store.begin().await?;
        executor::report(&*tx, &instance).await?;
        tx.commit_unaudited().await
    }

    /// Sets the gauges that are read from the database: enabled triggers, waiting work.
    pub async fn observe(&self) -> Result<()> {
        let db = self.app.store.read();
        let active = executor::active_triggers(db).await?;
        self.app.metrics.set_active_triggers(u64::try_from(active).unwrap_or_default());
        let waiting = executor::queue_depth(db).await?;
        let waiting = waiting.into_iter().map(|(app, n)| (app, u64::try_from(n).unwrap_or(0)));
        self.app.metrics.set_waiting(waiting);
        self.app.forget_deleted().await?;
        self.observe_rules().await
    }

    async fn observe_rules(&self) -> Result<()> {
        let now = self.clock().now();
        let kinds = executor::rules_waiting(self.app.store.read(), now).await?;
        let mut waiting = RulesWaiting::default();
        for kind in &kinds {
            let age = kind.oldest.map_or(0, |oldest| (now - oldest).num_seconds().max(0));
            let (age, count) = (age.unsigned_abs(), kind.n.unsigned_abs());
            match kind.name.as_str() {
                "event" => (waiting.events, waiting.oldest_event) = (count, age),
                name => {
                    waiting.actions.push((name, count));
                    waiting.oldest_action = waiting.oldest_action.max(age);
                }
            }
        }
        waiting.paused = line::count_paused(self.app.store.read(), now).await?;
        self.app.metrics.set_rules_waiting(&waiting);
        Ok(())
    }
}

/// The machine's name, as the kernel tells it.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
