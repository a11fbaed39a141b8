//! Passes that are ready when their time comes: nothing is late because of what has to be written first.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::Executor;
use super::driver::rest_for;
use crate::error::Result;
use crate::store::executor::NextDue;

/// How long before it is due a pass may be begun: so long its triggers, with SQLite every writer, wait
/// for it.
const LEAD_MAX: Duration = Duration::from_millis(50);
/// What is added to how long passes took lately.
const LEAD_MORE: Duration = Duration::from_millis(3);
/// How late the runtime's timer may ring.
const COARSE: Duration = Duration::from_millis(2);

/// When a pass is begun.
#[derive(Default)]
pub(super) struct Ahead {
    /// How long it took lately to prepare one.
    preparing: Duration,
}

impl Ahead {
    /// When the next triggers are due, if it is time to have their pass ready.
    pub fn soon(&self, due: &NextDue, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        due.trigger_at.filter(|at| *at > now && *at - now <= self.lead())
    }

    /// How long before its time a pass is begun.
    pub fn lead(&self) -> chrono::Duration {
        crate::app::span((self.preparing + LEAD_MORE).min(LEAD_MAX))
    }

    /// A pass over what is due at `at`. If that is yet to come, it is ready by then and committed then.
    /// Answers how many triggers it took.
    pub async fn pass(
        &mut self,
        executor: &Executor,
        at: DateTime<Utc>,
        room: usize,
    ) -> Result<usize> {
        let began = Instant::now();
        let mut taken = 0;
        if let Some(prepared) = executor.prepare(at, room).await? {
            self.preparing = began.elapsed().max(self.preparing * 7 / 8);
            if !came(executor, at).await {
                return Ok(0);
            }
            taken = executor.complete(prepared).await?.triggers;
        }
        executor.app.metrics.passed(at);
        Ok(taken)
    }
}

/// Waits for `at`. False: the clock was set back meanwhile.
async fn came(executor: &Executor, at: DateTime<Utc>) -> bool {
    let left = || (at - executor.clock().now()).to_std().unwrap_or_default();
    if left().is_zero() {
        return true;
    }
    rest_for(left().min(LEAD_MAX).saturating_sub(COARSE)).await;
    rest_precisely(left().min(COARSE)).await;
    left().is_zero()
}

/// Rests on a thread of its own: the runtime's timer rings at whole milliseconds.
#[expect(clippy::disallowed_methods, reason = "the driver is what waits")]
async fn rest_precisely(duration: Duration) {
    // It does not panic and is not cancelled.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await;
}
