//! Claiming: due work comes under a lease and into the lanes.

use std::collections::HashSet;
use std::sync::PoisonError;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Executor;
use super::job::Job;
use super::lanes::{Held, Work};
use super::target::Target;
use crate::error::Result;
use crate::store::executor::{self, Claim, Claimed};

impl Executor {
    /// Claims up to `limit` pieces of due work of lanes that do not hold enough already. Answers
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
        self.lanes.push(self.aim(claimed, now).await);
        Ok(count)
    }

    /// Lets the next claim begin after the last lane of this one; from the start if there was
    /// but one.
    fn turn(&self, claimed: &[Claimed]) {
        let lanes = claimed.iter().map(|held| held.action.lane);
        let (first, last) = (lanes.clone().min(), lanes.max());
        let next = if first == last { Uuid::nil() } else { last.unwrap_or_default() };
        *self.cursor.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// What claimed work asks for and where that leads. It is under lease already, or will be: what can't
    /// be read now is read again when the work is performed.
    pub(super) async fn aim(&self, claimed: Vec<Claimed>, now: DateTime<Utc>) -> Vec<Work> {
        if claimed.is_empty() {
            return Vec::new();
        }
        let jobs: Vec<_> = claimed.iter().map(|held| Job::of(&held.action)).collect();
        let places: HashSet<_> = jobs.iter().map(Job::place).collect();
        let targets = self.targets.load(&self.app, &places, now).await.inspect_err(|error| {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "where claimed work leads can't be read now"
            );
        });
        let start_before = now + self.start_within();
        let work = claimed.into_iter().zip(jobs).map(|(claimed, job)| {
            let target = match &targets {
                Ok(targets) => targets.get(&job.place()).cloned().unwrap_or(Target::Gone),
                Err(_) => Target::unread(job.place()),
            };
            let target = Held { target, known_at: now };
            Work { claimed, job, target, start_before }
        });
        work.collect()
    }
}
