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
            let work =
                if free || first.start_before <= now { lane.queue.pop_front() } else { None };
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
        let held: Vec<_> = state.lanes.values_mut().flat_map(|lane| lane.queue.drain(..)).collect();
        state.queued = 0;
        held
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chrono::{Duration, TimeZone};
    use uuid::Uuid;

    use super::*;
    use crate::domain::delivery::{ActionStatus, Delivery};
    use crate::domain::id::{OccurrenceId, ScheduledActionId, TriggerId};
    use crate::domain::trigger::Payload;
    use crate::store::executor::Lease;

    fn now() -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
    }

    fn lanes() -> Lanes {
        Lanes::new(Limits { total: 10, per_application: 6, per_backend: 4, low_water: 0 })
    }

    fn work(application_id: ApplicationId, backend_id: BackendId) -> Work {
        let trigger_id = TriggerId::new();
        let payload = Payload {
            trigger_id,
            trigger_name: String::new(),
            cron_expression: String::new(),
            run_key: String::new(),
            executed_at: String::new(),
        };
        let delivery = Delivery {
            id: ScheduledActionId::new(),
            trigger_id,
            occurrence_id: OccurrenceId::new(),
            application_id,
            backend_id,
            status: ActionStatus::Processing,
            payload,
            retry_count: 0,
            attempts_before: 0,
            execute_at: now(),
            expires_at: None,
            executed_at: None,
            last_error: None,
            created_at: now(),
            updated_at: now(),
        };
        let lease = Lease { token: Uuid::new_v4(), until: now() };
        let claimed = Claimed { delivery, lease };
        Work { claimed, target: Target::Gone, start_before: now() + Duration::seconds(25) }
    }

    fn started(lanes: &Lanes) -> BTreeMap<BackendId, usize> {
        let mut started = BTreeMap::new();
        while let Some(work) = lanes.next(now()) {
            *started.entry(work.claimed.delivery.backend_id).or_default() += 1;
        }
        started
    }

    #[test]
    fn a_backend_gets_no_more_than_its_slots() {
        let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
        lanes.push((0..20).map(|_| work(app, backend)));
        assert_eq!(started(&lanes)[&backend], 4);
        assert_eq!((lanes.queued(), lanes.in_flight()), (16, 4));
        lanes.done(backend, app, Some(true));
        assert_eq!(started(&lanes)[&backend], 1);
    }

    #[test]
    fn an_application_gets_no_more_than_its_slots_over_all_its_backends() {
        let (lanes, app) = (lanes(), ApplicationId::new());
        let backends = [BackendId::new(), BackendId::new(), BackendId::new()];
        lanes.push((0..30).map(|n| work(app, backends[n % 3])));
        assert_eq!(started(&lanes).values().sum::<usize>(), 6);
    }

    #[test]
    fn a_busy_backend_does_not_keep_another_from_its_turn() {
        let lanes = lanes();
        let (busy, other) = (BackendId::new(), BackendId::new());
        lanes.push((0..1000).map(|_| work(ApplicationId::new(), busy)));
        lanes.push([work(ApplicationId::new(), other)]);
        let started = started(&lanes);
        assert_eq!((started[&busy], started[&other]), (4, 1));
    }

    #[test]
    fn a_backend_that_does_not_answer_is_on_probation_until_it_does() {
        let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
        lanes.push((0..20).map(|_| work(app, backend)));
        assert_eq!(started(&lanes)[&backend], 4);
        for _ in 0..4 {
            lanes.done(backend, app, Some(false));
        }
        assert_eq!(started(&lanes)[&backend], PROBATION);
        assert_eq!(lanes.full(), [backend]);
        lanes.done(backend, app, Some(true));
        assert_eq!(started(&lanes)[&backend], 3);
    }

    #[test]
    fn work_that_is_held_too_long_comes_out_although_no_slot_is_free() {
        let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
        lanes.push((0..6).map(|_| work(app, backend)));
        assert_eq!(started(&lanes)[&backend], 4);
        assert!(lanes.next(now()).is_none());
        assert!(lanes.next(now() + Duration::seconds(25)).is_some());
    }

    #[test]
    fn what_is_drained_is_gone_and_what_is_in_flight_is_not_drained() {
        let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
        lanes.push((0..6).map(|_| work(app, backend)));
        assert_eq!(started(&lanes)[&backend], 4);
        assert_eq!(lanes.drain().len(), 2);
        assert_eq!((lanes.queued(), lanes.in_flight()), (0, 4));
        for _ in 0..4 {
            lanes.done(backend, app, Some(true));
        }
        assert!(lanes.next(now()).is_none());
        assert_eq!(lanes.in_flight(), 0);
    }
}
