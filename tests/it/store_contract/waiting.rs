//! Occurrences that found no backend, and backends that come back.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::{Occurrence, OccurrenceStatus};
use trigger_manager::store::{delivery, executor};

use super::world::{World, at, on_postgres, within};
use crate::harness::TestStore;

async fn waiting(world: &World, next: i64) -> Occurrence {
    let trigger = world.trigger("trigger", None).await;
    let mut waiting = world.new_occurrence(&trigger, at(0));
    waiting.next_attempt_at = Some(at(next));
    waiting.fan_out_attempts = 1;
    within!(world.store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&waiting)));
    waiting
}

#[tokio::test]
async fn occurrences_that_wait_come_when_due_earliest_first_and_no_more_than_asked_for() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (second, first) = (waiting(&world, 2000).await, waiting(&world, 1000).await);
    waiting(&world, 2001).await;
    let read = |limit| {
        let store = world.store.clone();
        async move { within!(store, |tx| executor::waiting_occurrences(&*tx, at(2000), limit)) }
    };
    assert_eq!(read(10).await, [first.clone(), second]);
    assert_eq!(read(1).await, [first]);
}

#[tokio::test]
async fn two_passes_at_once_never_take_one_waiting_occurrence() {
    let store = TestStore::new().await;
    if !on_postgres(&store) {
        return; // One writer: there are no two passes at once.
    }
    let world = World::new(&store).await;
    for next in 0..6 {
        waiting(&world, next).await;
    }
    let (one, other) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    let first = executor::waiting_occurrences(&*one, at(1000), 2).await.unwrap();
    let second = executor::waiting_occurrences(&*other, at(1000), 100).await.unwrap();
    assert_eq!((first.len(), second.len()), (2, 4));
    assert!(first.iter().all(|one| !second.contains(one)));
}

#[tokio::test]
async fn what_a_renewed_fan_out_came_to_is_written() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut fanned = waiting(&world, 1000).await;
    let mut given_up = waiting(&world, 1000).await;
    let other = waiting(&world, 1000).await;
    (fanned.deliveries, fanned.next_attempt_at) = (3, None);
    given_up.status = OccurrenceStatus::Failed;
    given_up.reason = Some("no_active_backend".to_owned());
    (given_up.next_attempt_at, given_up.finished_at) = (None, Some(at(1500)));
    given_up.fan_out_attempts = 7;
    let changed = [fanned.clone(), given_up.clone()];
    within!(store, |tx| executor::update_waiting(&*tx, &changed));
    within!(store, |tx| executor::update_waiting(&*tx, &[]));
    assert_eq!(world.reread_occurrence(&fanned).await, fanned);
    assert_eq!(world.reread_occurrence(&given_up).await, given_up);
    assert_eq!(world.reread_occurrence(&other).await, other);
}

#[tokio::test]
async fn a_backend_that_is_there_again_makes_its_own_work_due_and_no_others() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let elsewhere = World::named(&store, "elsewhere").await;
    let (back, other) = (world.backend("back").await.id, world.backend("other").await.id);
    let (mine, foreign) = (waiting(&world, 90_000).await, waiting(&elsewhere, 90_000).await);
    let trigger = world.trigger("trigger", None).await;
    let (_, later) = world.occurrence_of(&trigger, at(80_000), &[back, other]).await;
    let (_, due) = world.occurrence_of(&trigger, at(500), &[back]).await;
    let failed = "UPDATE scheduled_action SET last_error = 'it failed'";
    super::world::execute(&store, failed).await;
    let later = [world.reread(&later[0]).await, world.reread(&later[1]).await];
    let due = [world.reread(&due[0]).await];
    within!(store, |tx| delivery::wake_backends(&tx, world.application.id, &[back], at(1000)));
    assert_eq!(world.reread(&later[0]).await.execute_at, at(1000));
    assert_eq!(world.reread(&later[1]).await, later[1]);
    assert_eq!(world.reread(&due[0]).await, due[0], "what is due stays in its place");
    assert_eq!(world.reread_occurrence(&mine).await.next_attempt_at, Some(at(1000)));
    assert_eq!(elsewhere.reread_occurrence(&foreign).await, foreign);
    assert_eq!(world.reread(&later[0]).await.status, ActionStatus::Pending);
}
