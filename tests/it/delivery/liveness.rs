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

#[tokio::test]
async fn an_executor_that_was_last_here_a_week_ago_is_forgotten() {
    let t = TestApp::new().await;
    let zero = chrono::Duration::zero();
    t.executor.report(t.app.now(), zero, true).await.unwrap();
    t.advance(7 * 86_400);
    t.another_executor().await.report(t.app.now(), zero, false).await.unwrap();
    assert_eq!(t.executor.retain(t.app.now()).await.unwrap().executors, 0);
    t.advance(1);
    assert_eq!(t.executor.retain(t.app.now()).await.unwrap().executors, 1);
}

#[tokio::test]
async fn a_deleted_application_has_no_metrics_in_whichever_process() {
    let t = TestApp::new().await;
    let (id, elsewhere) = (t.application.id, trigger_manager::domain::id::ApplicationId::new());
    t.app.metrics.queued(id, 1);
    t.app.metrics.queued(elsewhere, 1);
    t.executor.observe().await.unwrap();
    let metrics = t.app.metrics.encode();
    assert!(metrics.contains(&id.to_string()), "{metrics}");
    assert!(!metrics.contains(&elsewhere.to_string()), "another process deleted it: {metrics}");
    t.app.delete_application(&t.caller, id).await.unwrap();
    let metrics = t.app.metrics.encode();
    assert!(!metrics.contains(&id.to_string()), "{metrics}");
}
