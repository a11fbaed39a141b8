//! Claiming: due deliveries come under a lease and into the lanes.

use std::collections::HashSet;
use std::sync::PoisonError;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Executor;
use super::lanes::{Held, Work};
use crate::error::Result;
use crate::store::executor::{self, Claim, Claimed};

impl Executor {
    /// Claims up to `limit` due deliveries of backends that do not hold enough already. Answers
    /// how many. After a crash they are due again when the lease ends.
    pub async fn claim(&self, now: DateTime<Utc>, limit: u64) -> Result<usize> {
        let full = self.lanes.full();
        let start_after = *self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = self.lease(now);
        let per_lane = (self.lanes.most_of_a_lane() as u64).min(limit);
        let claim = Claim { now, lease, limit, per_lane, start_after, without: &full };
        let claimed = executor::claim(&self.app.store, claim).await?;
        self.turn(&claimed);
        let count = claimed.len();
        self.hold(claimed, now).await?;
        Ok(count)
    }

    /// Lets the next claim begin after the last lane of this one; from the start if there was
    /// but one.
    fn turn(&self, claimed: &[Claimed]) {
        let lanes = claimed.iter().map(|held| held.delivery.backend_id.0);
        let (first, last) = (lanes.clone().min(), lanes.max());
        let next = if first == last { Uuid::nil() } else { last.unwrap_or_default() };
        *self.cursor.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Puts claimed deliveries into the lanes.
    pub(super) async fn hold(&self, claimed: Vec<Claimed>, now: DateTime<Utc>) -> Result<()> {
        if claimed.is_empty() {
            return Ok(());
        }
        let backends: HashSet<_> = claimed.iter().map(|held| held.delivery.backend_id).collect();
        let targets = self.targets.load(&self.app, backends, now).await?;
        let start_before = now + self.start_within();
        let work = claimed.into_iter().filter_map(|claimed| {
            let target = targets.get(&claimed.delivery.backend_id)?.clone();
            let target = Held { target, known_at: now };
            Some(Work { claimed, target, start_before })
        });
        self.lanes.push(work);
        Ok(())
    }
}
