//! How long something is tried, and how it ends.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::TestApp;
use crate::receiver::Answer;

#[tokio::test]
async fn a_delivery_fails_after_the_last_attempt_and_says_why() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "3")]).await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.live(60, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 3);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Failed);
    assert_eq!(delivery.last_error.as_deref(), Some("the backend answered 500, not 2xx"));
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Failed);
    let metrics = t.app.metrics.encode();
    let line =
        format!("pfy_executor_trigger_delivery_failed_total{{app=\"{}\"}} 1", t.application.id);
    assert!(metrics.contains(&line), "{metrics}");
}

#[tokio::test]
async fn what_is_due_and_finds_no_backend_is_counted_when_it_is_due() {
    let t = TestApp::new().await;
    t.trigger("0 0 * * * *").await;
    t.advance(7200);
    t.run().await;
    let line =
        format!("pfy_executor_occurrences_without_backend_total{{app=\"{}\"}} 2", t.application.id);
    let metrics = t.app.metrics.encode();
    assert!(metrics.contains(&line), "{metrics}");
}

#[tokio::test]
async fn a_retry_by_hand_gives_a_delivery_a_whole_new_budget() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "2")]).await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::Status(500), Answer::Status(500), Answer::Status(500)]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.live(10, &[backend.id]).await;
    let failed = t.deliveries().await.remove(0);
    assert_eq!(failed.status, ActionStatus::Failed);
    t.app.retry_delivery(&t.caller, failed.id).await.unwrap();
    t.run().await;
    t.live(60, &[backend.id]).await;
    let numbers: Vec<_> =
        t.receiver.received().iter().map(|r| r.header("x-trigger-attempt").to_owned()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4"], "attempts go on counting");
    assert_eq!(t.deliveries().await[0].status, ActionStatus::Completed);
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Delivered);
}

#[tokio::test]
async fn an_occurrence_that_no_backend_ever_took_fails_when_its_budget_ends() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_AGE", "10m")]).await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.run().await;
    let off = trigger_manager::app::UpdateTrigger {
        cron_expression: Some("0 0 0 1 1 *".into()),
        ..Default::default()
    };
    t.update(trigger.id, off).await;
    for _ in 0..11 {
        t.advance(60);
        t.run().await;
    }
    let occurrence = t.occurrences().await.remove(0);
    assert_eq!(occurrence.status, OccurrenceStatus::Failed);
    assert_eq!(occurrence.reason.as_deref(), Some("no_active_backend"));
    assert!(occurrence.fan_out_attempts > 1);
    t.register("too-late").await;
    t.run().await;
    assert!(t.receiver.received().is_empty());
}

#[tokio::test]
async fn a_delivery_whose_backend_stays_away_fails_when_its_budget_ends() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_AGE", "10m")]).await;
    t.register("a").await;
    t.trigger("0 0 0 * * *").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.advance(12 * 3600);
    t.register("a").await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    for _ in 0..11 {
        t.advance(61);
        t.run().await;
    }
    assert_eq!(t.receiver.received().len(), 1);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Failed);
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Failed);
}
