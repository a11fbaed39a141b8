//! What goes wrong inside an executor, and not at its backends.

use std::sync::atomic::{AtomicUsize, Ordering};

use trigger_manager::checkpoint::Point;
use trigger_manager::domain::delivery::ActionStatus;

use crate::app::TestApp;
use crate::store_contract::world::execute;

const AWAY: &str = "ALTER TABLE backend_registration RENAME TO away";
const BACK: &str = "ALTER TABLE away RENAME TO backend_registration";

#[tokio::test]
async fn an_attempt_that_panics_is_recorded_and_its_slot_is_free_again() {
    let t = TestApp::with(&[("PFY_DISPATCH_CONCURRENCY", "1")]).await;
    t.register("a").await;
    let sent = AtomicUsize::new(0);
    let executor = t.executor_at(move |point| {
        let first = point == Point::BeforeSend && sent.fetch_add(1, Ordering::Relaxed) == 0;
        assert!(!first, "a panic in an attempt");
        Ok(())
    });
    let executor = executor.await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.register("a").await;
    executor.run_until_idle().await.unwrap();
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Pending, 1));
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts[0].reason.as_deref(), Some("broken_off"));
    t.advance(10);
    executor.run_until_idle().await.unwrap();
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Completed, 2));
    assert_eq!(t.receiver.received().len(), 1);
}

/// A delivery that is due and that nobody holds.
async fn queued() -> TestApp {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.register("a").await;
    t.another_executor().await.pass(t.app.now(), 0).await.unwrap();
    t
}

#[tokio::test]
async fn work_is_claimed_though_where_it_leads_can_not_be_read_and_is_sent_when_it_can() {
    let t = queued().await;
    execute(&t.app.store, AWAY).await;
    assert_eq!(t.executor.claim(t.app.now(), 10).await.unwrap(), 1);
    execute(&t.app.store, BACK).await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.receiver.received()[0].header("x-trigger-attempt"), "1");
}

#[tokio::test]
async fn work_whose_place_stays_unread_is_given_back_and_has_lost_no_attempt() {
    let t = queued().await;
    execute(&t.app.store, AWAY).await;
    t.run().await;
    execute(&t.app.store, BACK).await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Pending, 0));
    t.advance(1);
    t.run().await;
    assert_eq!(t.deliveries().await.remove(0).status, ActionStatus::Completed);
    assert_eq!(t.receiver.received()[0].header("x-trigger-attempt"), "1");
}

#[tokio::test]
async fn a_pass_takes_no_more_due_times_than_one_transaction_should() {
    let t = TestApp::new().await;
    for _ in 0..2 {
        t.trigger("* * * * * *").await;
    }
    t.advance(100_000);
    let now = t.app.now();
    let taken = async || t.executor.pass(now, 0).await.unwrap().triggers;
    assert_eq!([taken().await, taken().await, taken().await], [1, 1, 0]);
}

#[tokio::test]
async fn an_executor_whose_passes_fail_is_not_alive_for_long() {
    let t = TestApp::new().await;
    t.run().await;
    let passed_at = t.app.now();
    t.advance(3600);
    t.executor.report(t.app.now(), chrono::Duration::zero(), false).await.unwrap();
    let status = t.app.executor_status(t.caller.actor.scope()).await.unwrap();
    let (instance, alive) = &status.executors[0];
    assert_eq!((instance.last_pass_at, *alive), (passed_at, false));
    t.run().await;
    t.executor.report(t.app.now(), chrono::Duration::zero(), false).await.unwrap();
    let status = t.app.executor_status(t.caller.actor.scope()).await.unwrap();
    assert_eq!(status.executors[0].0.last_pass_at, t.app.now());
    assert!(status.executors[0].1);
}
