//! The LINE platform in bad weather, and executors that die.

use std::sync::Once;

use trigger_manager::app::{AuditFilter, UpdateLineOa};
use trigger_manager::checkpoint::Point;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::AuditLog;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::line::CALL_BUDGET;
use trigger_manager::domain::page::PageRequest;
use trigger_manager::executor::Executor;
use trigger_manager::line::stand_in::Fault;

use super::place::{Place, TOKEN};

async fn status(p: &Place) -> ActionStatus {
    p.actions().await[0].status
}

async fn broken(fault: Fault) -> Place {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.fail_next(1, fault);
    p.form_sent(1).await;
    assert_eq!(status(&p).await, ActionStatus::Pending, "{fault:?}");
    p
}

fn new_token() -> UpdateLineOa {
    let token = Some(secrecy::SecretString::from("new-token"));
    UpdateLineOa { channel_access_token: token, ..Default::default() }
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_sent_again_with_the_same_key_and_arrives_once() {
    for fault in [Fault::ErrorAfter, Fault::CutAfter] {
        let p = broken(fault).await;
        assert_eq!(p.sent().len(), 1, "{fault:?}");
        p.t.advance(10);
        p.t.run().await;
        assert_eq!(status(&p).await, ActionStatus::Completed);
        assert_eq!(p.sent().len(), 1, "{fault:?}");
        let requests = p.line.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].retry_key, requests[1].retry_key);
        assert_eq!(requests[0].retry_key, Some(p.actions().await[0].id.to_string()));
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(requests[1].status, 409);
    }
}

#[tokio::test]
async fn a_message_that_was_refused_for_a_moment_is_sent_later() {
    for fault in [Fault::ErrorBefore, Fault::RateLimited] {
        let p = broken(fault).await;
        assert_eq!(p.sent().len(), 0);
        p.t.advance(10);
        p.t.run().await;
        assert_eq!(p.sent().len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_message_that_the_platform_will_never_take_has_failed_at_once() {
    let p = Place::new().await;
    // LINE has no user whose id is shorter.
    p.save(p.draft()).await;
    let mut event = p.form(1);
    event.user_id = Some("nobody".into());
    p.happens(&[event]).await;
    p.t.run().await;
    let action = p.actions().await.remove(0);
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.last_error.unwrap().contains("400"));
    let log = p.logs().await.pop().unwrap();
    assert_eq!((log.status.as_str(), log.response_status), ("error", Some(400)));
    assert!(log.platform_request_id.is_some());
    assert_eq!(p.line.requests().len(), 1);
}

#[tokio::test]
async fn a_month_that_is_used_up_pauses_the_line_oa_and_loses_nothing() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.use_up_month();
    p.form_sent(1).await;
    p.form_sent(2).await;
    assert_eq!(p.line.requests().len(), 1, "the second one does not even ask");
    let line_oa = p.t.app.line_oa(p.t.caller.actor.scope(), p.line_oa.id).await.unwrap();
    assert_eq!(line_oa.paused_reason.as_deref(), Some("monthly_limit"));
    p.line.reset_month();
    p.t.advance(1800);
    p.t.run().await;
    assert_eq!(p.sent().len(), 0, "an hour is not over");
    p.t.advance(1801);
    p.t.run().await;
    p.t.advance(1800);
    p.t.run().await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn a_token_that_is_refused_pauses_the_line_oa_until_it_has_a_new_one() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.revoke_token(TOKEN);
    p.form_sent(1).await;
    assert_eq!(p.actions().await[0].status, ActionStatus::Pending);
    assert_eq!(p.logs().await.pop().unwrap().reason.as_deref(), Some("unauthorized"));
    p.line.allow_token("new-token");
    p.t.advance(1);
    p.t.app.update_line_oa(&p.t.caller, p.line_oa.id, new_token()).await.unwrap();
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    assert_eq!(status(&p).await, ActionStatus::Completed);
}

#[tokio::test]
async fn a_message_that_was_held_when_its_line_oa_got_a_new_token_is_not_put_off() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.revoke_token(TOKEN);
    p.form_sent(1).await;
    p.happens(&[p.form(2)]).await;
    let (holder, now) = (p.another_executor().await, p.t.app.now());
    holder.take_events(now).await.unwrap();
    assert_eq!(holder.claim(now, 10).await.unwrap(), 1);
    p.line.allow_token("new-token");
    p.t.app.update_line_oa(&p.t.caller, p.line_oa.id, new_token()).await.unwrap();
    holder.run_until_idle().await.unwrap();
    p.t.run().await;
    assert_eq!(p.sent().len(), 2);
}

