//! Work that waits.

use chrono::Duration;
use serde_json::{Value, json};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::domain::scheduled_action::ActionConfig;
use trigger_manager::store::{cancel, scheduled_action};

use super::place::{Place, text};

fn with(mut config: Value, more: Value) -> Value {
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[tokio::test]
async fn a_delayed_action_waits_in_the_queue_and_is_done_when_it_is_due() {
    let p = Place::new().await;
    p.on_forms("send_message", with(text("Later"), json!({"delay": "3d"}))).await;
    p.form_sent(1).await;
    let action = p.actions().await.remove(0);
    assert_eq!(action.status, ActionStatus::Pending);
    assert_eq!(action.execute_at, p.t.app.now() + Duration::days(3));
    p.t.advance(3 * 24 * 3600 - 1);
    p.t.run().await;
    assert_eq!(p.sent().len(), 0);
    p.t.advance(1);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn an_edit_does_not_change_what_is_queued() {
    let p = Place::new().await;
    let rule = p.on_forms("send_message", with(text("Old"), json!({"delay": "1h"}))).await;
    p.form_sent(1).await;
    p.save(TriggerRule { action_config: text("New"), ..rule }).await;
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent()[0].1, "Old");
}

#[tokio::test]
async fn a_template_is_rendered_with_what_is_known_when_it_is_queued() {
    let p = Place::new().await;
    let config = with(text("{{ event.payload.answers.name }}"), json!({"delay": "1h"}));
    p.on_forms("send_message", config).await;
    p.form_sent(1).await;
    let ActionConfig::Rendered(config) = &p.actions().await[0].config else { panic!() };
    assert_eq!(config["messages"][0]["text"], "Ada");
}

#[tokio::test]
async fn nothing_is_done_after_it_has_expired() {
    let p = Place::new().await;
    let config = with(text("Late"), json!({"delay": "1h", "expiresAfter": "10m"}));
    p.on_forms("send_message", config).await;
    p.form_sent(1).await;
    p.t.advance(3600 + 600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 0);
    let action = p.actions().await.remove(0);
    assert_eq!(action.status, ActionStatus::Expired);
    assert_eq!(action.last_error.as_deref(), Some("its time had passed"));
}

#[tokio::test]
async fn work_that_is_cancelled_is_not_done() {
    let p = Place::new().await;
    let rule = p.on_forms("send_message", with(text("Hi"), json!({"delay": "1h"}))).await;
    p.form_sent(1).await;
    p.form_sent(2).await;
    let (first, now) = (p.actions().await[0].id, p.t.app.now());
    let tx = p.t.app.store.begin().await.unwrap();
    assert!(scheduled_action::cancel(&*tx, first, "cancelled by a person", now).await.unwrap());
    assert!(!scheduled_action::cancel(&*tx, first, "once more", now).await.unwrap());
    tx.commit_unaudited().await.unwrap();
    let tx = p.t.app.store.begin().await.unwrap();
    let cancelled = cancel::of_rule(&*tx, rule.id, ("rule_disabled", now), 1_000).await;
    assert_eq!(cancelled.unwrap(), 1);
    tx.commit_unaudited().await.unwrap();
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 0);
    let reasons: Vec<_> = p.actions().await.into_iter().map(|a| a.last_error.unwrap()).collect();
    assert_eq!(reasons, ["cancelled by a person", "rule_disabled"]);
}

#[tokio::test]
async fn work_that_expired_can_be_given_a_new_budget() {
    let p = Place::new().await;
    let config = with(text("Hi"), json!({"delay": "1h", "expiresAfter": "10m"}));
    p.on_forms("send_message", config).await;
    p.form_sent(1).await;
    p.t.advance(7200);
    p.t.run().await;
    let (id, now) = (p.actions().await[0].id, p.t.app.now());
    let tx = p.t.app.store.begin().await.unwrap();
    let until = now + Duration::hours(1);
    assert_eq!(scheduled_action::requeue(&*tx, &[id], now, until).await.unwrap(), [None]);
    tx.commit_unaudited().await.unwrap();
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn an_action_may_wait_for_a_time_of_day() {
    let p = Place::new().await;
    let at = json!({"at": "09:00", "timeZone": "Asia/Bangkok"});
    p.on_forms("send_message", with(text("Morning"), at)).await;
    p.form_sent(1).await;
    // It is noon in UTC, seven in the evening in Bangkok.
    assert_eq!(p.actions().await[0].execute_at, p.t.app.now() + Duration::hours(14));
}

#[tokio::test]
async fn new_credentials_and_backends_do_not_hurry_what_waits_for_its_time() {
    let p = Place::new().await;
    let backend = p.t.register("backend").await;
    p.on_forms("send_message", with(text("Later"), json!({"delay": "3d"}))).await;
    let call = json!({
        "applicationId": p.t.application.id, "runKey": "k", "payload": {}, "delay": "2h",
    });
    p.on_forms("call_backend", call).await;
    p.form_sent(1).await;
    let due: Vec<_> = p.actions().await.into_iter().map(|action| action.execute_at).collect();
    let update = trigger_manager::app::UpdateLineOa {
        channel_access_token: Some(secrecy::SecretString::from(super::place::TOKEN)),
        ..Default::default()
    };
    p.t.app.update_line_oa(&p.t.caller, p.line_oa.id, update).await.unwrap();
    p.t.advance(120);
    p.t.register("backend").await;
    p.t.heartbeat(&[backend.id]).await;
    p.t.run().await;
    let still: Vec<_> = p.actions().await.into_iter().map(|action| action.execute_at).collect();
    assert_eq!(still, due);
    assert!(p.sent().is_empty());
    assert!(p.t.receiver.received_at("/backend").is_empty());
}
