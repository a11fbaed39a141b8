//! What rows and metrics say of events, cycles and the work that they queue.

use std::slice;

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};
use trigger_manager::domain::event::Event;
use trigger_manager::domain::id::EventId;
use trigger_manager::domain::line::CALL_BUDGET;
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::domain::scheduled_action::{ActionConfig, Cause, Concern};
use trigger_manager::domain::trigger_log::{LogStatus, TriggerLog};
use trigger_manager::line::stand_in::Fault;

use super::place::{Place, text, user};

/// A call of the application's backends.
fn call(p: &Place) -> Value {
    json!({"applicationId": p.t.application.id, "runKey": "k", "payload": {}})
}

/// Evaluates what has happened, and does nothing of what it queues.
async fn evaluated(p: &Place, event: &Event) {
    p.happens(slice::from_ref(event)).await;
    p.t.executor.take_events(p.t.app.now()).await.unwrap();
}

/// A row of the log about a rule and an event, as long as nothing more is known.
fn row(rule: &TriggerRule, event: EventId, now: DateTime<Utc>) -> TriggerLog {
    TriggerLog {
        id: 0,
        trigger_rule_id: Some(rule.id),
        line_oa_id: Some(rule.line_oa_id),
        organization_id: Some(rule.organization_id),
        audience_id: None,
        user_id: Some(user(0)),
        trigger_on: rule.source_type.clone(),
        action_type: Some(rule.action_type.clone()),
        action_config: None,
        status: LogStatus::HeldBack,
        reason: None,
        error_message: None,
        held_until: None,
        event_id: Some(event),
        scheduled_action_id: None,
        application_id: None,
        backend_id: None,
        attempt: None,
        response_status: None,
        duration_ms: None,
        platform_request_id: None,
        created_date: now,
    }
}

/// The last row of the log, without its number.
async fn last_row(p: &Place) -> TriggerLog {
    TriggerLog { id: 0, ..p.logs().await.pop().unwrap() }
}

#[tokio::test]
async fn work_says_why_it_was_queued_and_for_whom() {
    let p = Place::new().await;
    let workflow = p.workflow().await;
    let rule = TriggerRule {
        source_type: "booking_event".into(),
        source_config: json!({"status": "confirmed", "offset": "-1d"}),
        workflow_id: Some(workflow),
        workflow_node_path: Some("start/wait".into()),
        ..p.draft()
    };
    let (rule, now) = (p.save(rule).await, p.t.app.now());
    let starts = now + Duration::days(3);
    let payload = json!({"bookingId": "b1", "status": "confirmed", "startsAt": starts});
    let booking = p.event("booking_event", Some(user(0)), payload);
    assert!(booking.subject.is_some());
    evaluated(&p, &booking).await;
    let action = p.actions().await.remove(0);
    let cause = Cause {
        trigger_rule_id: Some(rule.id),
        source_type: Some("booking_event".into()),
        source_config: Some(rule.source_config),
        event_id: Some(booking.id),
        subject: booking.subject,
        workflow_id: Some(workflow),
        workflow_node_path: Some("start/wait".into()),
        ..Cause::default()
    };
    assert_eq!(action.cause, cause);
    let concern = Concern {
        organization_id: Some(p.line_oa.organization_id),
        line_oa_id: Some(p.line_oa.id),
        user_id: Some(user(0)),
        ..Concern::default()
    };
    assert_eq!(action.concern, concern);
    assert_eq!((action.action_type.as_str(), action.lane), ("send_message", p.line_oa.id.0));
    assert_eq!(action.execute_at, starts - Duration::days(1));
    assert_eq!((action.created_at, action.updated_at), (now, now));
}

#[tokio::test]
async fn a_message_is_tried_for_as_long_as_the_platform_knows_it_and_a_call_as_any_other() {
    let p = Place::new().await;
    let message = p.on_forms("send_message", text("Hi")).await;
    p.on_forms("call_backend", call(&p)).await;
    evaluated(&p, &p.form(0)).await;
    let now = p.t.app.now();
    for action in p.actions().await {
        let is_message = action.cause.trigger_rule_id == Some(message.id);
        let budget = if is_message { CALL_BUDGET } else { Duration::hours(24) };
        assert_eq!(action.expires_at, Some(now + budget), "{}", action.action_type);
        let application = (!is_message).then_some(p.t.application.id);
        assert_eq!(action.concern.application_id, application);
        let lane = if is_message { p.line_oa.id.0 } else { p.t.application.id.0 };
        assert_eq!(action.lane, lane);
    }
}

#[tokio::test]
async fn the_log_says_of_a_queued_action_what_it_is_and_why() {
    let p = Place::new().await;
    let rule = p.on_forms("call_backend", call(&p)).await;
    let event = p.form(0);
    evaluated(&p, &event).await;
    let action = p.actions().await.remove(0);
    let ActionConfig::Rendered(config) = action.config else { panic!("{action:?}") };
    let expected = TriggerLog {
        status: LogStatus::Queued,
        action_config: Some(config),
        scheduled_action_id: Some(action.id),
        application_id: Some(p.t.application.id),
        ..row(&rule, event.id, p.t.app.now())
    };
    assert_eq!(last_row(&p).await, expected);
}

