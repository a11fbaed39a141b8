//! Frequency and cooldown.

use chrono::Duration;
use serde_json::json;
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::store::retention;

use super::place::{Place, text};

#[tokio::test]
async fn a_second_event_within_the_hour_is_held_back_until_the_hour_is_over() {
    let p = Place::new().await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..p.draft() }).await;
    let first = p.t.app.now();
    p.form_sent(1).await;
    p.t.advance(3599);
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 1);
    let held = p.logs().await.pop().unwrap();
    assert_eq!(held.reason.as_deref(), Some("frequency"));
    assert_eq!(held.held_until, Some(first + Duration::hours(1)));
    let said = held.error_message.unwrap();
    assert_eq!(said, "held back by once_per_hour until 2026-03-02T13:00:00Z");
    p.form_sent(2).await;
    assert_eq!(p.sent().len(), 2, "another user has a rate of their own");
    p.t.advance(1);
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 3);
}

#[tokio::test]
async fn every_frequency_lets_the_next_one_through_exactly_when_its_window_ends() {
    for frequency in Frequency::ALL {
        let p = Place::new().await;
        p.save(TriggerRule { frequency, ..p.draft() }).await;
        p.form_sent(1).await;
        let Some(window) = frequency.window() else {
            p.t.clock.advance(Duration::days(3650));
            p.form_sent(1).await;
            assert_eq!(p.sent().len(), 1, "{frequency:?}");
            continue;
        };
        if window > Duration::zero() {
            p.t.clock.advance(window - Duration::milliseconds(1));
            p.form_sent(1).await;
            assert_eq!(p.sent().len(), 1, "{frequency:?}");
            p.t.clock.advance(Duration::milliseconds(1));
        }
        p.form_sent(1).await;
        assert_eq!(p.sent().len(), 2, "{frequency:?}");
    }
}

#[tokio::test]
async fn an_event_that_the_condition_leaves_out_uses_up_nothing() {
    let p = Place::new().await;
    let source_config = json!({ "condition": "event.payload.submissionId == 'yes'" });
    let draft = TriggerRule { source_config, frequency: Frequency::Once, ..p.draft() };
    p.save(draft).await;
    for submission in ["no", "yes", "yes"] {
        let mut event = p.form(1);
        event.payload["submissionId"] = submission.into();
        p.happens(&[event]).await;
        p.t.run().await;
    }
    let said: Vec<_> = p.said().await.into_iter().filter_map(|(_, reason)| reason).collect();
    assert_eq!(said, ["condition", "frequency"]);
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn the_longer_of_frequency_and_cooldown_holds() {
    let p = Place::new().await;
    let rule =
        TriggerRule { frequency: Frequency::OncePerHour, cooldown_seconds: 7200, ..p.draft() };
    p.save(rule).await;
    p.form_sent(1).await;
    p.t.advance(7199);
    p.form_sent(1).await;
    assert_eq!(p.logs().await.pop().unwrap().reason.as_deref(), Some("cooldown"));
    p.t.advance(1);
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn a_shorter_frequency_counts_from_the_edit_on() {
    let p = Place::new().await;
    let rule = p.save(TriggerRule { frequency: Frequency::OncePerMonth, ..p.draft() }).await;
    p.form_sent(1).await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..rule }).await;
    p.t.advance(3600);
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn many_events_of_one_user_in_one_batch_fire_once() {
    let p = Place::new().await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..p.draft() }).await;
    let events: Vec<_> = (0..50).map(|_| p.form(1)).collect();
    p.happens(&events).await;
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    let said = p.said().await;
    let held = said.iter().filter(|(status, _)| *status == "held_back").count();
    assert_eq!(held, 49);
}

