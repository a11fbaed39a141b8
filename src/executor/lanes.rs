//! What this executor holds and has in flight: one lane a backend or LINE OA, so that one that
//! hangs costs its own slots only.
//!
//! Lanes with work take turns. A lane gives work while it, its group (the application, or the LINE
//! OA) and the executor as a whole have a free slot. A lane begins with few slots and gets more with every
//! answer; a backend whose last attempt got none is on probation: a slot or two, until it
//! answers. What a lane holds beyond its slots can't start, and does not count as held: it must
//! not keep the executor from claiming for others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use uuid::Uuid;

use super::job::Job;
use super::target::Target;
use crate::store::executor::Claimed;

/// How many attempts to a backend that does not answer run at once.
const PROBATION: usize = 2;
/// How many attempts to a backend of which nothing is known run at once.
const BEGINNING: usize = 10;
/// How often the slots of a backend that answers may be filled from what is held before that
/// counts as too much for it.
const TURNS: usize = 10;

/// How many attempts run at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub total: usize,
    pub per_application: usize,
    pub per_backend: usize,
    /// With so much left, more is to be claimed.
    pub low_water: usize,
}

/// Where work goes, as it was read.
#[derive(Clone)]
pub(super) struct Held {
    pub target: Target,
    /// When it was read.
    pub known_at: DateTime<Utc>,
}

/// Claimed work and where it goes.
pub(super) struct Work {
    pub claimed: Claimed,
    pub job: Job,
    pub target: Held,
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
    lanes: HashMap<Uuid, Lane>,
    turns: VecDeque<Uuid>,
    groups: HashMap<Uuid, usize>,
    /// What is queued and can start soon: of each lane no more than its slots allow.
    startable: usize,
    queued: usize,
    in_flight: usize,
}

struct Lane {
    queue: VecDeque<Work>,
    in_flight: usize,
    slots: usize,
    silent: bool,
}

impl Lane {
    fn new(limits: &Limits) -> Self {
        let slots = BEGINNING.min(limits.per_backend);
        Self { queue: VecDeque::new(), in_flight: 0, slots, silent: false }
    }

    /// How much of its queue can start soon.
    fn startable(&self) -> usize {
        let turns = if self.silent { 1 } else { TURNS };
        self.queue.len().min(self.slots * turns)
    }
}

impl State {
    /// Changes a lane, and what is startable with it.
    fn change<T>(&mut self, lane: Uuid, change: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let lane = self.lanes.get_mut(&lane)?;
        let before = lane.startable();
        let answer = change(lane);
        self.startable = self.startable + lane.startable() - before;
        Some(answer)
    }
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
            let lane_id = work.claimed.action.lane;
            let lane = state.lanes.entry(lane_id).or_insert_with(|| Lane::new(&self.limits));
            if lane.queue.is_empty() {
                state.turns.push_back(lane_id);
            }
            state.change(lane_id, |lane| lane.queue.push_back(work));
            state.queued += 1;
        }
    }

    /// Takes the next work out, which counts as in flight until [`Self::done`]. Work that may
    /// not start any more comes out whatever the slots.
    pub fn next(&self, now: DateTime<Utc>) -> Option<Work> {
        let mut guard = self.state();
        let state = &mut *guard;
        for _ in 0..state.turns.len() {
            let lane_id = state.turns.pop_front()?;
            let work = self.take_from(state, lane_id, now);
            if state.lanes.get(&lane_id).is_some_and(|lane| !lane.queue.is_empty()) {
                state.turns.push_back(lane_id);
            }
            let Some(work) = work else { continue };
            let low = state.startable == self.limits.low_water;
            drop(guard);
            if low {
                self.room.notify_one();
            }
            return Some(work);
        }
        None
    }

    fn take_from(&self, state: &mut State, lane_id: Uuid, now: DateTime<Utc>) -> Option<Work> {
        let lane = state.lanes.get(&lane_id)?;
        let first = lane.queue.front()?;
        let group = first.claimed.action.group();
        let running = state.groups.get(&group).copied().unwrap_or_default();
        let free = state.in_flight < self.limits.total
            && running < self.limits.per_application
            && lane.in_flight < lane.slots;
        if !free && first.start_before > now {
            return None;
        }
        let work = state.change(lane_id, |lane| {
            lane.in_flight += 1;
            lane.queue.pop_front()
        });
        *state.groups.entry(group).or_default() += 1;
        state.in_flight += 1;
        state.queued -= 1;
        work.flatten()
    }

    /// Work that [`Self::next`] gave out has ended. `answered`: whether the other side did, none
    /// when it was not asked.
    pub fn done(&self, lane_id: Uuid, group: Uuid, answered: Option<bool>) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.in_flight -= 1;
        if let Some(running) = state.groups.get_mut(&group) {
            *running -= 1;
            if *running == 0 {
                state.groups.remove(&group);
            }
        }
        let most = self.limits.per_backend;
        let over = state.change(lane_id, |lane| {
            lane.in_flight -= 1;
            match answered {
                Some(true) => (lane.silent, lane.slots) = (false, (lane.slots * 2).min(most)),
                Some(false) => (lane.silent, lane.slots) = (true, PROBATION.min(most)),
                None => {}
            }
            lane.in_flight == 0 && lane.queue.is_empty() && !lane.silent
        });
        if over == Some(true) {
            state.lanes.remove(&lane_id);
        }
        if answered == Some(false) {
            self.room.notify_one();
        }
    }

    /// A lane leads to another address: nothing is known of it.
    pub fn moved(&self, lane_id: Uuid) {
        let slots = BEGINNING.min(self.limits.per_backend);
        self.state().change(lane_id, |lane| (lane.silent, lane.slots) = (false, slots));
    }

    /// How much is held that can start soon.
    pub fn startable(&self) -> usize {
        self.state().startable
    }

    /// How much of one lane's work is claimed at once, at most.
    pub fn most_of_a_lane(&self) -> usize {
        self.limits.per_backend * TURNS / 2
    }

    /// How much of a lane's work may be taken in now.
    pub fn room_of(&self, lane_id: Uuid) -> usize {
        let state = self.state();
        match state.lanes.get(&lane_id) {
            None => self.limits.per_backend * TURNS,
            Some(lane) if lane.silent => {
                PROBATION.saturating_sub(lane.queue.len() + lane.in_flight)
            }
            Some(lane) => (self.limits.per_backend * TURNS).saturating_sub(lane.queue.len()),
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

    /// The lanes that hold enough already.
    pub fn full(&self) -> Vec<Uuid> {
        let state = self.state();
        let enough = |lane: &Lane| match lane.silent {
            true => lane.queue.len() + lane.in_flight >= PROBATION,
            false => lane.queue.len() >= lane.slots * TURNS / 2,
        };
        state.lanes.iter().filter(|(_, lane)| enough(lane)).map(|(id, _)| *id).collect()
    }

    /// Takes out all that is not in flight: to be given back when the executor ends.
    pub fn drain(&self) -> Vec<Work> {
        let mut state = self.state();
        state.turns.clear();
        state.startable = 0;
        let held: Vec<_> = state.lanes.values_mut().flat_map(|lane| lane.queue.drain(..)).collect();
        state.queued = 0;
        held
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