#[tokio::test]
async fn the_log_says_which_cycle_and_audience_it_was_about() {
    let p = Place::new().await;
    let audience = p.audience(1).await;
    let rule = super::cycles::hourly(&p, audience.id).await;
    let mut config = rule.source_config.clone();
    config["condition"] = "user.id == 'nobody'".into();
    let held = TriggerRule {
        id: trigger_manager::domain::id::TriggerRuleId::new(),
        source_config: config,
        ..rule.clone()
    };
    let held = p.save(held).await;
    p.t.advance(3600);
    let now = p.t.app.now();
    p.t.executor.begin_cycles(now).await.unwrap();
    while p.t.executor.walk_cycle(now).await.unwrap() {}
    let cycles = p.cycles().await;
    let logs = p.logs().await;
    for rule in [&rule, &held] {
        let log = logs.iter().find(|log| log.trigger_rule_id == Some(rule.id)).unwrap();
        let cycle = cycles.iter().find(|cycle| cycle.trigger_rule_id == rule.id).unwrap();
        let expected = TriggerLog {
            id: log.id,
            audience_id: Some(audience.id),
            status: log.status,
            reason: log.reason.clone(),
            error_message: log.error_message.clone(),
            action_config: log.action_config.clone(),
            scheduled_action_id: log.scheduled_action_id,
            ..row(rule, EventId(cycle.id.0), now)
        };
        assert_eq!(*log, expected);
    }
    let mut said: Vec<_> = logs.iter().map(|log| log.status.as_str()).collect();
    said.sort_unstable();
    assert_eq!(said, ["held_back", "queued"]);
}

#[tokio::test]
async fn the_log_says_what_was_held_back_or_failed_and_why() {
    let p = Place::new().await;
    let condition = json!({"condition": "event.payload.submissionId == 'yes'"});
    let rule = p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    let event = p.form(0);
    evaluated(&p, &event).await;
    let found = last_row(&p).await;
    let expected = TriggerLog {
        reason: Some("condition".into()),
        error_message: Some(found.error_message.clone().unwrap()),
        ..row(&rule, event.id, p.t.app.now())
    };
    assert_eq!(found, expected);
    let rule = p.save(TriggerRule { source_config: json!({}), ..rule }).await;
    let event = Event { user_id: None, ..p.form(0) };
    evaluated(&p, &event).await;
    let found = last_row(&p).await;
    let expected = TriggerLog {
        status: LogStatus::Failed,
        user_id: None,
        reason: Some("no_user".into()),
        error_message: Some(found.error_message.clone().unwrap()),
        action_config: Some(rule.action_config.clone()),
        ..row(&rule, event.id, p.t.app.now())
    };
    assert_eq!(found, expected);
}

/// The lines of the metrics that begin with one of `names`, in their order.
fn series(p: &Place, names: &[&str]) -> Vec<String> {
    let all = p.t.app.metrics.encode();
    let wanted = all.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    wanted.map(str::to_owned).collect()
}

#[tokio::test]
async fn evaluations_are_counted_by_what_they_came_to_and_events_that_match_once() {
    let p = Place::new().await;
    for frequency in [Frequency::EveryTime, Frequency::Once] {
        p.save(TriggerRule { frequency, ..p.draft() }).await;
    }
    let nobody = || Event { user_id: None, ..p.form(0) };
    let happened = [p.form(1), p.form(1), p.form(2), nobody()];
    p.happens(&happened).await;
    let report = p.t.executor.take_events(p.t.app.now()).await.unwrap();
    assert_eq!((report.events, report.queued), (4, 5));
    let counted = series(&p, &["pfy_rule_evaluations_total{", "pfy_events_matched_total{"]);
    let expected = [
        "pfy_events_matched_total{type=\"form_submitted\"} 3",
        "pfy_rule_evaluations_total{outcome=\"failed\"} 2",
        "pfy_rule_evaluations_total{outcome=\"held_back\"} 1",
        "pfy_rule_evaluations_total{outcome=\"queued\"} 5",
    ];
    assert_eq!(counted, expected);
}

#[tokio::test]
async fn an_action_of_a_rule_is_counted_when_it_has_ended_and_a_trigger_has_none() {
    let p = Place::new().await;
    p.t.register("a").await;
    p.t.trigger("*/10 * * * * *").await;
    p.on_forms("send_message", text("Hi")).await;
    p.line.fail_next(1, Fault::ErrorBefore);
    p.form_sent(1).await;
    assert_eq!(series(&p, &["pfy_actions_total{"]), [""; 0], "it is tried again");
    p.t.advance(10);
    p.t.run().await;
    assert_eq!(p.t.receiver.received_at("/a").len(), 1);
    let expected = ["pfy_actions_total{action_type=\"send_message\",outcome=\"completed\"} 1"];
    assert_eq!(series(&p, &["pfy_actions_total{"]), expected);
}