#[tokio::test]
async fn what_a_dead_executor_had_claimed_is_sent_by_another_with_the_same_key() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.happens(&[p.form(1)]).await;
    let dead = p.another_executor().await;
    let now = p.t.app.now();
    assert_eq!(dead.take_events(now).await.unwrap().queued, 1);
    assert_eq!(dead.claim(now, 10).await.unwrap(), 1);
    drop(dead);
    p.t.run().await;
    assert_eq!(p.sent().len(), 0, "it is under the dead one's lease");
    p.t.advance(31);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    let action = p.actions().await.remove(0);
    assert_eq!((action.status, action.retry_count), (ActionStatus::Completed, 2));
    assert_eq!(p.line.accepted()[0].retry_key, Some(action.id.to_string()));
}

#[tokio::test]
async fn nothing_is_sent_for_longer_than_the_platform_remembers_a_key() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.fail_next(1000, Fault::ErrorAfter);
    p.form_sent(1).await;
    for _ in 0..30 {
        p.t.advance(3600);
        p.t.run().await;
    }
    let action = p.actions().await.remove(0);
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.executed_at.unwrap() - action.created_at < chrono::Duration::hours(24));
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn a_message_that_may_have_been_sent_is_not_sent_again_when_its_key_is_forgotten() {
    let p = broken(Fault::CutAfter).await;
    let id = p.actions().await[0].id;
    let fail = "UPDATE scheduled_action SET status = 'failed' WHERE line_oa_id IS NOT NULL";
    crate::store_contract::world::execute(&p.t.app.store, fail).await;
    p.t.advance(22 * 3600);
    assert!(p.t.app.retry_scheduled_action(&p.t.caller, id).await.is_ok());
    crate::store_contract::world::execute(&p.t.app.store, fail).await;
    p.t.advance(2 * 3600);
    let refused = p.t.app.retry_scheduled_action(&p.t.caller, id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT");
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn a_retry_ends_before_the_platform_forgets_the_first_attempt() {
    let p = broken(Fault::CutAfter).await;
    let action = p.actions().await.remove(0);
    let (id, first) = (action.id, p.t.app.now());
    p.t.app.cancel_scheduled_action(&p.t.caller, id).await.unwrap();
    p.t.advance(20 * 3600);
    let again = p.t.app.retry_scheduled_action(&p.t.caller, id).await.unwrap();
    assert_eq!(again.expires_at, Some(first + CALL_BUDGET));
    p.line.fail_next(1000, Fault::ErrorBefore);
    for _ in 0..4 {
        p.t.run().await;
        p.t.advance(3600);
    }
    assert_eq!(status(&p).await, ActionStatus::Failed);
    let refused = p.t.app.retry_scheduled_action(&p.t.caller, id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT");
}

/// A message that an executor has claimed when a person takes it back.
async fn taken_back_under_way() -> (Place, Executor) {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.happens(&[p.form(1)]).await;
    let (other, now) = (p.another_executor().await, p.t.app.now());
    assert_eq!(other.take_events(now).await.unwrap().queued, 1);
    assert_eq!(other.claim(now, 10).await.unwrap(), 1);
    let id = p.actions().await[0].id;
    p.t.app.cancel_scheduled_action(&p.t.caller, id).await.unwrap();
    (p, other)
}

#[tokio::test]
async fn a_message_that_was_sent_although_it_was_taken_back_is_not_sent_again() {
    let (p, other) = taken_back_under_way().await;
    other.run_until_idle().await.unwrap();
    assert_eq!(p.sent().len(), 1);
    assert_eq!(status(&p).await, ActionStatus::Cancelled);
    let id = p.actions().await[0].id;
    p.t.advance(CALL_BUDGET.num_seconds());
    let refused = p.t.app.retry_scheduled_action(&p.t.caller, id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT");
}

#[tokio::test]
async fn an_attempt_that_left_no_row_may_have_sent_the_message() {
    let (p, dead) = taken_back_under_way().await;
    drop(dead);
    let action = p.actions().await.remove(0);
    assert_eq!((action.status, action.retry_count), (ActionStatus::Cancelled, 1));
    p.t.advance(3600);
    let again = p.t.app.retry_scheduled_action(&p.t.caller, action.id).await.unwrap();
    assert_eq!(again.expires_at, Some(action.created_at + CALL_BUDGET));
    p.t.app.cancel_scheduled_action(&p.t.caller, action.id).await.unwrap();
    p.t.advance(22 * 3600);
    let refused = p.t.app.retry_scheduled_action(&p.t.caller, action.id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT");
    assert!(p.line.requests().is_empty());
}

#[tokio::test]
async fn what_may_be_done_twice_is_tried_again_however_old_it_is() {
    let p = Place::new().await;
    p.on_forms("switch_rich_menu", serde_json::json!({"richMenuId": "menu"})).await;
    p.line.fail_next(1, Fault::CutAfter);
    p.form_sent(1).await;
    let id = p.actions().await[0].id;
    p.t.app.cancel_scheduled_action(&p.t.caller, id).await.unwrap();
    p.t.advance(48 * 3600);
    let again = p.t.app.retry_scheduled_action(&p.t.caller, id).await.unwrap();
    assert_eq!(again.expires_at, Some(p.t.app.now() + CALL_BUDGET));
}

/// What the server itself has put into the audit log about the LINE OA.
async fn paused_in_the_audit_log(p: &Place) -> Vec<AuditLog> {
    let filter = AuditFilter { entity_id: Some(p.line_oa.id.0), ..Default::default() };
    let rows = p.t.app.audit_logs(Scope::Everything, &filter, &PageRequest::default()).await;
    let rows = rows.unwrap().rows.into_iter().map(|(_, row)| row);
    rows.filter(|row| row.action == "line_oa.pause").collect()
}

#[tokio::test]
async fn a_pause_by_the_executor_stands_in_the_audit_log_once() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.use_up_month();
    p.form_sent(1).await;
    p.form_sent(2).await;
    let rows = paused_in_the_audit_log(&p).await;
    assert_eq!(rows.len(), 1);
    let (before, after) = (rows[0].before.as_ref().unwrap(), rows[0].after.as_ref().unwrap());
    assert_eq!((rows[0].actor_type.as_str(), rows[0].actor_id), ("system", None));
    assert_eq!(rows[0].project_id, Some(p.line_oa.organization_id));
    assert!(before["pausedUntil"].is_null() && !after["pausedUntil"].is_null(), "{after}");
    assert_eq!(after["pausedReason"], "monthly_limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_with_old_credentials_while_new_ones_came_does_not_wait() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    p.line.revoke_token(TOKEN);
    p.line.allow_token("new-token");
    p.happens(&[p.form(1)]).await;
    let (app, caller, id) = (p.t.app.clone(), p.t.caller.clone(), p.line_oa.id);
    let (clock, once) = (p.t.clock.clone(), Once::new());
    let executor = p.t.executor_at(move |point| {
        if point == Point::AfterSend {
            once.call_once(|| {
                clock.advance(chrono::Duration::seconds(2));
                let changed = app.update_line_oa(&caller, id, new_token());
                let runtime = tokio::runtime::Handle::current();
                tokio::task::block_in_place(|| runtime.block_on(changed)).unwrap();
            });
        }
        Ok(())
    });
    let executor = executor.await;
    executor.run_until_idle().await.unwrap();
    p.t.advance(2);
    executor.run_until_idle().await.unwrap();
    assert_eq!(status(&p).await, ActionStatus::Completed);
    assert_eq!(p.sent().len(), 1);
    assert!(paused_in_the_audit_log(&p).await.is_empty());
}
