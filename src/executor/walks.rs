//! Whose turn it is to be walked, and what went wrong with whom.
//!
//! Cycles take turns, so that none waits for one that is large or can't be walked. After each
//! failure in a row a cycle is walked in steps half as large, until one user is alone; that user is
//! then left out as failed, and the walk goes on behind. A cycle of which many users in a row are
//! left out, or not even that can be recorded, has failed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::domain::id::CycleId;
use crate::error::Error;

/// How many users are handled in one transaction.
const WALK: u64 = 1_000;
/// After so many failures in a row a user is alone, whatever the beginning.
const ALONE: u32 = 10;
/// After so many failures in a row a user who is alone is left out.
const HOPELESS: u32 = 12;
/// After so many failures in a row it is the cycle that can't be walked.
const FAILED: u32 = 15;
/// After so many users in a row that were left out, too.
const LEFT_OUT_MAX: u32 = 10;
/// Cycles whose failures are remembered.
const KEPT: usize = 1_000;

#[derive(Default)]
pub(super) struct Walks(Mutex<State>);

#[derive(Default)]
struct State {
    /// The cycle that was walked last.
    after: Uuid,
    troubles: HashMap<CycleId, Trouble>,
}

#[derive(Clone, Copy, Default)]
struct Trouble {
    failures: u32,
    left_out: u32,
}

/// How a cycle goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The next users, so many at the most.
    Users(u64),
    /// The next user is left out.
    LeaveOut,
    /// It has failed.
    GiveUp,
}

impl Trouble {
    fn step(self) -> Step {
        match self.failures {
            _ if self.left_out >= LEFT_OUT_MAX => Step::GiveUp,
            FAILED.. => Step::GiveUp,
            HOPELESS.. => Step::LeaveOut,
            failures => Step::Users(WALK.checked_shr(failures).unwrap_or_default().max(1)),
        }
    }
}

impl Walks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cycle behind which the next turn begins.
    pub fn after(&self) -> CycleId {
        self.state().after.into()
    }

    /// A cycle has its turn. Counted as a failure until it [`went`](Self::went) well, since a step
    /// that takes too long is dropped.
    pub fn begin(&self, cycle: CycleId) -> Step {
        let mut state = self.state();
        state.after = cycle.0;
        if state.troubles.len() >= KEPT {
            state.troubles.clear();
        }
        let trouble = state.troubles.entry(cycle).or_default();
        let step = trouble.step();
        trouble.failures += 1;
        step
    }

    /// The step is recorded.
    pub fn went(&self, cycle: CycleId, step: Step) {
        let mut state = self.state();
        if step != Step::LeaveOut {
            state.troubles.remove(&cycle);
        } else if let Some(trouble) = state.troubles.get_mut(&cycle) {
            (trouble.failures, trouble.left_out) = (ALONE, trouble.left_out + 1);
        }
    }

    /// The step failed. That the database can't take it now is not the cycle's failure.
    pub fn failed(&self, cycle: CycleId, error: &Error) {
        if matches!(error, Error::Busy)
            && let Some(trouble) = self.state().troubles.get_mut(&cycle)
        {
            trouble.failures = trouble.failures.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_that_fails_is_walked_in_ever_smaller_steps_until_a_user_is_left_out() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        let steps: Vec<_> = (0..13).map(|_| walks.begin(cycle)).collect();
        assert_eq!(steps[..3], [Step::Users(1000), Step::Users(500), Step::Users(250)]);
        assert_eq!(steps[ALONE as usize - 1..12], [Step::Users(1); 3]);
        assert_eq!(steps[12], Step::LeaveOut);
        walks.went(cycle, Step::LeaveOut);
        assert_eq!(walks.begin(cycle), Step::Users(1), "the next user may be like it");
        walks.went(cycle, Step::Users(1));
        assert_eq!(walks.begin(cycle), Step::Users(1000));
    }

    #[test]
    fn the_next_turn_begins_behind_the_cycle_that_had_the_last_one() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        walks.begin(cycle);
        assert_eq!(walks.after(), cycle);
    }

    #[test]
    fn the_failures_of_so_many_cycles_are_remembered_and_no_more() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        walks.begin(cycle);
        for _ in 1..KEPT {
            walks.begin(CycleId::new());
        }
        assert_eq!(walks.state().troubles.len(), KEPT);
        walks.begin(CycleId::new());
        assert_eq!(walks.state().troubles.len(), 1);
        assert_eq!(walks.begin(cycle), Step::Users(1000), "it begins anew");
    }

    #[test]
    fn a_cycle_whose_users_all_fail_is_given_up() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        let mut left_out = 0;
        for _ in 0..100 {
            match walks.begin(cycle) {
                Step::Users(_) => walks.failed(cycle, &Error::internal("no")),
                Step::LeaveOut => {
                    left_out += 1;
                    walks.went(cycle, Step::LeaveOut);
                }
                Step::GiveUp => break,
            }
        }
        assert_eq!(left_out, LEFT_OUT_MAX);
    }

    #[test]
    fn a_cycle_of_which_not_even_a_failure_can_be_recorded_is_given_up() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        let steps: Vec<_> = (0..=FAILED).map(|_| walks.begin(cycle)).collect();
        assert_eq!(steps[steps.len() - 2..], [Step::LeaveOut, Step::GiveUp]);
    }

    #[test]
    fn that_the_database_is_busy_is_not_the_cycles_failure() {
        let (walks, cycle) = (Walks::default(), CycleId::new());
        for _ in 0..50 {
            assert_eq!(walks.begin(cycle), Step::Users(1000));
            walks.failed(cycle, &Error::Busy);
        }
    }
}
