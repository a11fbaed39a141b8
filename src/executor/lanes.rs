//! What this executor holds and has in flight: one lane a backend, so that a backend that hangs
//! costs its own slots only.
//!
//! Lanes with work take turns. A lane gives work while its backend, its application and the
//! executor as a whole have a free slot. A backend whose last attempt got no answer is on
//! probation: a few slots, until it answers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::target::Target;
use crate::domain::id::{ApplicationId, BackendId};
use crate::store::executor::Claimed;

/// How many attempts to a backend that does not answer run at once.
const PROBATION: usize = 2;

/// How many attempts run at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub total: usize,
    pub per_application: usize,
    pub per_backend: usize,
    /// With so much left, more is to be claimed.
    pub low_water: usize,
}

/// A claimed delivery and where it goes.
pub(super) struct Work {
    pub claimed: Claimed,
    pub target: Target,
    /// From then on it is given back rather than started.
    pub start_before: DateTime<Utc>,
}

pub(super) struct Lanes {
    limits: Limits,
    state: Mutex<State>,
    /// Rung when so little is left that more is to be claimed.
    pub room: Notify,
}

#[derive(Default)]
struct State {
    lanes: HashMap<BackendId, Lane>,
    turns: VecDeque<BackendId>,
    applications: HashMap<ApplicationId, usize>,
    queued: usize,
    in_flight: usize,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<Work>,
    in_flight: usize,
    silent: bool,
}

impl Lanes {
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default(), room: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes work in.
    pub fn push(&self, work: impl IntoIterator<Item = Work>) {
        let mut guard = self.state();
        let state = &mut *guard;
        for work in work {
            let backend = work.claimed.delivery.backend_id;
            let lane = state.lanes.entry(backend).or_default();
            if lane.queue.is_empty() {
                state.turns.push_back(backend);
            }
            lane.queue.push_back(work);
            state.queued += 1;
        }
    }

    /// Takes the next work out, which counts as in flight until [`Self::done`]. Work that may
    /// not start any more comes out whatever the slots.
    pub fn next(&self, now: DateTime<Utc>) -> Option<Work> {
        let mut guard = self.state();
        let state = &mut *guard;
        for _ in 0..state.turns.len() {
            let backend = state.turns.pop_front()?;
            let Some(lane) = state.lanes.get_mut(&backend) else { continue };
            let Some(first) = lane.queue.front() else { continue };
            let application = first.claimed.delivery.application_id;
            let running = state.applications.get(&application).copied().unwrap_or_default();
            let slots = if lane.silent { PROBATION } else { self.limits.per_backend };
            let free = state.in_flight < self.limits.total
                && running < self.limits.per_application
                && lane.in_flight < slots.min(self.limits.per_backend);
            let work = if free || first.start_before <= now { lane.queue.pop_front() } else { None };
            if !lane.queue.is_empty() {
                state.turns.push_back(backend);
            }
            let Some(work) = work else { continue };
            lane.in_flight += 1;
            *state.applications.entry(application).or_default() += 1;
            state.in_flight += 1;
            state.queued -= 1;
            let low = state.queued == self.limits.low_water;
            drop(guard);
            if low {
                self.room.notify_one();
            }
            return Some(work);
        }
        None
    }

    /// Work that [`Self::next`] gave out has ended. `answered`: whether the backend did, none
    /// when it was not asked.
    pub fn done(&self, backend: BackendId, application: ApplicationId, answered: Option<bool>) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.in_flight -= 1;
        if let Some(running) = state.applications.get_mut(&application) {
            *running -= 1;
            if *running == 0 {
                state.applications.remove(&application);
            }
        }
        let Some(lane) = state.lanes.get_mut(&backend) else { return };
        lane.in_flight -= 1;
        if let Some(answered) = answered {
            lane.silent = !answered;
        }
        if lane.in_flight == 0 && lane.queue.is_empty() && !lane.silent {
            state.lanes.remove(&backend);
        }
    }

    /// How much is held and not in flight.
    pub fn queued(&self) -> usize {
        self.state().queued
    }

    /// How many attempts run.
    pub fn in_flight(&self) -> usize {
        self.state().in_flight
    }

    /// How many attempts could start now, by the limit in all.
    pub fn free(&self) -> usize {
        self.limits.total.saturating_sub(self.in_flight())
    }

    /// The backends that hold enough already.
    pub fn full(&self) -> Vec<BackendId> {
        let state = self.state();
        let enough = |lane: &Lane| match lane.silent {
            true => lane.queue.len() + lane.in_flight >= PROBATION,
            false => lane.queue.len() >= self.limits.per_backend,
        };
        state.lanes.iter().filter(|(_, lane)| enough(lane)).map(|(id, _)| *id).collect()
    }

    /// Takes out all that is not in flight: to be given back when the executor ends.
    pub fn drain(&self) -> Vec<Work> {
        let mut state = self.state();
        state.turns.clear();
        let held: Vec<_> =
            state.lanes.values_mut().flat_map(|lane| lane.queue.drain(..)).collect();
        state.queued = 0;
        held
    }
}
