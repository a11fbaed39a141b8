//! Very much that a rule has queued is taken back in steps. Off is off at once all the same.

use serde_json::{Value, json};
use trigger_manager::app::UpdateTriggerRule;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::rule::TriggerRule;
use uuid::Uuid;

use super::place::{Place, text, user};
use crate::delivery::withdrawal::{LITTLE, audit};

/// A rule that has queued a message in an hour for each of `users` users.
async fn queued(users: usize) -> (Place, TriggerRule) {
    let p = Place::with(&LITTLE).await;
    let workflow_id = p.workflow().await;
    let action_config = json!({"messages": text("Hi")["messages"], "delay": "1h"});
    let draft = TriggerRule {
        action_config,
        workflow_id: Some(workflow_id),
        workflow_node_path: Some("start".into()),
        ..p.draft()
    };
    let rule = p.save(draft).await;
    for number in 0..users {
        p.form_sent(number).await;
    }
    (p, rule)
}

fn enabled(enabled: bool) -> UpdateTriggerRule {
    UpdateTriggerRule { enabled: Some(enabled), ..Default::default() }
}

/// Lets the hour pass and all be done; nothing is sent, and all work is cancelled for that reason.
async fn nothing_is_sent(p: &Place, reason: &str) {
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent(), []);
    for action in p.actions().await {
        assert_eq!(action.status, ActionStatus::Cancelled);
        assert_eq!((action.last_error.as_deref(), action.retry_count), (Some(reason), 0));
    }
}

/// What the newest row says, and what the one before it says in that state.
async fn rows(p: &Place, id: Uuid) -> (String, Option<Value>) {
    let row = audit(&p.t, id).await.remove(0);
    assert_eq!(row.project_id, Some(p.t.application.project_id));
    (row.action, row.after)
}

#[tokio::test]
async fn a_disabled_rule_sends_nothing_from_then_on_and_is_enabled_once_all_is_taken_back() {
    let (p, rule) = queued(13).await;
    let disable = || p.t.app.update_trigger_rule(&p.t.caller, rule.id, enabled(false));
    disable().await.unwrap();
    let (action, after) = rows(&p, rule.id.0).await;
    let after = after.unwrap();
    assert_eq!(action, "trigger_rule.update");
    assert_eq!((&after["cancelledActions"], &after["restFollows"]), (&json!(5), &json!(true)));
    disable().await.unwrap();
    let after = rows(&p, rule.id.0).await.1.unwrap();
    assert_eq!((&after["cancelledActions"], &after["restFollows"]), (&json!(5), &json!(true)));
    let enable = || p.t.app.update_trigger_rule(&p.t.caller, rule.id, enabled(true));
    let refused = enable().await.unwrap_err();
    assert_eq!((refused.code(), refused.field()), ("CONFLICT", Some("enabled")), "{refused}");
    let cancelled = p.actions().await;
    let cancelled = cancelled.iter().find(|one| one.status == ActionStatus::Cancelled).unwrap();
    let refused = p.t.app.retry_scheduled_action(&p.t.caller, cancelled.id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT", "{refused}");

    nothing_is_sent(&p, "rule_disabled").await;
    let told = json!({"reason": "rule_disabled", "cancelledActions": 3});
    assert_eq!(rows(&p, rule.id.0).await, ("trigger_rule.cancel_rest".into(), Some(told)));
    enable().await.unwrap();
    p.t.app.retry_scheduled_action(&p.t.caller, cancelled.id).await.unwrap();
    p.form_sent(50).await;
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn one_with_as_much_as_a_transaction_takes_is_taken_back_and_can_be_enabled_at_once() {
    let (p, rule) = queued(5).await;
    let disabled = p.t.app.update_trigger_rule(&p.t.caller, rule.id, enabled(false)).await.unwrap();
    assert!(!disabled.enabled);
    let after = rows(&p, rule.id.0).await.1.unwrap();
    assert_eq!((&after["cancelledActions"], after.get("restFollows")), (&json!(5), None));
    p.t.app.update_trigger_rule(&p.t.caller, rule.id, enabled(true)).await.unwrap();
}

#[tokio::test]
async fn a_deleted_rule_line_oa_or_workflow_sends_nothing_from_then_on() {
    for what in ["rule", "line_oa", "workflow"] {
        let (p, rule) = queued(8).await;
        // Beside it, of another rule: it goes on unless the LINE OA went.
        let other =
            p.on_forms("send_message", json!({"messages": text("Yo")["messages"], "delay": "2h"}));
        other.await;
        p.happens(&[p.form(100)]).await;
        p.t.run().await;
        let (app, caller) = (&p.t.app, &p.t.caller);
        let (id, reason) = match what {
            "rule" => {
                app.delete_trigger_rule(caller, rule.id).await.unwrap();
                (rule.id.0, "rule_deleted")
            }
            "line_oa" => {
                app.delete_line_oa(caller, p.line_oa.id).await.unwrap();
                (p.line_oa.id.0, "line_oa_deleted")
            }
            _ => {
                let id = rule.workflow_id.unwrap();
                app.delete_workflow(caller, id).await.unwrap();
                (id.0, "workflow_deleted")
            }
        };
        let before = audit(&p.t, id).await.remove(0).before.unwrap();
        assert_eq!(
            (&before["cancelledActions"], &before["restFollows"]),
            (&json!(5), &json!(true))
        );
        p.t.advance(3600);
        p.t.run().await;
        assert_eq!(p.sent(), [], "{what}");
        let (action, after) = rows(&p, id).await;
        assert!(action.ends_with(".cancel_rest"), "{action}");
        let all = if what == "line_oa" { 10 } else { 9 };
        assert_eq!(after.unwrap()["cancelledActions"], all - 5, "{what}");
        let ended = p.actions().await.into_iter();
        let ended = ended.filter(|one| one.last_error.as_deref() == Some(reason)).count();
        assert_eq!(ended, all, "{what}");
        p.t.advance(3600);
        p.t.run().await;
        let sent: Vec<_> = p.sent().into_iter().map(|(to, text)| (text, to == user(100))).collect();
        let expected = if what == "line_oa" { vec![] } else { vec![("Yo".to_owned(), true)] };
        assert_eq!(sent, expected, "{what}");
    }
}

/// The workflow is a remark on its work: the rule goes on.
#[tokio::test]
async fn what_a_rule_queues_after_its_workflow_was_deleted_is_sent() {
    let (p, rule) = queued(8).await;
    p.t.app.delete_workflow(&p.t.caller, rule.workflow_id.unwrap()).await.unwrap();
    p.t.advance(1);
    p.happens(&[p.form(100)]).await;
    p.t.executor.take_events(p.t.app.now()).await.unwrap();
    p.t.advance(3600);
    p.t.run().await;
    let sent: Vec<_> = p.sent().into_iter().map(|(to, _)| to).collect();
    assert_eq!(sent, [user(100)]);
}
