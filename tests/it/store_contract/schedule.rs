//! Due triggers, their windows, and the ledger of occurrences.

use std::collections::HashSet;

use trigger_manager::domain::access::Scope;
use trigger_manager::domain::id::OccurrenceId;
use trigger_manager::domain::trigger::{Occurrence, OccurrenceStatus};
use trigger_manager::store::executor::{self, NextDue, Window};
use trigger_manager::store::trigger;

use super::world::{World, at, number, on_postgres, race, within};
use crate::harness::TestStore;

#[tokio::test]
async fn due_triggers_come_earliest_first_and_no_more_than_asked_for() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for (name, next) in [
        ("third", Some(at(1000))),
        ("first", Some(at(-5000))),
        ("second", Some(at(999))),
        ("not yet", Some(at(1001))),
        ("disabled", None),
    ] {
        world.trigger(name, next).await;
    }
    let names = |limit| {
        let store = world.store.clone();
        async move {
            let tx = store.begin().await.unwrap();
            let due = executor::due_triggers(&*tx, at(1000), limit).await.unwrap();
            tx.commit_unaudited().await.unwrap();
            due.into_iter().map(|due| due.name).collect::<Vec<_>>()
        }
    };
    assert_eq!(names(10).await, ["first", "second", "third"]);
    assert_eq!(names(2).await, ["first", "second"]);
}

#[tokio::test]
async fn two_passes_at_once_never_take_one_trigger() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for number in 0..10 {
        world.trigger(&format!("trigger {number}"), Some(at(number))).await;
    }
    if !on_postgres(&store) {
        // One writer: while a pass is open, no other begins. The barrier is the engine's own.
        let taken = race(|_| {
            let store = world.store.clone();
            async move {
                let tx = store.begin().await.unwrap();
                let due = executor::due_triggers(&*tx, at(1000), 3).await.unwrap();
                let windows: Vec<_> = due
                    .iter()
                    .map(|due| Window {
                        trigger_id: due.id,
                        evaluated_at: at(1000),
                        next_fire_at: None,
                    })
                    .collect();
                executor::move_windows(&*tx, &windows).await.unwrap();
                tx.commit_unaudited().await.unwrap();
                due.into_iter().map(|due| due.id).collect::<Vec<_>>()
            }
        })
        .await;
        let taken: Vec<_> = taken.into_iter().flatten().collect();
        assert_eq!(taken.len(), 10);
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 10);
        return;
    }
    let (one, other) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    let first = executor::due_triggers(&*one, at(1000), 4).await.unwrap();
    let second = executor::due_triggers(&*other, at(1000), 100).await.unwrap();
    assert_eq!((first.len(), second.len()), (4, 6));
    let ids: HashSet<_> = first.iter().chain(&second).map(|due| due.id).collect();
    assert_eq!(ids.len(), 10);
}

#[tokio::test]
async fn moving_windows_changes_the_window_and_nothing_else() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (moved, ended, other) = (
        world.trigger("moved", Some(at(1))).await,
        world.trigger("ended", Some(at(2))).await,
        world.trigger("other", Some(at(3))).await,
    );
    let windows = [
        Window { trigger_id: moved.id, evaluated_at: at(1001), next_fire_at: Some(at(60_000)) },
        Window { trigger_id: ended.id, evaluated_at: at(1002), next_fire_at: None },
    ];
    within!(store, |tx| executor::move_windows(&*tx, &windows));
    let find = |id| trigger::find(store.read(), Scope::Everything, id);
    let mut expected = moved.clone();
    (expected.evaluated_at, expected.next_fire_at) = (at(1001), Some(at(60_000)));
    assert_eq!(find(moved.id).await.unwrap(), expected);
    let mut expected = ended.clone();
    (expected.evaluated_at, expected.next_fire_at) = (at(1002), None);
    assert_eq!(find(ended.id).await.unwrap(), expected);
    assert_eq!(find(other.id).await.unwrap(), other);
    within!(store, |tx| executor::move_windows(&*tx, &[]));
    assert_eq!(executor::active_triggers(store.read()).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_passes_that_write_one_due_time_one_does() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", None).await;
    let written = race(|_| {
        // Each racer has ids of its own for the same three due times, in an order of its own.
        let mut occurrences: Vec<_> =
            [0, 1000, 2000].map(|due| world.new_occurrence(&trigger, at(due))).into();
        let by = usize::from(occurrences[0].id.0.as_bytes()[15]) % 3;
        occurrences.rotate_left(by);
        let store = world.store.clone();
        async move {
            let tx = store.begin().await.unwrap();
            let answer = executor::insert_occurrences(&*tx, &occurrences).await;
            let answer = match answer {
                // Rows in another order may deadlock; whoever lost repeats, and finds them there.
                Err(error) if error.code() == "BUSY" => {
                    drop(tx);
                    let tx = store.begin().await.unwrap();
                    let again = executor::insert_occurrences(&*tx, &occurrences).await.unwrap();
                    tx.commit_unaudited().await.unwrap();
                    return again;
                }
                other => other.unwrap(),
            };
            tx.commit_unaudited().await.unwrap();
            answer
        }
    })
    .await;
    let answered: Vec<OccurrenceId> = written.into_iter().flatten().collect();
    assert_eq!(answered.len(), 3, "each due time is written by one racer, and answered to it");
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_occurrence").await, 3);
    let stored = trigger::occurrences_by_ids(store.read(), Scope::Everything, &answered).await;
    assert_eq!(stored.unwrap().len(), 3, "the answered ids are those that stand");
}

