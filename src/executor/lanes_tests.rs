use std::collections::BTreeMap;

use chrono::{Duration, TimeZone};
use futures::FutureExt;
use uuid::Uuid;

use super::*;
use crate::domain::delivery::{ActionStatus, Delivery};
use crate::domain::id::{ApplicationId, BackendId, OccurrenceId, ScheduledActionId, TriggerId};
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
    let claimed = Claimed { action: delivery.into(), lease };
    let target = Held { target: Target::Gone, known_at: now() };
    let job = Job::of(&claimed.action);
    Work { claimed, job, target, start_before: now() + Duration::seconds(25) }
}

fn started(lanes: &Lanes) -> BTreeMap<BackendId, usize> {
    let mut started = BTreeMap::new();
    while let Some(work) = lanes.next(now()) {
        *started.entry(BackendId(work.claimed.action.lane)).or_default() += 1;
    }
    started
}

#[test]
fn a_backend_gets_no_more_than_its_slots() {
    let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
    lanes.push((0..20).map(|_| work(app, backend)));
    assert_eq!(started(&lanes)[&backend], 4);
    assert_eq!((lanes.queued(), lanes.in_flight()), (16, 4));
    lanes.done(backend.0, app.0, Some(true));
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
        lanes.done(backend.0, app.0, Some(false));
    }
    assert_eq!(started(&lanes)[&backend], PROBATION);
    assert_eq!(lanes.full(), [backend.0]);
    assert_eq!(lanes.startable(), PROBATION, "what can't start does not count as held");
    lanes.done(backend.0, app.0, Some(true));
    assert_eq!(started(&lanes)[&backend], 3);
}

#[test]
fn a_backend_that_moved_is_no_longer_on_probation() {
    let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
    lanes.push((0..20).map(|_| work(app, backend)));
    assert_eq!(started(&lanes)[&backend], 4);
    for _ in 0..4 {
        lanes.done(backend.0, app.0, Some(false));
    }
    lanes.moved(backend.0);
    assert_eq!(started(&lanes)[&backend], 4);
}

#[test]
fn an_unknown_backend_begins_with_few_slots_and_gets_more_with_every_answer() {
    let limits = Limits { total: 500, per_application: 500, per_backend: 35, low_water: 0 };
    let (lanes, app, backend) = (Lanes::new(limits), ApplicationId::new(), BackendId::new());
    lanes.push((0..200).map(|_| work(app, backend)));
    assert_eq!(started(&lanes)[&backend], BEGINNING);
    lanes.done(backend.0, app.0, Some(true));
    assert_eq!(started(&lanes)[&backend], 11);
    lanes.done(backend.0, app.0, Some(true));
    assert_eq!(started(&lanes)[&backend], 16);
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
        lanes.done(backend.0, app.0, Some(true));
    }
    assert!(lanes.next(now()).is_none());
    assert_eq!(lanes.in_flight(), 0);
}

fn was_rung(lanes: &Lanes) -> bool {
    lanes.room.notified().now_or_never().is_some()
}

#[test]
fn more_is_asked_for_when_little_is_left_and_when_a_backend_does_not_answer() {
    let limits = Limits { total: 10, per_application: 10, per_backend: 10, low_water: 2 };
    let (lanes, app, backend) = (Lanes::new(limits), ApplicationId::new(), BackendId::new());
    lanes.push((0..5).map(|_| work(app, backend)));
    let rung: Vec<_> = (0..5)
        .map(|_| {
            assert!(lanes.next(now()).is_some());
            was_rung(&lanes)
        })
        .collect();
    assert_eq!(rung, [false, false, true, false, false]);
    lanes.done(backend.0, app.0, Some(true));
    assert!(!was_rung(&lanes));
    lanes.done(backend.0, app.0, Some(false));
    assert!(was_rung(&lanes));
}

#[test]
fn no_more_runs_than_the_limit_in_all() {
    let lanes = lanes();
    lanes.push((0..20).map(|_| work(ApplicationId::new(), BackendId::new())));
    assert_eq!((lanes.free(), lanes.startable()), (10, 20));
    for _ in 0..8 {
        assert!(lanes.next(now()).is_some());
    }
    assert_eq!((lanes.free(), lanes.in_flight(), lanes.queued()), (2, 8, 12));
    assert_eq!(started(&lanes).len(), 2);
    assert_eq!((lanes.free(), lanes.in_flight()), (0, 10));
}

#[test]
fn an_applications_slots_come_free_one_by_one() {
    let (lanes, app) = (lanes(), ApplicationId::new());
    let backends = [BackendId::new(), BackendId::new(), BackendId::new()];
    lanes.push((0..30).map(|n| work(app, backends[n % 3])));
    assert_eq!(started(&lanes).values().sum::<usize>(), 6);
    lanes.done(backends[0].0, app.0, Some(true));
    assert_eq!(started(&lanes).values().sum::<usize>(), 1);
}

#[test]
fn what_is_known_of_an_idle_backend_is_forgotten_unless_it_is_silent() {
    let limits = Limits { total: 500, per_application: 500, per_backend: 35, low_water: 0 };
    let (lanes, app, backend) = (Lanes::new(limits), ApplicationId::new(), BackendId::new());
    let fill = || {
        lanes.push((0..50).map(|_| work(app, backend)));
        started(&lanes).values().sum::<usize>()
    };
    lanes.push((0..2).map(|_| work(app, backend)));
    assert_eq!(started(&lanes)[&backend], 2);
    lanes.done(backend.0, app.0, Some(true));
    assert_eq!(fill(), 19, "it is not idle, and has twice the slots");
    lanes.drain();
    for _ in 0..20 {
        lanes.done(backend.0, app.0, Some(true));
    }
    assert_eq!(fill(), BEGINNING);
    lanes.drain();
    for _ in 0..BEGINNING {
        lanes.done(backend.0, app.0, Some(false));
    }
    assert_eq!(fill(), PROBATION);
}

#[test]
fn a_lane_is_full_and_has_room_by_its_slots() {
    let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
    assert_eq!((lanes.most_of_a_lane(), lanes.room_of(backend.0)), (20, 40));
    lanes.push((0..19).map(|_| work(app, backend)));
    assert_eq!((lanes.full(), lanes.room_of(backend.0)), (vec![], 21));
    lanes.push([work(app, backend)]);
    assert_eq!((lanes.full(), lanes.room_of(backend.0)), (vec![backend.0], 20));
    lanes.push((0..80).map(|_| work(app, backend)));
    assert_eq!((lanes.startable(), lanes.room_of(backend.0)), (40, 0));
}

#[test]
fn a_silent_lane_has_room_for_what_it_may_try() {
    let (lanes, app, backend) = (lanes(), ApplicationId::new(), BackendId::new());
    lanes.push((0..3).map(|_| work(app, backend)));
    assert_eq!(started(&lanes)[&backend], 3);
    for _ in 0..2 {
        lanes.done(backend.0, app.0, Some(false));
    }
    assert_eq!((lanes.full(), lanes.room_of(backend.0)), (vec![], 1));
    lanes.push([work(app, backend)]);
    assert_eq!((lanes.full(), lanes.room_of(backend.0)), (vec![backend.0], 0));
}
