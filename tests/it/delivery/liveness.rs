//! Backends that are away.

use trigger_manager::app::HeartbeatOf;
use trigger_manager::domain::application::Backend;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use trigger_manager::domain::access::Scope;
use trigger_manager::domain::page::PageRequest;
use trigger_manager::error::Result;
use trigger_manager::executor::Executor;
use trigger_manager::store::{Tx, application, audit, delivery, people};

use crate::app::TestApp;
use crate::harness::until_another_waits_for;
use crate::receiver::Answer;

#[tokio::test]
async fn a_backend_without_a_heartbeat_for_a_minute_gets_nothing() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 * * * * *").await;
    t.advance(60);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1, "a heartbeat of exactly that age counts");
    t.advance(60);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.occurrences().await[1].status, OccurrenceStatus::Pending);
}

#[tokio::test]
async fn what_waited_for_a_backend_is_delivered_when_it_registers_again() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 */10 * * * *").await;
    t.advance(1800);
    t.run().await;
    assert!(t.receiver.received().is_empty());
    t.register("a").await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 3);
    assert!(t.occurrences().await.iter().all(|o| o.status == OccurrenceStatus::Delivered));
}

#[tokio::test]
async fn a_retry_for_a_backend_that_went_away_waits_without_an_attempt() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 0 0 * * *").await;
    t.advance(12 * 3600);
    t.register("a").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
    t.advance(300);
    t.run().await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Pending, 1));
    assert_eq!(t.receiver.received().len(), 1);
    t.register("a").await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 2);
}

#[tokio::test]
async fn an_executor_that_was_last_here_a_week_ago_is_forgotten() {
    let t = TestApp::new().await;
    let zero = chrono::Duration::zero();
    t.executor.report(t.app.now(), zero, true).await.unwrap();
    t.advance(7 * 86_400);
    t.another_executor().await.report(t.app.now(), zero, false).await.unwrap();
    assert_eq!(t.executor.retain(t.app.now()).await.unwrap().executors, 0);
    t.advance(1);
    assert_eq!(t.executor.retain(t.app.now()).await.unwrap().executors, 1);
}

#[tokio::test]
async fn a_deleted_application_has_no_metrics_in_whichever_process() {
    let t = TestApp::new().await;
    let (id, elsewhere) = (t.application.id, trigger_manager::domain::id::ApplicationId::new());
    t.app.metrics.queued(id, 1);
    t.app.metrics.queued(elsewhere, 1);
    t.executor.observe().await.unwrap();
    let metrics = t.app.metrics.encode();
    assert!(metrics.contains(&id.to_string()), "{metrics}");
    assert!(!metrics.contains(&elsewhere.to_string()), "another process deleted it: {metrics}");
    t.app.delete_application(&t.caller, id).await.unwrap();
    let metrics = t.app.metrics.encode();
    assert!(!metrics.contains(&id.to_string()), "{metrics}");
}

/// A silent backend, and an executor that has claimed what is to be tried again for it.
async fn held_for_a_silent_one() -> (TestApp, Backend, Executor) {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("0 0 0 * * *").await;
    t.advance(12 * 3600);
    let backend = t.register("a").await;
    t.receiver.next("/a", [Answer::Status(500)]);
    t.run().await;
    t.advance(300);
    let holder = t.another_executor().await;
    assert_eq!(holder.claim(t.app.now(), 10).await.unwrap(), 1);
    (t, backend, holder)
}

#[tokio::test]
async fn a_delivery_that_was_held_when_its_backend_came_back_is_not_put_off() {
    let (t, backend, holder) = held_for_a_silent_one().await;
    let of = HeartbeatOf { backend_id: Some(backend.id), ..Default::default() };
    t.app.heartbeat(&t.caller, of).await.unwrap();
    holder.run_until_idle().await.unwrap();
    t.run().await;
    assert_eq!(t.receiver.received().len(), 2);
}

/// What a heartbeat does, up to its commit.
async fn heartbeat(t: &TestApp, backend: &Backend) -> Tx {
    let (tx, now) = (t.app.store.begin().await.unwrap(), t.app.now());
    application::touch_backends(&*tx, &[backend.id], now).await.unwrap();
    delivery::wake_backends(&tx, t.application.id, &[backend.id], now).await.unwrap();
    tx
}

#[tokio::test]
async fn who_puts_a_delivery_off_sees_the_backend_that_comes_back_meanwhile() {
    let (t, backend, holder) = held_for_a_silent_one().await;
    let tx = heartbeat(&t, &backend).await;
    let putting_off = tokio::spawn(async move { holder.run_until_idle().await });
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    putting_off.await.unwrap().unwrap();
    t.run().await;
    assert_eq!(t.receiver.received().len(), 2);
}

#[tokio::test]
async fn who_looks_for_the_backends_of_a_waiting_occurrence_sees_one_that_comes_back_meanwhile() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 */10 * * * *").await;
    t.advance(600);
    t.run().await;
    t.advance(300);
    let tx = heartbeat(&t, &backend).await;
    let (other, now) = (t.another_executor().await, t.app.now());
    let looking = tokio::spawn(async move { other.fan_out_waiting(now).await });
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    assert_eq!(looking.await.unwrap().unwrap(), 1);
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
}

#[tokio::test]
async fn of_two_heartbeats_at_once_one_brings_the_backend_back() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.advance(300);
    let tx = heartbeat(&t, &backend).await;
    let beside = tokio::spawn(beating(&t, &backend));
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    beside.await.unwrap().unwrap();
    assert_eq!(audited(&t, "backend.activate").await, 0, "the other one did");
}

#[tokio::test]
async fn a_heartbeat_beside_a_deactivation_is_told_of_it() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.advance(300);
    let (tx, now) = (t.app.store.begin().await.unwrap(), t.app.now());
    application::deactivate_backend(&*tx, backend.id, (now, now), "gone").await.unwrap();
    let beside = tokio::spawn(beating(&t, &backend));
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    let refused = beside.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "CONFLICT", "{refused}");
    assert_eq!(audited(&t, "backend.activate").await, 0);
}

/// A heartbeat that can be sent beside something else.
fn beating(
    t: &TestApp,
    backend: &Backend,
) -> impl Future<Output = Result<Vec<Backend>>> + Send + 'static {
    let (app, caller) = (t.app.clone(), t.caller.clone());
    let of = HeartbeatOf { backend_id: Some(backend.id), ..Default::default() };
    async move { app.heartbeat(&caller, of).await }
}

#[tokio::test]
async fn of_two_who_delete_a_token_one_finds_it() {
    let t = TestApp::new().await;
    let made = t.app.create_personal_access_token(&t.caller, "laptop", None).await;
    let (_, token) = made.unwrap();
    let tx = t.app.store.begin().await.unwrap();
    people::token_held(&tx, token.user_id, token.id).await.unwrap();
    people::delete_token(&*tx, token.id).await.unwrap();
    let (app, caller) = (t.app.clone(), t.caller.clone());
    let beside =
        tokio::spawn(async move { app.delete_personal_access_token(&caller, token.id).await });
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    let refused = beside.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "NOT_FOUND", "{refused}");
    assert_eq!(audited(&t, "personal_access_token.delete").await, 0);
}

/// How many rows of the audit log are about this action.
async fn audited(t: &TestApp, action: &str) -> usize {
    let filter = audit::Filter { action: Some(action.into()), ..Default::default() };
    let request = PageRequest { limit: 10, ..Default::default() };
    let page = audit::list(t.app.store.read(), Scope::Everything, &filter, &request).await;
    page.unwrap().rows.len()
}
