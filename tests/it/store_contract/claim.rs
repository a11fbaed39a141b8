//! Claiming: how much, of whom, and that no two get the same.

use std::collections::{HashMap, HashSet};

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::id::BackendId;
use trigger_manager::store::executor::{self, Claim};
use uuid::Uuid;

use super::world::{World, asking, at, claim, lease, number, race};
use crate::harness::TestStore;

#[tokio::test]
async fn a_claim_takes_no_more_than_asked_for_the_earliest_first() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let queued = world.queued(backend.id, 10).await;
    let claimed = claim(&store, at(1000), 3, 1000).await;
    let ids: HashSet<_> = claimed.iter().map(|one| one.action.id).collect();
    assert_eq!(ids, queued[..3].iter().map(|one| one.id).collect());
    let share = claim(&store, at(1000), 100, 2).await;
    let ids: HashSet<_> = share.iter().map(|one| one.action.id).collect();
    assert_eq!(ids, queued[3..5].iter().map(|one| one.id).collect(), "of a lane's share too");
    assert_eq!(claim(&store, at(1000), 0, 1000).await, []);
    assert_eq!(claim(&store, at(1000), 100, 1000).await.len(), 5);
}

#[tokio::test]
async fn a_claimed_delivery_is_held_under_the_lease_and_otherwise_as_it_was() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let asked = asking(at(1001), 10, 10);
    let claimed = executor::claim(&store, asked).await.unwrap();
    let mut expected = deliveries[0].clone();
    (expected.status, expected.updated_at) = (ActionStatus::Processing, at(1001));
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].action, expected.clone().into());
    assert_eq!(claimed[0].lease, asked.lease);
    assert_eq!(world.reread(&deliveries[0]).await, expected);
}

#[tokio::test]
async fn a_claim_takes_no_more_than_its_share_of_one_lane() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut backends = Vec::new();
    for number in 0..4 {
        let backend = world.backend(&format!("backend {number}")).await;
        world.queued(backend.id, 10).await;
        backends.push(backend.id);
    }
    let mut of = HashMap::<BackendId, usize>::new();
    for claimed in claim(&store, at(1000), 100, 3).await {
        *of.entry(BackendId(claimed.action.lane)).or_default() += 1;
    }
    assert_eq!(of, backends.iter().map(|backend| (*backend, 3)).collect());
    assert_eq!(claim(&store, at(1000), 100, 0).await, []);
}

#[tokio::test]
async fn lanes_that_are_to_be_left_out_are() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (busy, other) = (world.backend("busy").await, world.backend("other").await);
    world.queued(busy.id, 5).await;
    world.queued(other.id, 5).await;
    let without = [busy.id.0, Uuid::new_v4()];
    let asked = Claim { without: &without, ..asking(at(1000), 100, 100) };
    let claimed = executor::claim(&store, asked).await.unwrap();
    assert_eq!(claimed.len(), 5);
    assert!(claimed.iter().all(|one| one.action.lane == other.id.0));
}

#[tokio::test]
async fn a_claim_begins_with_the_lane_after_the_given_one() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut lanes = Vec::new();
    for number in 0..3 {
        let backend = world.backend(&format!("backend {number}")).await;
        world.queued(backend.id, 2).await;
        lanes.push(backend.id);
    }
    lanes.sort();
    let after = |lane: Uuid| {
        let asked = Claim { start_after: lane, ..asking(at(1000), 1, 1) };
        let store = &store;
        async move {
            let claimed = executor::claim(store, asked).await.unwrap();
            claimed.first().map(|one| BackendId(one.action.lane))
        }
    };
    assert_eq!(after(Uuid::nil()).await, Some(lanes[0]));
    assert_eq!(after(lanes[0].0).await, Some(lanes[1]));
    assert_eq!(after(lanes[1].0).await, Some(lanes[2]));
    assert_eq!(after(lanes[2].0).await, Some(lanes[0]), "after the last comes the first");
}

#[tokio::test]
async fn a_claim_that_goes_round_takes_no_lane_more_than_its_share_and_no_row_twice() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut lanes = Vec::new();
    for number in 0..3 {
        let backend = world.backend(&format!("backend {number}")).await;
        world.queued(backend.id, 5).await;
        lanes.push(backend.id);
    }
    lanes.sort();
    let asked = Claim { start_after: lanes[0].0, ..asking(at(1000), 100, 2) };
    let claimed = executor::claim(&store, asked).await.unwrap();
    let ids: HashSet<_> = claimed.iter().map(|one| one.action.id).collect();
    assert_eq!(ids.len(), claimed.len());
    for lane in lanes {
        let of = claimed.iter().filter(|one| one.action.lane == lane.0).count();
        assert_eq!(of, 2, "{lane}");
    }
}

