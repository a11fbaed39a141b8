//! Taking work back in steps: what is done, and what is left to whoever holds it.

use std::sync::Arc;

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::executor;
use trigger_manager::store::withdrawal::{self, Kind, Owner, Owners, Step};
use uuid::Uuid;

use super::cancel::assert_books_balance;
use super::world::{World, at, ending, number, patiently, race, record, within};
use crate::harness::{TestStore, until_another_waits_for};

fn owner(world: &World, kind: Kind, id: Uuid) -> Owner {
    Owner { kind, id, project_id: world.project.id, application_id: Some(world.application.id) }
}

async fn begin(world: &World, kind: Kind, id: Uuid) {
    let owner = owner(world, kind, id);
    within!(world.store, |tx| withdrawal::begin(&tx, &owner, ("why", at(500))));
}

/// The next step of the only withdrawal, over so many rows.
async fn step(world: &World, limit: u64) -> Step {
    let tx = world.store.begin().await.unwrap();
    let of = withdrawal::next(&tx).await.unwrap().expect("a withdrawal");
    let step = withdrawal::step(&tx, &of, at(600), limit).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    step
}

/// Steps until one finds nothing to do; answers how much they cancelled, and whether it was the last.
async fn steps(world: &World, limit: u64) -> (u64, bool) {
    let mut cancelled = 0;
    loop {
        let step = step(world, limit).await;
        cancelled += step.cancelled;
        if step.was_last || !step.goes_on {
            return (cancelled, step.was_last);
        }
    }
}

#[tokio::test]
async fn what_waits_for_a_backend_is_taken_back_and_what_is_held_is_waited_for() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let (gone, other) = (world.backend("gone").await.id, world.backend("other").await.id);
    world.queued(gone, 7).await;
    world.queued(other, 2).await;
    let held = super::world::claim(&store, at(100), 4, 2).await;
    let held: Vec<_> = held.into_iter().filter(|held| held.action.lane == gone.0).collect();
    assert_eq!(held.len(), 2);
    begin(&world, Kind::Backend, gone.0).await;
    assert_eq!(step(&world, 3).await, Step { cancelled: 3, goes_on: true, was_last: false });
    assert_eq!(steps(&world, 3).await, (2, false), "two are held");
    assert!(withdrawal::owners(store.read()).await.unwrap().have([gone.0], None));
    let (done, back) = (
        ending(&held[0], ActionStatus::Completed, at(700)),
        ending(&held[1], ActionStatus::Pending, at(700)),
    );
    let recorded = within!(store, |tx| executor::finish(&*tx, &[done, back], at(700)));
    assert_eq!(recorded.len(), 2, "whoever holds work says what came of it");
    assert_eq!(steps(&world, 3).await, (1, true));
    assert_eq!(withdrawal::owners(store.read()).await.unwrap(), Owners::default());
    let cancelled = "SELECT count(*) FROM scheduled_action
        WHERE status = 'cancelled' AND last_error = 'why'";
    assert_eq!(number(&store, cancelled).await, 6);
    let of_the_other = "SELECT count(*) FROM scheduled_action a JOIN backend_registration b
        ON b.id = a.backend_id WHERE a.status = 'cancelled' AND b.name = 'other'";
    assert_eq!(number(&store, of_the_other).await, 0);
}

#[tokio::test]
async fn an_occurrence_of_which_a_delivery_is_held_is_taken_back_when_that_has_ended() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backends = [world.backend("one").await.id, world.backend("two").await.id];
    let trigger = world.trigger("trigger", None).await;
    let (first, _) = world.occurrence_of(&trigger, at(0), &backends).await;
    let held = super::world::claim(&store, at(10), 1, 1).await;
    let mut others = Vec::new();
    for n in 1..5 {
        others.push(world.occurrence_of(&trigger, at(n), &backends).await.0);
    }
    let mut waiting = world.new_occurrence(&trigger, at(9));
    waiting.next_attempt_at = Some(at(3000));
    within!(store, |tx| executor::insert_occurrences(&*tx, std::slice::from_ref(&waiting)));
    let (bystander, _) = world.occurrence(&backends).await;
    begin(&world, Kind::Trigger, trigger.id.0).await;
    assert_eq!(steps(&world, 2).await, (5, false));
    for taken in others.iter().chain([&waiting]) {
        let stored = world.reread_occurrence(taken).await;
        assert_eq!((stored.status, stored.failed), (OccurrenceStatus::Cancelled, taken.deliveries));
        assert_eq!((stored.reason.as_deref(), stored.next_attempt_at), (Some("why"), None));
    }
    assert_eq!(world.reread_occurrence(&first).await, first, "somebody works on it");
    let tx = store.begin().await.unwrap();
    record(&tx, &held, ActionStatus::Completed, at(700)).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    assert_eq!(steps(&world, 2).await, (1, true));
    let stored = world.reread_occurrence(&first).await;
    assert_eq!(stored.status, OccurrenceStatus::Cancelled);
    assert_eq!((stored.delivered, stored.failed), (1, 1));
    assert_eq!(world.reread_occurrence(&bystander).await, bystander);
}

