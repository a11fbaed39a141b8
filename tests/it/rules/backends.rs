//! Rules and workflows that call backends.

use serde_json::{Value, json};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::store::{Hold, application, line};

use super::place::{Place, user};
use crate::harness::until_another_waits_for;
use crate::receiver::Answer;

fn call(p: &Place) -> Value {
    json!({
        "applicationId": p.t.application.id,
        "runKey": "welcome",
        "payload": {"name": "{{ event.payload.answers.name }}"},
    })
}

#[tokio::test]
async fn every_active_backend_of_the_application_is_called_once_with_the_same_body() {
    let p = Place::new().await;
    for name in ["a", "b"] {
        p.t.register(name).await;
    }
    let rule = p.on_forms("call_backend", call(&p)).await;
    p.form_sent(1).await;
    let actions = p.actions().await;
    assert_eq!(actions.len(), 2);
    assert_eq!(actions[1].parent_id, Some(actions[0].id));
    assert!(actions.iter().all(|action| action.status == ActionStatus::Completed));
    for path in ["/a", "/b"] {
        let received = p.t.receiver.received_at(path);
        assert_eq!(received.len(), 1, "{path}");
        let body: Value = serde_json::from_slice(&received[0].body).unwrap();
        assert_eq!(body["type"], "call_backend");
        assert_eq!(body["run_key"], "welcome");
        assert_eq!(body["rule_id"], rule.id.to_string());
        assert_eq!(body["user_id"], user(1));
        assert_eq!(body["payload"], json!({"name": "Ada"}));
        assert_eq!(body["executed_at"], "2026-03-02T12:00:00Z");
    }
    assert_eq!(p.said().await, [("queued", None), ("success", None), ("success", None)]);
}

#[tokio::test]
async fn a_backend_that_fails_is_tried_again_with_the_same_bytes_and_the_others_are_not() {
    let p = Place::new().await;
    let ids = [p.t.register("good").await.id, p.t.register("bad").await.id];
    p.on_forms("call_backend", call(&p)).await;
    p.t.receiver.next("/bad", [Answer::Status(500)]);
    p.form_sent(1).await;
    p.t.live(20, &ids).await;
    assert_eq!(p.t.receiver.received_at("/good").len(), 1);
    let bad = p.t.receiver.received_at("/bad");
    assert_eq!(bad.len(), 2);
    assert_eq!(bad[0].body, bad[1].body);
}

#[tokio::test]
async fn a_call_without_an_active_backend_waits_for_one() {
    let p = Place::new().await;
    p.on_forms("call_backend", call(&p)).await;
    p.form_sent(1).await;
    let action = p.actions().await.remove(0);
    assert_eq!(action.status, ActionStatus::Pending);
    assert_eq!(action.last_error.as_deref(), Some("the application has no active backend"));
    p.t.register("late").await;
    p.t.run().await;
    assert_eq!(p.t.receiver.received_at("/late").len(), 1);
}

#[tokio::test]
async fn a_call_that_never_finds_a_backend_expires() {
    let p = Place::new().await;
    p.on_forms("call_backend", call(&p)).await;
    p.form_sent(1).await;
    p.t.advance(24 * 3600);
    p.t.run().await;
    assert_eq!(p.actions().await[0].status, ActionStatus::Expired);
}

#[tokio::test]
async fn a_rule_resumes_its_workflow_at_its_node() {
    let p = Place::new().await;
    p.t.register("engine").await;
    let workflow = p.workflow().await;
    let rule = TriggerRule {
        action_type: "resume_workflow".into(),
        action_config: json!({}),
        workflow_id: Some(workflow),
        workflow_node_path: Some("start/wait".into()),
        ..p.draft()
    };
    p.save(rule).await;
    p.form_sent(1).await;
    let received = p.t.receiver.received_at("/engine");
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["type"], "resume_workflow");
    assert_eq!(body["workflow_id"], workflow.to_string());
    assert_eq!(body["workflow_node_path"], "start/wait");
    assert_eq!(body["user_id"], user(1));
    assert_eq!(body["payload"]["formId"], "f");
}

#[tokio::test]
async fn a_rule_whose_workflow_was_deleted_says_so() {
    let p = Place::new().await;
    let workflow = p.workflow().await;
    let rule = TriggerRule {
        action_type: "resume_workflow".into(),
        action_config: json!({}),
        workflow_id: Some(workflow),
        workflow_node_path: Some("start".into()),
        ..p.draft()
    };
    p.save(rule).await;
    p.t.app.delete_workflow(&p.t.caller, workflow).await.unwrap();
    p.form_sent(1).await;
    assert_eq!(p.said().await, [("failed", Some("workflow_deleted".to_owned()))]);
}

#[tokio::test]
async fn a_call_that_was_held_when_a_backend_came_is_not_put_off() {
    let p = Place::new().await;
    p.on_forms("call_backend", call(&p)).await;
    p.happens(&[p.form(1)]).await;
    let (holder, now) = (p.another_executor().await, p.t.app.now());
    holder.take_events(now).await.unwrap();
    assert_eq!(holder.claim(now, 10).await.unwrap(), 1);
    p.t.register("late").await;
    holder.run_until_idle().await.unwrap();
    p.t.run().await;
    assert_eq!(p.t.receiver.received_at("/late").len(), 1);
}

#[tokio::test]
async fn a_retry_holds_what_it_needs_in_the_order_in_which_a_deletion_does() {
    let p = Place::new().await;
    p.on_forms("call_backend", call(&p)).await;
    p.form_sent(1).await;
    p.t.advance(24 * 3600);
    p.t.run().await;
    let expired = p.actions().await.remove(0);
    assert_eq!(expired.status, ActionStatus::Expired);
    let deletes = p.t.app.store.begin().await.unwrap();
    let all = Scope::Everything;
    let application = p.t.application.id;
    application::find_held(&deletes, all, application, Hold::Delete).await.unwrap();
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let retry = async move { app.retry_scheduled_action(&caller, expired.id).await };
    let retrying = tokio::spawn(retry);
    until_another_waits_for(&deletes).await;
    line::find_held(&deletes, all, p.line_oa.id, Hold::Delete).await.unwrap();
    deletes.commit_unaudited().await.unwrap();
    assert_eq!(retrying.await.unwrap().unwrap().status, ActionStatus::Pending);
}
