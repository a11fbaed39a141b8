//! What is tried again while it is being deleted stays.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::store::delivery;
use trigger_manager::store::retention::{Kept, Table, sweep};
use uuid::Uuid;

use super::world::{World, at, number, within};
use crate::harness::{TestStore, until_another_waits_for};

#[tokio::test]
async fn a_delivery_that_is_tried_again_while_a_sweep_reaches_it_stays_with_its_occurrence() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await.id;
    let (retried, _) = world.occurrence(&[backend]).await;
    world.occurrence(&[backend]).await;
    world.work_off(at(1000), ActionStatus::Failed).await;
    let failed = delivery::of_occurrences(store.read(), &[retried.id]).await.unwrap().remove(0);
    let retrying = store.begin().await.unwrap();
    let again = delivery::requeue(&*retrying, &[failed.id], at(5000), at(9_000_000)).await;
    assert_eq!(again.unwrap(), 1);
    let other = store.another().await;
    let sweeping = tokio::spawn(async move {
        let kept = Kept::since(Some(at(1_000_000)));
        within!(other, |tx| sweep(&tx, Table::Occurrences, kept, (Uuid::nil(), 100)))
    });
    until_another_waits_for(&retrying).await;
    retrying.commit_unaudited().await.unwrap();
    assert_eq!(sweeping.await.unwrap().deleted, 1);
    assert_eq!(world.reread(&failed).await.status, ActionStatus::Pending);
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_occurrence").await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM scheduled_action").await, 1);
}
