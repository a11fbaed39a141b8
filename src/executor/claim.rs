//! Claiming: due work comes under a lease and into the lanes.

use std::collections::{BTreeSet, HashSet};
use std::sync::PoisonError;

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::Executor;
use super::job::Job;
use super::lanes::{Held, Work};
use super::target::Target;
use crate::domain::scheduled_action::ScheduledAction;
use crate::error::Result;
use crate::store::executor::{self, Claim, Claimed};
use crate::store::withdrawal::{self, Owners};

/// For how long what is being taken back is given back: it is cancelled before, as a rule.
const WITHDRAWN: Duration = Duration::minutes(1);
/// For how long work is given back of which it is not known whether it is being taken back.
const UNKNOWN: Duration = Duration::seconds(1);
/// Over how many lanes a claim is spread at the most.
const SPREAD_MAX: usize = 50;

/// Where claims are: lanes take turns, and a claim takes a little of each lane that has work rather
/// than much of a few. Work that was made together stands together in the table, whatever its lane,
/// so that such a claim touches fewer pages; and many backends are called at once.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The lane after which the next claim begins.
    after: Uuid,
    /// Over how many lanes it is spread; 0 while nothing is known.
    spread: usize,
    /// The lanes that the last claim took from.
    last: BTreeSet<Uuid>,
}

impl Turn {
    /// How much of one lane a claim of `limit` takes.
    fn share(&self, limit: u64) -> u64 {
        limit.div_ceil(self.spread.max(1) as u64)
    }

    /// A claim took from these lanes, from the one after `after` on and then from the first. One that
    /// was not `filled` has seen all lanes that have work; of one that was, the lanes of the claim
    /// before it may have more.
    fn took(&mut self, lanes: BTreeSet<Uuid>, filled: bool) {
        let known = if filled { self.last.union(&lanes).count() } else { lanes.len() };
        self.spread = known.min(SPREAD_MAX);
        let is_alone = lanes.len() == 1 && !filled;
        let ended_at = lanes.range(..=self.after).next_back().or(lanes.last()).copied();
        self.after = ended_at.filter(|_| !is_alone).unwrap_or_default();
        self.last = lanes;
    }
}

impl Executor {
    /// Claims up to `limit` pieces of due work of lanes that do not hold enough already. Answers
    /// how many. After a crash they are due again when the lease ends.
    pub async fn claim(&self, now: DateTime<Utc>, limit: u64) -> Result<usize> {
        let full = self.lanes.full();
        let (start_after, share) = {
            let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            (turn.after, turn.share(limit))
        };
        let lease = self.lease(now);
        let per_lane = (self.lanes.most_of_a_lane() as u64).min(share);
        let claim = Claim { now, lease, limit, per_lane, start_after, without: &full };
        let claimed = executor::claim(&self.app.store, claim).await?;
        let count = claimed.len();
        let lanes = claimed.iter().map(|held| held.action.lane).collect();
        let filled = count as u64 == limit;
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).took(lanes, filled);
        let mut work = self.aim(claimed, now).await;
        if count > 0 {
            // Read behind the claim: a withdrawal does not end before what was claimed is given back.
            let withdrawn = withdrawal::owners(self.app.store.read()).await;
            work.iter_mut().for_each(|work| withhold(work, &withdrawn));
        }
        self.lanes.push(work);
        Ok(count)
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

/// Lets work not be started that is being taken back, or of which that is not known.
fn withhold(work: &mut Work, withdrawn: &Result<Owners>) {
    let pause = match withdrawn {
        Ok(owners) if !is_taken_back(&work.claimed.action, owners) => return,
        Ok(_) => WITHDRAWN,
        Err(_) => UNKNOWN,
    };
    work.target.target = Target::Withheld(pause);
}

fn is_taken_back(action: &ScheduledAction, owners: &Owners) -> bool {
    let (cause, concern) = (&action.cause, &action.concern);
    let theirs = [
        cause.trigger_id.map(|id| id.0),
        cause.trigger_rule_id.map(|id| id.0),
        cause.workflow_id.map(|id| id.0),
        concern.backend_id.map(|id| id.0),
        concern.line_oa_id.map(|id| id.0),
    ];
    let made_by_rule = cause.trigger_rule_id.map(|_| action.created_at);
    owners.have(theirs.into_iter().flatten(), made_by_rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 500;

    /// The shares of claims in a row while so many lanes have more work than is claimed.
    fn shares(lanes: u64, claims: usize) -> Vec<u64> {
        let mut turn = Turn::default();
        let shares = (0..claims).map(|_| {
            let share = turn.share(LIMIT);
            let asked = lanes.min(LIMIT.div_ceil(share));
            let after = u64::try_from(turn.after.as_u128()).unwrap_or_default();
            let taken = (0..asked).map(|nth| Uuid::from_u128(((after + nth) % lanes + 1).into()));
            turn.took(taken.collect(), asked * share >= LIMIT);
            share
        });
        shares.collect()
    }

    #[test]
    fn a_claim_takes_of_one_lane_what_it_may() {
        assert_eq!(shares(1, 4), [500, 500, 500, 500]);
    }

    #[test]
    fn claims_are_spread_over_all_lanes_that_have_work() {
        assert_eq!(shares(3, 5), [500, 500, 250, 167, 167]);
        assert_eq!(shares(10, 30)[20..], [50; 10]);
    }

    #[test]
    fn a_claim_is_spread_no_further_than_is_worth_it() {
        assert_eq!(shares(1_000, 30)[20..], [10; 10]);
    }

    #[test]
    fn the_next_claim_begins_after_the_lane_at_which_this_one_ended() {
        let mut turn = Turn::default();
        let mut after = |lanes: [u128; 2]| {
            turn.took(lanes.map(Uuid::from_u128).into(), true);
            turn.after.as_u128()
        };
        assert_eq!([after([1, 2]), after([3, 4]), after([5, 1]), after([2, 3])], [2, 4, 1, 3]);
    }

    #[test]
    fn a_claim_that_was_not_filled_has_seen_all_lanes() {
        let lanes = |count| (1..=count).map(Uuid::from_u128).collect::<BTreeSet<_>>();
        let mut turn = Turn::default();
        turn.took(lanes(40), true);
        turn.took(lanes(4), false);
        assert_eq!((turn.share(LIMIT), turn.after), (125, Uuid::from_u128(4)));
        turn.took(lanes(1), false);
        assert_eq!((turn.share(LIMIT), turn.after), (500, Uuid::nil()), "none to turn to");
        turn.took(lanes(0), false);
        assert_eq!((turn.share(LIMIT), turn.after), (500, Uuid::nil()));
    }
}