#[tokio::test]
async fn work_that_waits_holds_back_more_of_the_same_for_the_same_user() {
    let p = Place::new().await;
    let mut delayed = text("Later");
    delayed["delay"] = "3h".into();
    let rule =
        TriggerRule { frequency: Frequency::OncePerHour, action_config: delayed, ..p.draft() };
    p.save(rule).await;
    p.form_sent(1).await;
    p.t.advance(2 * 3600);
    p.form_sent(1).await;
    assert_eq!(p.logs().await.pop().unwrap().reason.as_deref(), Some("waiting"));
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    p.form_sent(1).await;
    p.t.advance(3 * 3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn a_limit_that_comes_while_work_waits_counts_from_the_first_firing_after_it() {
    let p = Place::new().await;
    let mut delayed = text("Later");
    delayed["delay"] = "3h".into();
    let rule = p.save(TriggerRule { action_config: delayed, ..p.draft() }).await;
    p.form_sent(1).await;
    p.save(TriggerRule { frequency: Frequency::OncePerDay, ..rule }).await;
    p.form_sent(1).await;
    let held = p.logs().await.pop().unwrap();
    assert_eq!((held.reason.as_deref(), held.held_until), (Some("waiting"), None));
    p.t.advance(3 * 3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    p.form_sent(1).await;
    p.t.advance(3 * 3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn work_in_progress_holds_back_more_of_the_same_and_nothing_of_another_rule() {
    let p = Place::new().await;
    p.save(TriggerRule { cooldown_seconds: 1, ..p.draft() }).await;
    p.happens(&[p.form(1)]).await;
    let (busy, now) = (p.another_executor().await, p.t.app.now());
    assert_eq!(busy.take_events(now).await.unwrap().queued, 1);
    assert_eq!(busy.claim(now, 10).await.unwrap(), 1);
    p.save(TriggerRule { cooldown_seconds: 1, ..p.draft() }).await;
    p.t.advance(2);
    p.form_sent(1).await;
    let said: Vec<_> = p.said().await.into_iter().filter_map(|(_, reason)| reason).collect();
    assert_eq!(said, ["waiting"]);
    assert_eq!(p.sent().len(), 1, "the other rule's");
}

#[tokio::test]
async fn a_clock_that_was_set_back_lets_nothing_through_that_was_not_due() {
    let p = Place::new().await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..p.draft() }).await;
    p.form_sent(1).await;
    p.t.clock.advance(Duration::minutes(-30));
    p.form_sent(1).await;
    p.t.clock.advance(Duration::minutes(89));
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 1, "one minute is left");
    p.t.clock.advance(Duration::minutes(1));
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn events_without_a_user_are_limited_per_rule() {
    let p = Place::new().await;
    p.t.register("backend").await;
    let rule = TriggerRule {
        frequency: Frequency::OncePerHour,
        action_type: "call_backend".into(),
        action_config: serde_json::json!({
            "applicationId": p.t.application.id, "runKey": "k", "payload": {},
        }),
        ..p.draft()
    };
    p.save(rule).await;
    for _ in 0..2 {
        let event = trigger_manager::domain::event::Event { user_id: None, ..p.form(1) };
        p.happens(&[event]).await;
        p.t.run().await;
    }
    assert_eq!(p.t.receiver.received_at("/backend").len(), 1);
}

#[tokio::test]
async fn a_process_that_stood_still_counts_from_when_it_goes_on() {
    let p = Place::new().await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..p.draft() }).await;
    let before = p.t.app.now();
    p.t.advance(7200);
    p.happens(&[p.form(1)]).await;
    p.t.executor.take_events(before).await.unwrap();
    p.t.advance(60);
    p.form_sent(1).await;
    assert_eq!(p.said().await[1].1.as_deref(), Some("frequency"));
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn a_rule_whose_workflow_was_deleted_uses_up_no_right_to_fire() {
    let p = Place::new().await;
    let workflow = p.workflow().await;
    let rule = TriggerRule {
        action_type: "resume_workflow".into(),
        action_config: json!({}),
        workflow_id: Some(workflow),
        workflow_node_path: Some("start/wait".into()),
        frequency: Frequency::Once,
        ..p.draft()
    };
    let rule = p.save(rule).await;
    p.t.app.delete_workflow(&p.t.caller, workflow).await.unwrap();
    p.form_sent(1).await;
    assert_eq!(p.said().await, [("failed", Some("workflow_deleted".into()))]);
    p.save(TriggerRule { workflow_id: Some(p.workflow().await), ..rule }).await;
    p.form_sent(1).await;
    assert_eq!(p.actions().await.len(), 1);
}

#[tokio::test]
async fn what_is_remembered_of_a_deleted_rule_goes_with_retention_and_of_others_stays() {
    let p = Place::new().await;
    let gone = p.save(TriggerRule { frequency: Frequency::Once, ..p.draft() }).await;
    p.save(TriggerRule { frequency: Frequency::Once, ..p.draft() }).await;
    p.form_sent(1).await;
    let now = p.t.app.now();
    assert_eq!(p.t.executor.retain(now).await.unwrap().rule_states, 0);
    p.t.app.delete_trigger_rule(&p.t.caller, gone.id).await.unwrap();
    let later = now + Duration::seconds(1);
    let tx = p.t.app.store.begin().await.unwrap();
    let deleted = retention::delete_rule_states(&tx, later, 0).await.unwrap();
    assert_eq!(deleted, 0, "no more than asked for");
    drop(tx);
    assert_eq!(p.t.executor.retain(later).await.unwrap().rule_states, 1);
    assert_eq!(p.t.executor.retain(later).await.unwrap().rule_states, 0);
}
