//! Cancelling what a trigger or a backend has open, also while it is being worked on.

use std::sync::Arc;

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::executor::{self, Claim};
use trigger_manager::store::{cancel, delivery};

use super::world::{World, asking, at, ending, number, patiently, race, record, within};
use crate::harness::TestStore;

#[tokio::test]
async fn cancelling_a_trigger_ends_what_is_open_of_it_and_nothing_else() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (one, other) = (world.backend("one").await.id, world.backend("other").await.id);
    let trigger = world.trigger("trigger", None).await;
    let (done, done_deliveries) = world.occurrence_of(&trigger, at(0), &[one]).await;
    world.work_off(at(10), ActionStatus::Completed).await;
    let (open, _) = world.occurrence_of(&trigger, at(1000), &[one, other]).await;
    let held = super::world::claim(&store, at(1000), 1, 1).await;
    let (bystander, bystander_deliveries) = world.occurrence(&[one]).await;
    let mut waiting = world.new_occurrence(&trigger, at(2000));
    waiting.next_attempt_at = Some(at(3000));
    within!(store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&waiting)));

    let cancelled = within!(store, |tx| cancel::of_trigger(
        &*tx,
        trigger.id,
        ("trigger_deleted", at(1500)),
        1_000
    ));
    assert_eq!(cancelled, (2, false));
    for occurrence in [&open, &waiting] {
        let stored = world.reread_occurrence(occurrence).await;
        assert_eq!(stored.status, OccurrenceStatus::Cancelled);
        assert_eq!(stored.reason.as_deref(), Some("trigger_deleted"));
        assert_eq!((stored.finished_at, stored.next_attempt_at), (Some(at(1500)), None));
    }
    let of_open = delivery::of_occurrences(store.read(), &[open.id]).await.unwrap();
    assert_eq!(of_open.len(), 2);
    for one in of_open {
        assert_eq!(one.status, ActionStatus::Cancelled);
        assert_eq!(one.executed_at, Some(at(1500)));
        assert_eq!(one.last_error.as_deref(), Some("trigger_deleted"));
    }
    assert_eq!(world.reread_occurrence(&done).await.status, OccurrenceStatus::Delivered);
    assert_eq!(world.reread(&done_deliveries[0]).await.status, ActionStatus::Completed);
    assert_eq!(world.reread_occurrence(&bystander).await, bystander);
    assert_eq!(world.reread(&bystander_deliveries[0]).await, bystander_deliveries[0]);

    let late = [ending(&held[0], ActionStatus::Completed, at(1600))];
    let recorded = within!(store, |tx| executor::finish(&*tx, &late, at(1600)));
    assert!(recorded.is_empty(), "an attempt under way changes nothing any more");
    let again = within!(store, |tx| cancel::of_trigger(&*tx, trigger.id, ("x", at(1700)), 1_000));
    assert_eq!(again, (0, false));
}

#[tokio::test]
async fn cancelling_a_backend_counts_its_open_deliveries_as_failed() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (gone, other) = (world.backend("gone").await.id, world.backend("other").await.id);
    let (alone, _) = world.occurrence(&[gone]).await;
    let (shared, _) = world.occurrence(&[gone, other]).await;
    let (bystander, _) = world.occurrence(&[other]).await;
    let asked = Claim { without: &[other.0], ..asking(at(1000), 1, 1) };
    let held = executor::claim(&store, asked).await.unwrap();
    assert_eq!(held.len(), 1, "one of them is being worked on");
    let count =
        within!(store, |tx| cancel::of_backend(&*tx, gone, ("backend_deleted", at(1)), 1_000));
    assert_eq!(count, 2);
    let stored = world.reread_occurrence(&alone).await;
    assert_eq!((stored.status, stored.failed), (OccurrenceStatus::Failed, 1));
    let stored = world.reread_occurrence(&shared).await;
    assert_eq!((stored.status, stored.failed), (OccurrenceStatus::Pending, 1));
    assert_eq!(world.reread_occurrence(&bystander).await, bystander);
    let late = [ending(&held[0], ActionStatus::Completed, at(1000))];
    assert!(within!(store, |tx| executor::finish(&*tx, &late, at(1000))).is_empty());
    let left = world.work_off(at(1000), ActionStatus::Completed).await;
    assert!(left.iter().all(|one| one.action.lane == other.0));
    let stored = world.reread_occurrence(&shared).await;
    assert_eq!(stored.status, OccurrenceStatus::PartiallyDelivered);
    let again = within!(store, |tx| cancel::of_backend(&*tx, gone, ("x", at(2)), 1_000));
    assert_eq!(again, 0);
}