/// On SQLite, with its one writer, the delivery has ended before any is looked for.
#[tokio::test]
async fn what_is_left_is_seen_also_when_some_of_what_was_found_has_ended_meanwhile() {
    for kind in [Kind::Trigger, Kind::Backend] {
        let store = TestStore::new().await;
        let world = World::new(&store).await;
        let backend = world.backend("backend").await.id;
        let trigger = world.trigger("trigger", None).await;
        for n in 0..6 {
            world.occurrence_of(&trigger, at(n), &[backend]).await;
        }
        let held = super::world::claim(&store, at(0), 1, 1).await;
        let finishing = store.begin().await.unwrap();
        record(&finishing, &held, ActionStatus::Completed, at(700)).await.unwrap();
        let id = if kind == Kind::Trigger { trigger.id.0 } else { backend.0 };
        let (owner, other) = (owner(&world, kind, id), (*store).clone());
        let cancelling = tokio::spawn(async move {
            let tx = other.begin().await?;
            let answer = withdrawal::cancel_some(&tx, &owner, ("why", at(800)), 2).await?;
            tx.commit_unaudited().await.map(|()| answer)
        });
        if super::world::on_postgres(&store) && kind == Kind::Trigger {
            until_another_waits_for(&finishing).await;
        }
        finishing.commit_unaudited().await.unwrap();
        let (cancelled, is_more) = cancelling.await.unwrap().unwrap();
        assert!(cancelled <= 2 && is_more, "{kind:?}: {cancelled}");
    }
}

#[tokio::test]
async fn two_executors_carry_out_two_withdrawals() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let ids = [world.backend("one").await.id.0, world.backend("two").await.id.0];
    for (id, n) in ids.iter().zip(1..) {
        world.queued((*id).into(), n).await;
        begin(&world, Kind::Backend, *id).await;
    }
    let again = owner(&world, Kind::Backend, ids[0]);
    within!(store, |tx| withdrawal::begin(&tx, &again, ("once more", at(550))));
    let first = store.begin().await.unwrap();
    let one = withdrawal::next(&first).await.unwrap().unwrap();
    assert_eq!(one.reason, "why", "one that goes on stays as it is");
    if super::world::on_postgres(&store) {
        let second = store.begin().await.unwrap();
        let two = withdrawal::next(&second).await.unwrap().unwrap();
        assert_ne!(one.owner.id, two.owner.id);
        let third = store.begin().await.unwrap();
        assert_eq!(withdrawal::next(&third).await.unwrap(), None, "both are being carried out");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn steps_that_race_with_claims_and_finishes_leave_the_books_balanced() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let backends = [world.backend("one").await.id, world.backend("two").await.id];
    for (round, kind) in [Kind::Trigger, Kind::Backend, Kind::Trigger].into_iter().enumerate() {
        let trigger = world.trigger("trigger", None).await;
        let due = at(round as i64 * 100_000);
        for n in 0..40 {
            let scheduled = due + chrono::Duration::milliseconds(n);
            world.occurrence_of(&trigger, scheduled, &backends).await;
        }
        let now = due + chrono::Duration::seconds(1);
        let held = Arc::new(super::world::claim(&store, now, 40, 20).await);
        let id = if kind == Kind::Trigger { trigger.id.0 } else { backends[0].0 };
        begin(&world, kind, id).await;
        let refused = race(|number| {
            let (store, held) = (world.store.clone(), held.clone());
            async move {
                let mine: Vec<_> = held.iter().skip(number).step_by(16).cloned().collect();
                let once = || async {
                    let tx = store.begin().await?;
                    if number % 4 == 3 {
                        if let Some(of) = withdrawal::next(&tx).await? {
                            withdrawal::step(&tx, &of, now, 30).await?;
                        }
                        return tx.commit_unaudited().await;
                    }
                    if number % 4 == 2 {
                        drop(tx);
                        let asked = super::world::asking(now, 10, 10);
                        return executor::claim(&store, asked).await.map(drop);
                    }
                    record(&tx, &mine, ActionStatus::Completed, now).await?;
                    tx.commit_unaudited().await
                };
                patiently(once).await.1
            }
        })
        .await;
        assert_eq!(refused.iter().sum::<usize>(), 0, "nobody is told to try again: {refused:?}");
        // What was claimed in the race and not given back, as the reaper would.
        let back = "UPDATE scheduled_action SET status = 'pending', lease_token = NULL
            WHERE status = 'processing'";
        super::world::execute(&store, back).await;
        assert!(steps(&world, 30).await.1);
        assert_books_balance(&world).await;
    }
}
