//! Audiences and rich menus.

use serde_json::json;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::store::audience;

use super::place::{Place, TOKEN, user};

#[tokio::test]
async fn a_user_is_put_into_the_audience_once() {
    let p = Place::new().await;
    let target = p.audience(0).await;
    p.on_forms("add_to_audience", json!({"audienceId": target.id})).await;
    p.form_sent(1).await;
    p.form_sent(1).await;
    p.form_sent(2).await;
    let members = audience::members_after(p.t.app.store.read(), target.id, None, 10).await;
    assert_eq!(members.unwrap(), [user(1), user(2)]);
    assert!(p.actions().await.iter().all(|one| one.status == ActionStatus::Completed));
    assert_eq!(p.line.requests().len(), 0);
}

#[tokio::test]
async fn an_audience_that_was_deleted_does_not_hold_up_the_batch() {
    let p = Place::new().await;
    let target = p.audience(0).await;
    p.on_forms("add_to_audience", json!({"audienceId": target.id})).await;
    p.on_forms("send_message", super::place::text("Hi")).await;
    p.t.app.delete_audience(&p.t.caller, target.id).await.unwrap();
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 1);
    let adding = p.actions().await.into_iter().find(|one| one.action_type == "add_to_audience");
    let adding = adding.unwrap();
    assert_eq!(adding.status, ActionStatus::Cancelled, "nobody was added");
    assert_eq!(adding.last_error.as_deref(), Some("audience_deleted"));
}

#[tokio::test]
async fn a_rich_menu_is_linked_and_unlinked() {
    let p = Place::new().await;
    let rule = p.on_forms("switch_rich_menu", json!({"richMenuId": "richmenu-1"})).await;
    p.form_sent(1).await;
    assert_eq!(p.line.rich_menu_of(TOKEN, &user(1)).as_deref(), Some("richmenu-1"));
    let config = json!({"richMenuId": null});
    let unlinking = trigger_manager::domain::rule::TriggerRule { action_config: config, ..rule };
    p.save(unlinking).await;
    p.form_sent(1).await;
    assert_eq!(p.line.rich_menu_of(TOKEN, &user(1)), None);
    assert!(p.line.requests().iter().all(|seen| seen.retry_key.is_none()));
}
