//! Off is off: disabled and deleted triggers, changed schedules.

use trigger_manager::app::UpdateTrigger;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::{TestApp, start};
use crate::receiver::Answer;

fn enabled(enabled: bool) -> UpdateTrigger {
    UpdateTrigger { enabled: Some(enabled), ..Default::default() }
}

#[tokio::test]
async fn a_disabled_trigger_does_not_fire() {
    let t = TestApp::new().await;
    t.register("a").await;
    let trigger = t.trigger("*/10 * * * * *").await;
    t.update(trigger.id, enabled(false)).await;
    t.advance(30);
    t.run().await;
    assert!(t.receiver.received().is_empty());
    assert!(t.occurrences().await.is_empty());
}

#[tokio::test]
async fn pausing_is_not_downtime() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("*/10 * * * * *").await;
    t.update(trigger.id, enabled(false)).await;
    t.advance(1000);
    t.update(trigger.id, enabled(true)).await;
    t.live(10, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1);
}

#[tokio::test]
async fn a_changed_schedule_starts_its_window_at_the_change() {
    let t = TestApp::new().await;
    t.register("a").await;
    let trigger = t.trigger("0 0 0 1 1 *").await;
    t.advance(45);
    let every_ten =
        UpdateTrigger { cron_expression: Some("*/10 * * * * *".into()), ..Default::default() };
    let changed = t.update(trigger.id, every_ten).await;
    assert_eq!(changed.next_fire_at, Some(start() + chrono::Duration::seconds(50)));
    t.run().await;
    assert!(t.receiver.received().is_empty());
    t.advance(5);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
}

#[tokio::test]
async fn what_is_not_delivered_when_a_trigger_is_disabled_or_deleted_is_cancelled() {
    for delete in [false, true] {
        let t = TestApp::new().await;
        let backend = t.register("a").await;
        let trigger = t.trigger("0 0 * * * *").await;
        t.receiver.always("/a", Answer::Status(500));
        t.advance(3600);
        t.heartbeat(&[backend.id]).await;
        t.run().await;
        if delete {
            t.app.delete_trigger(&t.caller, trigger.id).await.unwrap();
        } else {
            t.update(trigger.id, enabled(false)).await;
        }
        t.live(60, &[backend.id]).await;
        assert_eq!(t.receiver.received().len(), 1);
        assert_eq!(t.deliveries().await[0].status, ActionStatus::Cancelled);
        let occurrence = t.occurrences().await.remove(0);
        assert_eq!(occurrence.status, OccurrenceStatus::Cancelled);
        let reason = if delete { "trigger_deleted" } else { "trigger_disabled" };
        assert_eq!(occurrence.reason.as_deref(), Some(reason));
    }
}

#[tokio::test]
async fn an_occurrence_that_waits_for_a_backend_goes_with_its_trigger() {
    let t = TestApp::new().await;
    let trigger = t.trigger("*/10 * * * * *").await;
    t.advance(10);
    t.run().await;
    t.app.delete_trigger(&t.caller, trigger.id).await.unwrap();
    t.register("late").await;
    t.run().await;
    assert!(t.receiver.received().is_empty());
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Cancelled);
}

#[tokio::test]
async fn a_trigger_can_be_run_now_although_it_is_disabled() {
    let t = TestApp::new().await;
    t.register("a").await;
    let trigger = t.trigger("0 0 0 1 1 *").await;
    t.update(trigger.id, enabled(false)).await;
    let first = t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    let second = t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    assert_ne!(first.scheduled_at, second.scheduled_at, "both are rows of the ledger");
    t.run().await;
    assert_eq!(t.receiver.received().len(), 2);
    assert!(t.occurrences().await.iter().all(|o| o.status == OccurrenceStatus::Delivered));
}

#[tokio::test]
async fn a_deleted_backend_gets_nothing_more_and_its_occurrence_ends() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 0 * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.advance(12 * 3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.app.delete_backend(&t.caller, backend.id).await.unwrap();
    t.advance(600);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.deliveries().await[0].status, ActionStatus::Cancelled);
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Failed);
}

#[tokio::test]
async fn disabling_once_more_cancels_what_was_run_by_hand() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("0 0 0 1 1 *").await;
    t.update(trigger.id, enabled(false)).await;
    t.receiver.always("/a", Answer::Status(500));
    t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    t.run().await;
    t.update(trigger.id, enabled(false)).await;
    t.live(60, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.deliveries().await[0].status, ActionStatus::Cancelled);
}

#[tokio::test]
async fn a_retry_waits_until_an_attempt_that_was_cancelled_under_way_must_have_ended() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let other = t.another_executor().await;
    assert_eq!(other.pass(t.app.now(), 1).await.unwrap().deliveries, 1);
    t.update(trigger.id, enabled(false)).await;
    t.update(trigger.id, enabled(true)).await;
    let delivery = t.deliveries().await.remove(0);
    t.app.retry_delivery(&t.caller, delivery.id).await.unwrap();
    t.live(29, &[backend.id]).await;
    assert!(t.receiver.received().is_empty());
    t.live(2, &[backend.id]).await;
    assert_eq!(t.receiver.received()[0].header("x-trigger-attempt"), "2");
}