/// What must hold after whatever race: an occurrence that ended has nothing open, and its
/// counters are what its deliveries say.
pub async fn assert_books_balance(world: &World) {
    let open_of_ended = "SELECT count(*) FROM scheduled_action a \
        JOIN trigger_occurrence o ON o.id = a.trigger_occurrence_id \
        WHERE o.status <> 'pending' AND a.status IN ('pending', 'processing')";
    assert_eq!(number(&world.store, open_of_ended).await, 0, "open work of an ended occurrence");
    let miscounted = "SELECT count(*) FROM trigger_occurrence o WHERE o.delivered <> \
        (SELECT count(*) FROM scheduled_action a \
         WHERE a.trigger_occurrence_id = o.id AND a.status = 'completed')";
    assert_eq!(number(&world.store, miscounted).await, 0, "miscounted deliveries");
    let stuck = "SELECT count(*) FROM trigger_occurrence o WHERE o.status = 'pending' \
        AND NOT EXISTS (SELECT 1 FROM scheduled_action a WHERE a.trigger_occurrence_id = o.id \
            AND a.status IN ('pending', 'processing'))";
    assert_eq!(number(&world.store, stuck).await, 0, "a pending occurrence with nothing open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_that_races_with_claims_and_finishes_leaves_the_books_balanced() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let mut backends = Vec::new();
    for number in 0..4 {
        backends.push(world.backend(&format!("backend {number}")).await.id);
    }
    let trigger = world.trigger("trigger", None).await;
    for round in 0..5 {
        let due = at(round * 100);
        for n in 0..40 {
            let scheduled = due + chrono::Duration::milliseconds(n);
            world.occurrence_of(&trigger, scheduled, &backends).await;
        }
        let now = due + chrono::Duration::seconds(1);
        let held = Arc::new(super::world::claim(&store, now, 80, 20).await);
        let refused = race(|number| {
            let (store, held) = (world.store.clone(), held.clone());
            let trigger = trigger.id;
            async move {
                let mine: Vec<_> = held.iter().skip(number).step_by(16).cloned().collect();
                let once = || async {
                    if number % 8 == 7 {
                        let tx = store.begin().await?;
                        cancel::of_trigger(&*tx, trigger, ("trigger_deleted", now), 1_000).await?;
                        return tx.commit_unaudited().await;
                    }
                    if number % 8 == 6 {
                        return executor::claim(&store, super::world::asking(now, 10, 10))
                            .await
                            .map(|_| ());
                    }
                    let tx = store.begin().await?;
                    record(&tx, &mine, ActionStatus::Completed, now).await?;
                    tx.commit_unaudited().await
                };
                patiently(once).await.1
            }
        })
        .await;
        assert_eq!(refused.iter().sum::<usize>(), 0, "nobody is told to try again: {refused:?}");
        within!(store, |tx| cancel::of_trigger(&*tx, trigger.id, ("the rest", now), 1_000));
        assert_books_balance(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_that_races_with_a_renewed_fan_out_leaves_nothing_open() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await.id;
    let trigger = world.trigger("trigger", None).await;
    for round in 0..10 {
        let now = at(round * 1000 + 500);
        let waiting: Vec<_> = (0..16)
            .map(|n| {
                let mut waiting = world.new_occurrence(&trigger, at(round * 1000 + n));
                waiting.next_attempt_at = Some(at(round * 1000 + n));
                waiting
            })
            .collect();
        within!(store, |tx| executor::insert_occurrences(&*tx, &waiting));
        race(|number| {
            let store = world.store.clone();
            let trigger = trigger.id;
            async move {
                let once = || async {
                    let tx = store.begin().await?;
                    if number == 8 {
                        cancel::of_trigger(&*tx, trigger, ("trigger_deleted", now), 1_000).await?;
                        return tx.commit_unaudited().await;
                    }
                    let mut found = executor::waiting_occurrences(&*tx, now, 2).await?;
                    let mut deliveries = Vec::new();
                    for occurrence in &mut found {
                        occurrence.deliveries = 1;
                        occurrence.next_attempt_at = None;
                        deliveries.push((super::world::new_delivery(occurrence, backend), None));
                    }
                    executor::update_waiting(&*tx, &found).await?;
                    executor::insert_deliveries(&*tx, &deliveries).await?;
                    tx.commit_unaudited().await
                };
                patiently(once).await
            }
        })
        .await;
        let open_of_ended = "SELECT count(*) FROM scheduled_action a \
            JOIN trigger_occurrence o ON o.id = a.trigger_occurrence_id \
            WHERE o.status <> 'pending' AND a.status IN ('pending', 'processing')";
        assert_eq!(number(&store, open_of_ended).await, 0);
        within!(store, |tx| cancel::of_trigger(&*tx, trigger.id, ("the rest", now), 1_000));
    }
}
