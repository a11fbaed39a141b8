//! Who changes something and who changes what belongs to it do not wait for each other.

use serde_json::json;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::store::{Hold, application, rule, scheduled_action};

use super::place::{Place, text};
use crate::harness::until_another_waits_for;

/// Work of a rule with a workflow that waits for an hour.
async fn waiting() -> (Place, TriggerRule) {
    let p = Place::new().await;
    let action_config = json!({"messages": text("Hi")["messages"], "delay": "1h"});
    let workflow_id = Some(p.workflow().await);
    let workflow_node_path = Some("start".into());
    let draft = TriggerRule { action_config, workflow_id, workflow_node_path, ..p.draft() };
    let rule = p.save(draft).await;
    p.form_sent(1).await;
    (p, rule)
}

/// On SQLite, with its one writer, the retry begins when the change has ended.
#[tokio::test]
async fn who_retries_work_and_who_changes_its_rule_do_not_wait_for_each_other() {
    let (p, rule) = waiting().await;
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let id = p.actions().await[0].id;
    app.cancel_scheduled_action(&caller, id).await.unwrap();
    let changing = p.t.app.store.begin().await.unwrap();
    rule::hold_rules(&changing, &[p.line_oa.id]).await.unwrap();
    rule::find_held(&changing, Scope::Everything, rule.id).await.unwrap();
    let retrying = tokio::spawn(async move { app.retry_scheduled_action(&caller, id).await });
    until_another_waits_for(&changing).await;
    rule::next_version(&changing, p.line_oa.id).await.unwrap();
    changing.commit_unaudited().await.unwrap();
    retrying.await.unwrap().unwrap();
}

/// On SQLite, with its one writer, the workflow is deleted when the other has ended.
#[tokio::test]
async fn who_deletes_a_workflow_and_who_deletes_its_application_do_not_wait_for_each_other() {
    let (p, rule) = waiting().await;
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let (id, now) = (p.actions().await[0].id, p.t.app.now());
    let other = p.t.app.store.begin().await.unwrap();
    let application = p.t.application.id;
    application::find_held(&other, Scope::Everything, application, Hold::Delete).await.unwrap();
    let workflow = rule.workflow_id.unwrap();
    let deleting = tokio::spawn(async move { app.delete_workflow(&caller, workflow).await });
    until_another_waits_for(&other).await;
    assert!(scheduled_action::cancel(&*other, id, "test", now).await.unwrap());
    other.commit_unaudited().await.unwrap();
    deleting.await.unwrap().unwrap();
}
