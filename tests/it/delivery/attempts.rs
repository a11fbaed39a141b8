//! What a backend receives, and what its answers mean.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::egress::{SigningSecret, sign};

use crate::app::{CALLBACK_TOKEN, SIGNING_SECRET, TestApp, start};
use crate::receiver::Answer;

#[tokio::test]
async fn a_due_trigger_calls_the_backend_with_exactly_the_five_fields() {
    let t = TestApp::new().await;
    t.register("a").await;
    let trigger = t.trigger("*/10 * * * * *").await;
    t.advance(10);
    t.run().await;
    let received = t.receiver.received();
    assert_eq!(received.len(), 1);
    let expected = format!(
        r#"{{"trigger_id":"{}","trigger_name":"Daily Report","cron_expression":"*/10 * * * * *","run_key":"daily-report","executed_at":"2026-03-02T12:00:10Z"}}"#,
        trigger.id
    );
    assert_eq!(received[0].body, expected);
    assert_eq!(received[0].header("content-type"), "application/json");
    assert_eq!(received[0].header("authorization"), format!("Bearer {CALLBACK_TOKEN}"));
    assert_eq!(received[0].header("x-trigger-attempt"), "1");
}

#[tokio::test]
async fn a_call_is_signed_by_the_standard_webhooks_convention() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.advance(10);
    t.run().await;
    let received = &t.receiver.received()[0];
    let at: i64 = received.header("webhook-timestamp").parse().unwrap();
    assert_eq!(at, (start() + chrono::Duration::seconds(10)).timestamp());
    let secret = SigningSecret::parse(SIGNING_SECRET).unwrap();
    let signature = sign(&secret, received.header("webhook-id"), at, &received.body);
    assert_eq!(received.header("webhook-signature"), signature);
    let delivery = &t.deliveries().await[0];
    assert_eq!(received.header("webhook-id"), delivery.id.to_string());
    let trace = received.header("traceparent").to_owned();
    let parts: Vec<_> = trace.split('-').map(str::len).collect();
    assert_eq!(parts, [2, 32, 16, 2], "{trace}");
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_bytes_and_a_rising_number() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::Status(500), Answer::Status(302), Answer::Status(200)]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.live(40, &[backend.id]).await;
    let received = t.receiver.received();
    assert_eq!(received.len(), 3);
    for (index, request) in received.iter().enumerate() {
        assert_eq!(request.body, received[0].body);
        assert_eq!(request.header("webhook-id"), received[0].header("webhook-id"));
        assert_eq!(request.header("x-trigger-attempt"), (index + 1).to_string());
    }
    let occurrences = t.occurrences().await;
    assert_eq!(occurrences[0].status, OccurrenceStatus::Delivered);
    let attempts = t.app.attempts_of(&[t.deliveries().await[0].id]).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|a| (a.number, a.response_status)).collect();
    assert_eq!(told, [(1, Some(500)), (2, Some(302)), (3, Some(200))]);
}

#[tokio::test]
async fn an_edit_between_two_attempts_does_not_change_what_is_sent() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    let renamed = trigger_manager::app::UpdateTrigger {
        name: Some("Another name".into()),
        run_key: Some("another-key".into()),
        ..Default::default()
    };
    t.update(trigger.id, renamed).await;
    t.live(10, &[backend.id]).await;
    let received = t.receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].body, received[1].body);
}

#[tokio::test]
async fn retry_after_puts_the_next_attempt_off() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::RetryAfter(503, "120")]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.live(119, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1);
    t.live(2, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 2);
}

#[tokio::test]
async fn a_backend_that_says_gone_gets_nothing_until_it_registers_again() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.receiver.next("/a", [Answer::Status(410)]);
    t.live(60, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1, "heartbeats do not bring it back");
    let registered = t.register("a").await;
    assert_eq!(registered.id, backend.id);
    t.run().await;
    let after = t.receiver.received().len();
    assert_eq!(after, 1 + 6, "the six due times so far are delivered, the refused one among them");
}

#[tokio::test]
async fn a_backend_that_hangs_ends_as_a_time_out_and_is_tried_again() {
    let t = TestApp::with(&[("PFY_DISPATCH_TIMEOUT", "100ms")]).await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::Hang]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Pending);
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts[0].reason.as_deref(), Some("timeout"));
    assert_eq!(attempts[0].response_status, None);
}

#[tokio::test]
async fn an_address_that_is_no_longer_allowed_is_not_called() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    let closed = [("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.0.0.0/8")];
    let executor = t.another_executor_with(&closed).await;
    t.advance(10);
    executor.run_until_idle().await.unwrap();
    assert!(t.receiver.received().is_empty());
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Pending);
    let error = delivery.last_error.unwrap();
    assert!(error.contains("loopback"), "{error}");
}

#[tokio::test]
async fn a_late_gone_from_an_old_address_does_not_touch_a_newer_registration() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.receiver.next("/a", [Answer::Status(410)]);
    t.advance(10);
    // Registered after the attempt began: the clock stands still, so "after" is the same instant.
    t.clock.advance(chrono::Duration::milliseconds(1));
    let executor = &t.executor;
    t.receiver.during("/a", {
        let (app, caller) = (t.app.clone(), t.caller.clone());
        let (clock, id, url) = (t.clock.clone(), t.application.id, t.receiver.url("/b"));
        move || {
            let (app, caller, url) = (app.clone(), caller.clone(), url.clone());
            clock.advance(chrono::Duration::seconds(1));
            Box::pin(async move {
                let new = trigger_manager::app::RegisterBackend {
                    application_id: Some(id),
                    name: "a".into(),
                    callback_url: url,
                    ..Default::default()
                };
                app.register_backend(&caller, new).await.unwrap();
            })
        }
    });
    executor.run_until_idle().await.unwrap();
    let found = t
        .app
        .backend(trigger_manager::domain::access::Scope::Everything, backend.id)
        .await
        .unwrap();
    assert_eq!(found.deactivated_at, None);
    assert_eq!(found.callback_url, t.receiver.url("/b"));
}

#[tokio::test]
async fn a_refused_address_is_an_attempt_that_the_log_shows() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    let closed = t.another_executor_with(&[("PFY_CALLBACKS_ALLOWED_NETWORKS", "10.0.0.0/8")]).await;
    t.advance(10);
    closed.run_until_idle().await.unwrap();
    let delivery = t.deliveries().await.remove(0);
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts[0].reason.as_deref(), Some("refused"));
}

#[tokio::test]
async fn how_long_work_took_is_counted_from_when_it_was_made_until_it_ended() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    let clock = t.clock.clone();
    t.receiver.during("/a", move || {
        clock.advance(chrono::Duration::milliseconds(1500));
        Box::pin(async {})
    });
    t.live(20, &[backend.id]).await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Completed, 2));
    let took = delivery.executed_at.unwrap() - delivery.created_at;
    assert!(took.num_milliseconds() > 1500, "{took}");
    let metrics = t.app.metrics.encode();
    let sum = metrics.lines().find(|line| line.contains("process_time_seconds_sum")).unwrap();
    let sum: f64 = sum.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!((sum - took.as_seconds_f64()).abs() < 0.001, "{sum} s, not {took}");
}
