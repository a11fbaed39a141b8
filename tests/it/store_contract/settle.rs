//! Counting ended deliveries into their occurrences.

use std::sync::Arc;

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::id::BackendId;
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::executor::{self, Settled};

use super::world::{World, at, patiently, race, record, within};
use crate::harness::{RACERS, TestStore};

async fn backends(world: &World, n: usize) -> Vec<BackendId> {
    let mut backends = Vec::new();
    for number in 0..n {
        backends.push(world.backend(&format!("backend {number}")).await.id);
    }
    backends
}

#[tokio::test]
async fn an_occurrence_ends_by_what_its_deliveries_came_to() {
    use OccurrenceStatus::{Delivered, Failed, PartiallyDelivered};
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backends = backends(&world, 2).await;
    let (bystander, _) = world.occurrence(&backends).await;
    for (outcomes, status, counts) in [
        ([true, true], Delivered, (2, 0)),
        ([true, false], PartiallyDelivered, (1, 1)),
        ([false, true], PartiallyDelivered, (1, 1)),
        ([false, false], Failed, (0, 2)),
    ] {
        for at_once in [true, false] {
            let (occurrence, _) = world.occurrence(&backends).await;
            let ended: Vec<_> = outcomes.map(|delivered| (occurrence.id, delivered)).into();
            if !at_once {
                let early = within!(store, |tx| executor::settle(&*tx, ended[..1].to_vec(), at(5)));
                assert_eq!(early, [], "one is open");
                let open = world.reread_occurrence(&occurrence).await;
                assert_eq!((open.status, open.finished_at), (OccurrenceStatus::Pending, None));
            }
            let rest = if at_once { ended } else { ended[1..].to_vec() };
            let settled = within!(store, |tx| executor::settle(&*tx, rest, at(1234)));
            let expected = Settled {
                id: occurrence.id,
                application_id: world.application.id,
                status,
                created_at: occurrence.created_at,
            };
            assert_eq!(settled, [expected], "{outcomes:?}, at once: {at_once}");
            let stored = world.reread_occurrence(&occurrence).await;
            assert_eq!(stored.status, status);
            assert_eq!((stored.delivered, stored.failed), counts);
            assert_eq!(stored.finished_at, Some(at(1234)));
        }
    }
    assert_eq!(world.reread_occurrence(&bystander).await, bystander, "none of these was its own");
}

#[tokio::test]
async fn an_ended_occurrence_counts_no_more() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backends = backends(&world, 1).await;
    let (occurrence, _) = world.occurrence(&backends).await;
    within!(store, |tx| executor::settle(&*tx, [(occurrence.id, true)], at(1)));
    let ended = world.reread_occurrence(&occurrence).await;
    let again = within!(store, |tx| executor::settle(&*tx, [(occurrence.id, false)], at(2)));
    assert_eq!(again, []);
    assert_eq!(world.reread_occurrence(&occurrence).await, ended);
    assert_eq!(within!(store, |tx| executor::settle(&*tx, [], at(2))), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_that_count_into_one_occurrence_count_exactly() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backends = backends(&world, RACERS).await;
    let (occurrence, _) = world.occurrence(&backends).await;
    let claimed = Arc::new(world.claim(at(1000)).await);
    assert_eq!(claimed.len(), RACERS);
    let settled = race(|number| {
        let (store, claimed) = (world.store.clone(), claimed.clone());
        async move {
            let status =
                if number % 4 == 0 { ActionStatus::Failed } else { ActionStatus::Completed };
            let once = || async {
                let tx = store.begin().await?;
                let mine = std::slice::from_ref(&claimed[number]);
                let settled = record(&tx, mine, status, at(1234)).await?;
                tx.commit_unaudited().await?;
                Ok(settled.len())
            };
            patiently(once).await
        }
    })
    .await;
    assert_eq!(settled.iter().map(|(settled, _)| settled).sum::<usize>(), 1, "one ends it");
    assert!(settled.iter().all(|(_, refused)| *refused == 0), "{settled:?}");
    let stored = world.reread_occurrence(&occurrence).await;
    assert_eq!((stored.delivered, stored.failed), (12, 4));
    assert_eq!(stored.status, OccurrenceStatus::PartiallyDelivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_that_share_occurrences_in_any_order_count_exactly_and_without_deadlock() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backends = backends(&world, RACERS).await;
    let trigger = world.trigger("trigger", None).await;
    let mut occurrences = Vec::new();
    for due in 0..20 {
        occurrences.push(world.occurrence_of(&trigger, at(due), &backends).await.0);
    }
    let claimed = Arc::new(world.claim(at(1000)).await);
    assert_eq!(claimed.len(), 20 * RACERS);
    let refused = race(|number| {
        let (store, claimed) = (world.store.clone(), claimed.clone());
        let backend = backends[number];
        async move {
            let mut mine: Vec<_> =
                claimed.iter().filter(|one| one.action.lane == backend.0).cloned().collect();
            if number % 2 == 0 {
                mine.reverse();
            }
            mine.rotate_left(number);
            let once = || async {
                let tx = store.begin().await?;
                record(&tx, &mine, ActionStatus::Completed, at(1234)).await?;
                tx.commit_unaudited().await
            };
            patiently(once).await.1
        }
    })
    .await;
    assert_eq!(refused.iter().sum::<usize>(), 0, "{refused:?}");
    for occurrence in &occurrences {
        let stored = world.reread_occurrence(occurrence).await;
        assert_eq!(stored.delivered, RACERS as i32);
        assert_eq!(stored.status, OccurrenceStatus::Delivered);
    }
}
