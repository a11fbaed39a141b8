//! Passes that are prepared before their time.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::Trigger;

use crate::app::TestApp;

/// A trigger that is due in a second.
async fn due_soon() -> (TestApp, Trigger) {
    let t = TestApp::new().await;
    t.register("a").await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.advance(3599);
    t.register("a").await;
    (t, trigger)
}

#[tokio::test]
async fn a_pass_that_is_prepared_has_not_happened_until_it_is_completed() {
    let (t, trigger) = due_soon().await;
    let due = trigger.next_fire_at.unwrap();
    let prepared = t.executor.prepare(due, 10).await.unwrap().unwrap();
    assert_eq!(t.occurrences().await, []);
    t.advance(1);
    let report = t.executor.complete(prepared).await.unwrap();
    assert_eq!((report.triggers, report.occurrences, report.deliveries), (1, 1, 1));
    let occurrence = t.occurrences().await.remove(0);
    assert_eq!((occurrence.scheduled_at, occurrence.created_at), (due, due));
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Completed, 1));
}

#[tokio::test]
async fn a_pass_that_is_prepared_and_given_up_is_made_by_whoever_comes_next() {
    let (t, trigger) = due_soon().await;
    let due = trigger.next_fire_at.unwrap();
    drop(t.another_executor().await.prepare(due, 10).await.unwrap());
    t.advance(1);
    t.run().await;
    assert_eq!(t.occurrences().await.len(), 1);
    assert_eq!(t.receiver.received().len(), 1);
}

#[tokio::test]
async fn nothing_is_prepared_of_what_is_not_due_by_then() {
    let (t, trigger) = due_soon().await;
    let before = trigger.next_fire_at.unwrap() - chrono::Duration::milliseconds(1);
    assert!(t.executor.prepare(before, 10).await.unwrap().is_none());
}