#[tokio::test]
async fn only_what_is_due_and_pending_is_claimed() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let (_, due) = world.occurrence_of(&trigger, at(1000), &[backend.id]).await;
    let (_, later) = world.occurrence_of(&trigger, at(1001), &[backend.id]).await;
    let claimed = world.claim(at(999)).await;
    assert_eq!(claimed, []);
    let claimed = world.claim(at(1000)).await;
    assert_eq!(claimed.iter().map(|one| one.action.id).collect::<Vec<_>>(), [due[0].id]);
    for status in ["processing", "completed", "failed", "expired", "cancelled"] {
        let set = format!("UPDATE scheduled_action SET status = '{status}'");
        super::world::execute(&store, &set).await;
        assert_eq!(world.claim(at(2000)).await, [], "{status}");
    }
    super::world::execute(&store, "UPDATE scheduled_action SET status = 'pending'").await;
    assert_eq!(world.claim(at(2000)).await.len(), 2);
    assert_eq!(world.reread(&later[0]).await.status, ActionStatus::Processing);
}

#[tokio::test]
async fn what_has_expired_is_claimed_too_so_that_somebody_ends_it() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let late = deliveries[0].expires_at.unwrap() + chrono::Duration::days(1);
    assert_eq!(world.claim(late).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_claimers_get_different_deliveries_and_together_all_of_them() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let mut queued = HashSet::new();
    for number in 0..5 {
        let backend = world.backend(&format!("backend {number}")).await;
        queued.extend(world.queued(backend.id, 100).await.into_iter().map(|one| one.id));
    }
    let claims = race(|_| {
        let store = world.store.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let claimed = claim(&store, at(1000), 7, 3).await;
                assert!(claimed.len() <= 7, "{} were claimed", claimed.len());
                let mut of = HashMap::<_, usize>::new();
                for one in &claimed {
                    *of.entry(BackendId(one.action.lane)).or_default() += 1;
                }
                assert!(of.values().all(|n| *n <= 3), "{of:?}");
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.into_iter().map(|one| one.action.id));
            }
        }
    })
    .await;
    let mut claimed: Vec<_> = claims.into_iter().flatten().collect();
    // A racer that meets only rows which others are claiming goes away; what a claim rolled
    // back or left then is still there.
    claimed.extend(claim(&store, at(1000), 1000, 1000).await.into_iter().map(|c| c.action.id));
    assert_eq!(claimed.len(), 500);
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), queued);
    let tokens = "SELECT count(*) FROM scheduled_action WHERE lease_token IS NULL";
    assert_eq!(number(&store, tokens).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_on_one_database_share_one_queue() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let queued = world.queued(backend.id, 200).await;
    let mut processes = vec![(*store).clone()];
    for _ in 0..3 {
        processes.push(store.another().await);
    }
    let claims = race(|number| {
        let process = processes[number % 4].clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let claimed = claim(&process, at(1000), 5, 5).await;
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.into_iter().map(|one| one.action.id));
            }
        }
    })
    .await;
    let mut claimed: Vec<_> = claims.into_iter().flatten().collect();
    claimed.extend(claim(&store, at(1000), 1000, 1000).await.into_iter().map(|c| c.action.id));
    assert_eq!(claimed.len(), 200);
    let expected: HashSet<_> = queued.into_iter().map(|one| one.id).collect();
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), expected);
}

#[tokio::test]
async fn a_lane_with_thousands_of_rows_does_not_keep_another_from_being_served() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (one, other) = (world.backend("one").await.id, world.backend("other").await.id);
    // Whatever the lanes' order, one of the two stands behind the heap.
    let heap = one.min(other);
    let small = one.max(other);
    world.queued(heap, 5000).await;
    world.queued(small, 3).await;
    let claimed = claim(&store, at(10_000), 20, 10).await;
    let of = |lane: BackendId| claimed.iter().filter(|one| one.action.lane == lane.0).count();
    assert_eq!((of(heap), of(small)), (10, 3));
}

#[tokio::test]
async fn a_delivery_may_be_held_from_birth() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let occurrence = world.new_occurrence(&trigger, at(0));
    let mut delivery = super::world::new_delivery(&occurrence, backend.id);
    delivery.status = ActionStatus::Processing;
    let held = [(delivery.clone(), Some(lease(at(0))))];
    let tx = store.begin().await.unwrap();
    executor::insert_occurrences(&*tx, &[occurrence]).await.unwrap();
    executor::insert_deliveries(&*tx, &held).await.unwrap();
    executor::insert_deliveries(&*tx, &[]).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    assert_eq!(world.claim(at(1000)).await, []);
    assert_eq!(world.reread(&delivery).await, delivery);
}

#[tokio::test]
async fn deliveries_of_an_occurrence_that_is_not_there_are_refused() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let occurrence = world.new_occurrence(&trigger, at(0));
    let delivery = super::world::new_delivery(&occurrence, backend.id);
    let tx = store.begin().await.unwrap();
    assert!(executor::insert_deliveries(&*tx, &[(delivery, None)]).await.is_err());
}
