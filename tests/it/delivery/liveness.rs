//! Backends that are away.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::TestApp;
use crate::receiver::Answer;

#[tokio::test]
async fn a_backend_without_a_heartbeat_for_a_minute_gets_nothing() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 * * * * *").await;
    t.advance(60);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1, "a heartbeat of exactly that age counts");
    t.advance(60);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.occurrences().await[1].status, OccurrenceStatus::Pending);
}

#[tokio::test]
async fn what_waited_for_a_backend_is_delivered_when_it_registers_again() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 */10 * * * *").await;
    t.advance(1800);
    t.run().await;
    assert!(t.receiver.received().is_empty());
    t.register("a").await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 3);
    assert!(t.occurrences().await.iter().all(|o| o.status == OccurrenceStatus::Delivered));
}

#[tokio::test]
async fn a_retry_for_a_backend_that_went_away_waits_without_an_attempt() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 0 0 * * *").await;
    t.advance(12 * 3600);
    t.register("a").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    t.advance(300);
    t.run().await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Pending, 1));
    assert_eq!(t.receiver.received().len(), 1);
    t.register("a").await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 2);
}
