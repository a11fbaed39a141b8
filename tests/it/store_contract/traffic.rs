//! The work of a pass costs a fixed number of statements, however much work there is.

use std::future::Future;

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::store::executor::{self, Window};

use super::world::{World, at, claim, record};
use crate::harness::TestStore;

/// How many statements and commits a step costs.
async fn cost<F: Future>(store: &TestStore, step: F) -> (u64, u64) {
    let before = (store.traffic().statements(), store.traffic().commits());
    step.await;
    (store.traffic().statements() - before.0, store.traffic().commits() - before.1)
}

#[tokio::test]
async fn claiming_and_finishing_cost_the_same_for_one_and_for_five_hundred() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let mut costs = Vec::new();
    for n in [1, 500] {
        world.queued(backend.id, n).await;
        let mut claimed = Vec::new();
        let claiming = cost(&store, async { claimed = claim(&store, at(1000), 1000, 1000).await });
        let claiming = claiming.await;
        assert_eq!(claimed.len(), n);
        let finishing = cost(&store, async {
            let tx = store.begin().await.unwrap();
            record(&tx, &claimed, ActionStatus::Completed, at(1234)).await.unwrap();
            tx.commit_unaudited().await.unwrap();
        });
        costs.push((claiming, finishing.await));
    }
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0], ((1, 1), (2, 1)), "claim; finish and settle");
}

#[tokio::test]
async fn evaluating_costs_the_same_for_one_trigger_and_for_five_hundred() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let mut costs = Vec::new();
    for n in [1, 500] {
        for _ in 0..n {
            world.trigger("trigger", Some(at(0))).await;
        }
        let pass = cost(&store, async {
            let tx = store.begin().await.unwrap();
            let due = executor::due_triggers(&*tx, at(1000), 1000).await.unwrap();
            assert_eq!(due.len(), n);
            let occurrences: Vec<_> =
                due.iter().map(|due| world.new_occurrence(due, at(0))).collect();
            let deliveries: Vec<_> = occurrences
                .iter()
                .map(|occurrence| (super::world::new_delivery(occurrence, backend.id), None))
                .collect();
            let windows: Vec<_> = due
                .iter()
                .map(|due| Window { trigger_id: due.id, evaluated_at: at(1), next_fire_at: None })
                .collect();
            executor::insert_occurrences(&*tx, &occurrences).await.unwrap();
            executor::insert_deliveries(&*tx, &deliveries).await.unwrap();
            executor::move_windows(&*tx, &windows).await.unwrap();
            tx.commit_unaudited().await.unwrap();
        });
        costs.push(pass.await);
    }
    assert_eq!(costs, [(4, 1), (4, 1)]);
}

#[tokio::test]
async fn a_batch_of_a_thousand_rows_is_written_and_worked_off() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let mut occurrences: Vec<_> =
        (0..1000).map(|number| world.new_occurrence(&trigger, at(number))).collect();
    occurrences.iter_mut().for_each(|occurrence| occurrence.deliveries = 1);
    let deliveries: Vec<_> = occurrences
        .iter()
        .map(|occurrence| (super::world::new_delivery(occurrence, backend.id), None))
        .collect();
    let tx = store.begin().await.unwrap();
    let written = executor::insert_occurrences(&*tx, &occurrences).await.unwrap();
    executor::insert_deliveries(&*tx, &deliveries).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    assert_eq!(written.len(), 1000);
    let claimed = claim(&store, at(2000), 1000, 1000).await;
    assert_eq!(claimed.len(), 1000);
    let tx = store.begin().await.unwrap();
    let settled = record(&tx, &claimed, ActionStatus::Completed, at(3000)).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    assert_eq!(settled.len(), 1000);
}

#[tokio::test]
async fn a_dropped_transaction_is_no_commit() {
    let store = TestStore::new().await;
    let dropped = cost(&store, async { drop(store.begin().await.unwrap()) }).await;
    assert_eq!(dropped, (0, 0));
}