#[tokio::test]
async fn writing_occurrences_answers_only_the_new_ones() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", None).await;
    let (old, new) =
        (world.new_occurrence(&trigger, at(0)), world.new_occurrence(&trigger, at(1000)));
    let written =
        within!(store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&old)));
    assert_eq!(written, HashSet::from([old.id]));
    let again = [world.new_occurrence(&trigger, at(0)), new.clone()];
    let written = within!(store, |tx| executor::insert_occurrences(&*tx, &again));
    assert_eq!(written, HashSet::from([new.id]));
    let one = world.new_occurrence(&trigger, at(1000));
    assert!(!within!(store, |tx| trigger::insert_occurrence(&*tx, &one)));
    let other = world.new_occurrence(&trigger, at(1001));
    assert!(within!(store, |tx| trigger::insert_occurrence(&*tx, &other)));
}

fn full(world: &World, trigger: &trigger_manager::domain::trigger::Trigger) -> Occurrence {
    Occurrence {
        until_at: Some(at(9001)),
        occurrences: 9,
        status: OccurrenceStatus::Skipped,
        reason: Some("window_cap".to_owned()),
        deliveries: 3,
        fan_out_attempts: 2,
        next_attempt_at: Some(at(7003)),
        created_at: at(5),
        finished_at: Some(at(6)),
        ..world.new_occurrence(trigger, at(1))
    }
}

#[tokio::test]
async fn every_field_of_an_occurrence_is_read_as_it_was_written() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", None).await;
    let batch = full(&world, &trigger);
    within!(store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&batch)));
    assert_eq!(world.reread_occurrence(&batch).await, batch);
    let single = Occurrence { delivered: 1, failed: 2, ..full(&world, &trigger) };
    let single = Occurrence { scheduled_at: at(2), ..single };
    within!(store, |tx| trigger::insert_occurrence(&*tx, &single));
    assert_eq!(world.reread_occurrence(&single).await, single);
}

#[tokio::test]
async fn the_latest_occurrence_of_each_trigger_is_found_at_once() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (one, other, never) = (
        world.trigger("one", None).await,
        world.trigger("other", None).await,
        world.trigger("never", None).await,
    );
    let mut latest = HashSet::new();
    for (trigger, due) in [(&one, [0, 2000, 1000]), (&other, [500, 400, 300])] {
        for due in due {
            let occurrence = world.new_occurrence(trigger, at(due));
            within!(store, |tx| executor::insert_occurrences(
                &*tx,
                std::slice::from_ref(&occurrence)
            ));
            if due == 2000 || due == 500 {
                latest.insert(occurrence.id);
            }
        }
    }
    let found =
        trigger::latest_occurrences(store.read(), &[one.id, other.id, never.id]).await.unwrap();
    assert_eq!(found.iter().map(|found| found.id).collect::<HashSet<_>>(), latest);
    assert!(trigger::latest_occurrences(store.read(), &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn nothing_is_due_next_where_there_is_nothing() {
    let store = TestStore::new().await;
    assert_eq!(executor::next_due(store.read()).await.unwrap(), NextDue::default());
    World::new(&store).await.trigger("disabled", None).await;
    let next = executor::next_due(store.read()).await.unwrap();
    assert_eq!((next, next.earliest()), (NextDue::default(), None));
}

#[tokio::test]
async fn what_is_due_next_is_the_earliest_of_each_kind() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.trigger("later", Some(at(9501))).await;
    let trigger = world.trigger("trigger", Some(at(9500))).await;
    for next in [8001, 8000] {
        let mut waiting = world.new_occurrence(&trigger, at(next));
        waiting.next_attempt_at = Some(at(next));
        within!(store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&waiting)));
    }
    for due in [7002, 7001] {
        world.occurrence_of(&trigger, at(due), &[backend.id]).await;
    }
    let mut expected = NextDue {
        trigger_at: Some(at(9500)),
        action_at: Some(at(7001)),
        waiting_at: Some(at(8000)),
        ..NextDue::default()
    };
    let next = executor::next_due(store.read()).await.unwrap();
    assert_eq!((next, next.earliest()), (expected, Some(at(7001))));
    world.claim(at(7002)).await;
    expected.action_at = None;
    let next = executor::next_due(store.read()).await.unwrap();
    assert_eq!(next, expected, "what is being worked on is not due");
    assert_eq!(next.earliest(), Some(at(8000)));
}

#[tokio::test]
async fn windows_of_triggers_without_a_zone_are_restarted_and_no_others() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (mine, disabled) =
        (world.trigger("mine", Some(at(1))).await, world.trigger("disabled", None).await);
    let mut zoned = world.new_trigger("zoned", Some(at(2)));
    zoned.time_zone = Some("Asia/Bangkok".to_owned());
    within!(store, |tx| trigger::insert(&*tx, &zoned));
    let restarted = within!(store, |tx| trigger::restart_windows_without_zone(&*tx, at(5000)));
    assert_eq!(restarted, 1);
    let find = |id| trigger::find(store.read(), Scope::Everything, id);
    let found = find(mine.id).await.unwrap();
    assert_eq!((found.evaluated_at, found.next_fire_at), (at(5000), Some(at(5000))));
    assert_eq!(find(disabled.id).await.unwrap(), disabled);
    assert_eq!(find(zoned.id).await.unwrap(), zoned);
}
