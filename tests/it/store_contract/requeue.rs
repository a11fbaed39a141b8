//! Trying an ended delivery again because somebody asks for it.

use trigger_manager::domain::access::Scope;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::{cancel, delivery};

use super::world::{World, at, within};
use crate::harness::TestStore;

#[tokio::test]
async fn only_what_ended_without_success_is_queued_again() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    for (status, expected) in [
        ("pending", false),
        ("processing", false),
        ("completed", false),
        ("expired", true),
        ("failed", true),
        ("cancelled", true),
    ] {
        let (occurrence, deliveries) = world.occurrence(&[backend.id]).await;
        let id = deliveries[0].id.0.simple();
        let set = match super::world::on_postgres(&store) {
            true => format!("UPDATE scheduled_action SET status = '{status}' WHERE id = '{id}'"),
            false => format!("UPDATE scheduled_action SET status = '{status}' WHERE id = x'{id}'"),
        };
        super::world::execute(&store, &set).await;
        let before =
            (world.reread(&deliveries[0]).await, world.reread_occurrence(&occurrence).await);
        let queued = within!(store, |tx| delivery::requeue(
            &*tx,
            &[deliveries[0].id],
            at(5000),
            at(9_000_000)
        ));
        assert_eq!(queued, u64::from(expected), "{status}");
        if !expected {
            let after =
                (world.reread(&deliveries[0]).await, world.reread_occurrence(&occurrence).await);
            assert_eq!(after, before, "{status}");
        }
    }
}

#[tokio::test]
async fn a_queued_again_delivery_has_a_fresh_budget_and_its_occurrence_ends_anew() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (one, other) = (world.backend("one").await.id, world.backend("other").await.id);
    let (occurrence, _) = world.occurrence(&[one, other]).await;
    world.work_off(at(1000), ActionStatus::Failed).await;
    let failed = delivery::of_occurrences(store.read(), &[occurrence.id]).await.unwrap();
    assert_eq!(world.reread_occurrence(&occurrence).await.status, OccurrenceStatus::Failed);

    within!(store, |tx| delivery::requeue(&*tx, &[failed[0].id], at(5000), at(9_000_000)));
    let queued = world.reread(&failed[0]).await;
    assert_eq!((queued.status, queued.execute_at), (ActionStatus::Pending, at(5000)));
    assert_eq!((queued.expires_at, queued.executed_at), (Some(at(9_000_000)), None));
    assert_eq!(queued.retry_count, 1, "attempts go on counting");
    let open = world.reread_occurrence(&occurrence).await;
    assert_eq!((open.status, open.failed), (OccurrenceStatus::Pending, 1));
    assert_eq!((open.finished_at, open.reason), (None, None));

    assert_eq!(world.work_off(at(5000), ActionStatus::Completed).await.len(), 1);
    let ended = world.reread_occurrence(&occurrence).await;
    assert_eq!(ended.status, OccurrenceStatus::PartiallyDelivered);
    assert_eq!((ended.delivered, ended.failed), (1, 1));
}

#[tokio::test]
async fn a_cancelled_occurrence_of_which_one_delivery_is_queued_again_ends_when_that_one_does() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut backends = Vec::new();
    for number in 0..3 {
        backends.push(world.backend(&format!("backend {number}")).await.id);
    }
    let trigger = world.trigger("trigger", None).await;
    let (occurrence, deliveries) = world.occurrence_of(&trigger, at(0), &backends).await;
    within!(store, |tx| cancel::of_trigger(&*tx, trigger.id, ("trigger_disabled", at(1)), 1_000));
    within!(store, |tx| delivery::requeue(&*tx, &[deliveries[1].id], at(5000), at(9_000_000)));
    assert_eq!(world.work_off(at(5000), ActionStatus::Completed).await.len(), 1);
    let ended = world.reread_occurrence(&occurrence).await;
    assert_eq!((ended.delivered, ended.failed), (1, 2));
    assert_eq!(ended.status, OccurrenceStatus::PartiallyDelivered);
}

#[tokio::test]
async fn work_is_not_due_while_an_attempt_from_before_may_be_under_way_however_often_it_is_retried()
{
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await.id;
    let trigger = world.trigger("trigger", None).await;
    world.occurrence_of(&trigger, at(0), &[backend]).await;
    let held = super::world::claim(&store, at(0), 1, 1).await.remove(0);
    let (id, free) = (held.action.id, held.lease.until);
    for again in 1..4 {
        let why = ("trigger_disabled", at(again));
        within!(store, |tx| cancel::of_trigger(&*tx, trigger.id, why, 1_000));
        within!(store, |tx| delivery::requeue(&*tx, &[id], at(again), at(9_000_000)));
        let application = world.application.id;
        within!(store, |tx| delivery::wake_backends(&tx, application, &[backend], at(again)));
        let queued = delivery::by_ids(store.read(), Scope::Everything, &[id]).await.unwrap();
        let queued = (queued[0].status, queued[0].execute_at);
        assert_eq!(queued, (ActionStatus::Pending, free), "{again}");
    }
}
