//! Finishing under a lease, and taking over what nobody finished.

use std::collections::HashSet;

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::store::executor::{self, Finished};
use uuid::Uuid;

use super::world::{World, asking, at, ending, race, within};
use crate::harness::TestStore;

#[tokio::test]
async fn whoever_holds_the_lease_finishes() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let claimed = world.claim(at(1000)).await;
    let done = ending(&claimed[0], ActionStatus::Completed, at(1234));
    let recorded =
        within!(store, |tx| executor::finish(&*tx, std::slice::from_ref(&done), at(1234)));
    assert_eq!(recorded, HashSet::from([deliveries[0].id]));
    let stored = world.reread(&deliveries[0]).await;
    assert_eq!(stored.status, ActionStatus::Completed);
    assert_eq!(stored.retry_count, 1);
    assert_eq!(stored.executed_at, Some(at(1234)));
    assert_eq!((stored.execute_at, stored.updated_at), (at(1234), at(1234)));
    assert_eq!(stored.last_error, None);
    assert_eq!(stored.payload, deliveries[0].payload);
}

#[tokio::test]
async fn a_second_finish_and_one_with_another_token_record_nothing() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.queued(backend.id, 2).await;
    let claimed = world.claim(at(1000)).await;
    let done: Vec<_> =
        claimed.iter().map(|one| ending(one, ActionStatus::Completed, at(1234))).collect();
    let wrong = Finished { lease_token: Uuid::new_v4(), ..done[0].clone() };
    assert!(within!(store, |tx| executor::finish(&*tx, &[wrong], at(1234))).is_empty());
    assert_eq!(world.reread_action(&claimed[0].action).await, claimed[0].action);

    let first = within!(store, |tx| executor::finish(&*tx, &done[..1], at(1234)));
    assert_eq!(first.len(), 1);
    let after_first = world.reread_action(&claimed[0].action).await;
    let late = Finished { status: ActionStatus::Failed, ..done[0].clone() };
    let both = [late, done[1].clone()];
    let second = within!(store, |tx| executor::finish(&*tx, &both, at(5000)));
    assert_eq!(second, HashSet::from([claimed[1].action.id]), "the rest of a batch counts");
    assert_eq!(world.reread_action(&claimed[0].action).await, after_first);
    assert!(within!(store, |tx| executor::finish(&*tx, &[], at(5000))).is_empty());
}

#[tokio::test]
async fn a_retry_is_pending_again_and_due_at_its_time() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let claimed = world.claim(at(1000)).await;
    let retry =
        Finished { execute_at: at(6001), ..ending(&claimed[0], ActionStatus::Pending, at(1234)) };
    within!(store, |tx| executor::finish(&*tx, &[retry], at(1234)));
    let stored = world.reread(&deliveries[0]).await;
    assert_eq!((stored.status, stored.execute_at), (ActionStatus::Pending, at(6001)));
    assert_eq!((stored.executed_at, stored.last_error.as_deref()), (None, Some("it failed")));
    assert_eq!(world.claim(at(6000)).await, []);
    assert_eq!(world.claim(at(6001)).await.len(), 1);
}

#[tokio::test]
async fn a_lease_is_safe_until_it_ends_and_then_the_work_is_due_as_one_more_attempt() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let claimed = world.claim(at(1000)).await;
    let end = claimed[0].lease.until;
    for early in [end - chrono::Duration::milliseconds(1), end] {
        assert_eq!(within!(store, |tx| executor::reap(&*tx, early, 10)), []);
    }
    let now = end + chrono::Duration::milliseconds(1);
    let reaped = within!(store, |tx| executor::reap(&*tx, now, 10));
    assert_eq!(reaped.len(), 1);
    let stored = world.reread(&deliveries[0]).await;
    let answered = (reaped[0].id, reaped[0].retry_count);
    assert_eq!(answered, (stored.id, stored.retry_count), "it answers what it was made");
    assert_eq!((stored.status, stored.retry_count), (ActionStatus::Pending, 1));
    assert_eq!(stored.execute_at, now);
    assert!(stored.last_error.is_some());
    assert!(within!(store, |tx| executor::reap(&*tx, now, 10)).is_empty());
}

#[tokio::test]
async fn whoever_lost_the_lease_records_nothing() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.occurrence(&[backend.id]).await;
    let stale = world.claim(at(1000)).await;
    let later = at(60_000);
    within!(store, |tx| executor::reap(&*tx, later, 10));
    let reaped = world.reread_action(&stale[0].action).await;
    let done = [ending(&stale[0], ActionStatus::Completed, later)];
    assert!(within!(store, |tx| executor::finish(&*tx, &done, later)).is_empty());
    assert_eq!(world.reread_action(&stale[0].action).await, reaped, "it is pending as before");
    let fresh = world.claim(later).await;
    assert!(within!(store, |tx| executor::finish(&*tx, &done, later)).is_empty());
    assert_eq!(world.reread_action(&stale[0].action).await.status, ActionStatus::Processing);
    let done = [ending(&fresh[0], ActionStatus::Completed, later)];
    assert_eq!(within!(store, |tx| executor::finish(&*tx, &done, later)).len(), 1);
}

#[tokio::test]
async fn no_more_is_taken_over_than_asked_for() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.queued(backend.id, 5).await;
    world.claim(at(1000)).await;
    assert_eq!(within!(store, |tx| executor::reap(&*tx, at(60_000), 2)).len(), 2);
    assert_eq!(within!(store, |tx| executor::reap(&*tx, at(60_000), 10)).len(), 3);
}

#[tokio::test]
async fn what_was_held_longest_is_taken_over_first() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.queued(backend.id, 2).await;
    let mut held = Vec::new();
    for now in [1000, 2000] {
        held.extend(executor::claim(&store, asking(at(now), 1, 1)).await.unwrap());
    }
    for one in held {
        let reaped = within!(store, |tx| executor::reap(&*tx, at(90_000), 1));
        assert_eq!(reaped[0].id, one.action.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_that_finish_one_lease_one_does() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.occurrence(&[backend.id]).await;
    let claimed = world.claim(at(1000)).await;
    let recorded = race(|_| {
        let done = [ending(&claimed[0], ActionStatus::Completed, at(1234))];
        let store = world.store.clone();
        async move { within!(store, |tx| executor::finish(&*tx, &done, at(1234))).len() }
    })
    .await;
    assert_eq!(recorded.into_iter().sum::<usize>(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_finish_and_a_takeover_at_once_one_happens() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let queued = world.queued(backend.id, 16).await;
    let claimed = world.claim(at(1000)).await;
    let now = at(60_000);
    let outcomes = race(|number| {
        let done = [ending(&claimed[number], ActionStatus::Completed, now)];
        let store = world.store.clone();
        async move {
            if number % 2 == 0 {
                return (within!(store, |tx| executor::finish(&*tx, &done, now)).len(), 0);
            }
            (0, within!(store, |tx| executor::reap(&*tx, now, 4)).len())
        }
    })
    .await;
    let finished: usize = outcomes.iter().map(|(finished, _)| finished).sum();
    let reaped: usize = outcomes.iter().map(|(_, reaped)| reaped).sum();
    let mut counted = (0, 0);
    for one in &queued {
        match world.reread(one).await.status {
            ActionStatus::Completed => counted.0 += 1,
            ActionStatus::Pending => counted.1 += 1,
            _ => {}
        }
    }
    assert_eq!(counted, (finished, reaped), "what was answered is what stands");
}
