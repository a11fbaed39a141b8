//! Deliveries that failed while a backend was away, and are tried again with one call.

use chrono::Duration;
use trigger_manager::app::{OccurrenceFilter, RETRY_MAX, Retryable, UpdateTrigger};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::AuditLog;
use trigger_manager::domain::delivery::ActionStatus::{Cancelled, Completed, Failed, Pending};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::delivery;

use crate::app::{TestApp, start};
use crate::harness::until_another_waits_for;
use crate::receiver::Answer;

/// One attempt each: what a backend refuses has failed.
async fn impatient() -> TestApp {
    TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1")]).await
}

fn failed(t: &TestApp) -> Retryable {
    Retryable {
        application_id: t.application.id,
        trigger_id: None,
        backend_id: None,
        statuses: vec![Failed],
        since: None,
        until: None,
        finished_since: None,
        finished_until: None,
    }
}

/// How many were made due again, and whether there are more.
async fn retry(t: &TestApp, wanted: &Retryable, limit: i32) -> (u64, bool) {
    let done = t.app.retry_deliveries(&t.caller, wanted, Some(limit)).await.unwrap();
    assert_eq!(done.application_id, t.application.id);
    (done.retried, done.more)
}

async fn retries_in_the_audit_log(t: &TestApp) -> Vec<AuditLog> {
    let page = PageRequest { limit: 200, ..Default::default() };
    let filter = Default::default();
    let rows = t.app.audit_logs(Scope::Everything, &filter, &page).await.unwrap().rows;
    let rows = rows.into_iter().map(|(_, row)| row);
    rows.filter(|row| row.action == "application.retry_deliveries").collect()
}

#[tokio::test]
async fn what_failed_while_a_backend_was_away_is_tried_again_with_one_call_and_in_parts() {
    let t = impatient().await;
    let backend = t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.live(50, &[backend.id]).await;
    assert!(t.deliveries().await.iter().all(|delivery| delivery.status == Failed));
    t.receiver.always("/a", Answer::Status(200));
    let wanted = failed(&t);
    assert_eq!(retry(&t, &wanted, 3).await, (3, true));
    let due: Vec<_> = t.deliveries().await.iter().map(|delivery| delivery.status).collect();
    assert_eq!(due, [Pending, Pending, Pending, Failed, Failed], "those that were due first");
    assert_eq!(retry(&t, &wanted, 3).await, (2, false));
    assert_eq!(retry(&t, &wanted, 3).await, (0, false));
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    let deliveries = t.deliveries().await;
    assert!(deliveries.iter().all(|delivery| delivery.status == Completed), "{deliveries:?}");
    assert!(deliveries.iter().all(|delivery| delivery.retry_count == 2));
    let occurrences = t.occurrences().await;
    assert!(occurrences.iter().all(|one| one.status == OccurrenceStatus::Delivered));
    let rows = retries_in_the_audit_log(&t).await;
    let told: Vec<_> = rows.iter().rev().map(|row| row.after.clone().unwrap()).collect();
    assert_eq!(told.len(), 3, "a row a call");
    assert_eq!((&told[0]["retried"], &told[0]["more"]), (&3.into(), &true.into()));
    assert_eq!(told[0]["filter"]["statuses"][0], "failed");
    assert_eq!(rows[0].application_id, Some(t.application.id));
}

#[tokio::test]
async fn a_retry_of_many_takes_what_is_asked_for_and_can_still_be_delivered() {
    let t = impatient().await;
    let backends = [t.register("a").await.id, t.register("b").await.id];
    let (trigger, other) = (t.trigger("*/10 * * * * *").await, t.trigger("*/10 * * * * *").await);
    for path in ["/a", "/b"] {
        t.receiver.always(path, Answer::Status(500));
    }
    t.live(30, &backends).await;
    let count = async |wanted: Retryable| {
        // Nothing of it stays.
        let tx = t.app.store.begin().await.unwrap();
        trigger_manager::store::delivery::retryable(&*tx, &wanted, 100).await.unwrap().len()
    };
    let at = |seconds| Some(start() + Duration::seconds(seconds));
    assert_eq!(count(failed(&t)).await, 12);
    assert_eq!(count(Retryable { trigger_id: Some(trigger.id), ..failed(&t) }).await, 6);
    assert_eq!(count(Retryable { backend_id: Some(backends[0]), ..failed(&t) }).await, 6);
    assert_eq!(count(Retryable { since: at(20), ..failed(&t) }).await, 8);
    assert_eq!(count(Retryable { since: at(20), until: at(30), ..failed(&t) }).await, 4);
    let ended = t.deliveries().await.into_iter().filter_map(|one| one.executed_at);
    let last = ended.max().unwrap();
    let (early, late) = (Retryable { finished_until: Some(last), ..failed(&t) }, Some(last));
    let late = Retryable { finished_since: late, ..failed(&t) };
    let (early, late) = (count(early).await, count(late).await);
    assert_eq!((early + late, late >= 4), (12, true), "each ended before the last did, or with it");
    assert_eq!(count(Retryable { statuses: vec![Cancelled], ..failed(&t) }).await, 0);
    t.app.delete_trigger(&t.caller, other.id).await.unwrap();
    t.app.delete_backend(&t.caller, backends[1]).await.unwrap();
    assert_eq!(retry(&t, &failed(&t), 3).await, (3, false), "the others lead nowhere");
    let open = t.deliveries().await.into_iter().filter(|delivery| delivery.status == Pending);
    for delivery in open {
        assert_eq!((delivery.trigger_id, delivery.backend_id), (trigger.id, backends[0]));
    }
}

#[tokio::test]
async fn what_failed_last_night_is_found_by_when_it_ended_and_not_by_when_it_was_made() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_AGE", "1h")]).await;
    let backend = t.register("a").await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.update(trigger.id, UpdateTrigger { name: Some("x".into()), ..Default::default() }).await;
    let night = Some(t.app.now() + Duration::minutes(30));
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    let page = PageRequest::default();
    let failed = vec![Failed];
    let by_end =
        delivery::Filter { statuses: failed.clone(), finished_since: night, ..Default::default() };
    let by_making = delivery::Filter { statuses: failed, since: night, ..Default::default() };
    let found = async |filter: delivery::Filter| {
        let down = Direction::Descending;
        let rows = t.app.deliveries(Scope::Everything, &filter, down, &page).await.unwrap().rows;
        rows.len()
    };
    assert_eq!((found(by_end).await, found(by_making).await), (1, 0));
    let (failed, rows) = (vec![OccurrenceStatus::Failed], Direction::Descending);
    let filter = OccurrenceFilter { statuses: failed, finished_since: night, ..Default::default() };
    let occurrences = t.app.occurrences(Scope::Everything, &filter, rows, &page).await.unwrap();
    assert_eq!(occurrences.rows.len(), 1);
}

#[tokio::test]
async fn cancelled_deliveries_are_retried_only_when_they_are_asked_for() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.update(trigger.id, UpdateTrigger { enabled: Some(false), ..Default::default() }).await;
    assert_eq!(retry(&t, &failed(&t), 10).await, (0, false));
    let cancelled = Retryable { statuses: vec![Failed, Cancelled], ..failed(&t) };
    assert_eq!(retry(&t, &cancelled, 10).await, (1, false));
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Pending);
}

#[tokio::test]
async fn a_retry_of_what_has_not_ended_or_of_too_many_is_refused_on_its_field() {
    let t = TestApp::new().await;
    let most = i32::try_from(RETRY_MAX).unwrap();
    let open = Retryable { statuses: vec![Failed, Pending], ..failed(&t) };
    for (wanted, limit, field) in [
        (open, 1, "statuses"),
        (failed(&t), 0, "limit"),
        (failed(&t), -1, "limit"),
        (failed(&t), most + 1, "limit"),
    ] {
        let error = t.app.retry_deliveries(&t.caller, &wanted, Some(limit)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), ("INVALID", Some(field)), "{error}");
    }
    assert_eq!(retry(&t, &failed(&t), most).await, (0, false));
    assert_eq!(retries_in_the_audit_log(&t).await.len(), 1, "what is refused leaves no row");
}

#[tokio::test]
async fn who_retries_many_beside_another_takes_what_the_other_left() {
    let t = impatient().await;
    let backend = t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.receiver.always("/a", Answer::Status(500));
    t.live(30, &[backend.id]).await;
    // What another call does, up to its commit.
    let (tx, now) = (t.app.store.begin().await.unwrap(), t.app.now());
    delivery::hold_retries(&tx, t.application.id).await.unwrap();
    let first = t.deliveries().await[0].id;
    delivery::requeue(&*tx, &[first], now, now + Duration::hours(1)).await.unwrap();
    let (app, caller, wanted) = (t.app.clone(), t.caller.clone(), failed(&t));
    let beside = tokio::spawn(async move { app.retry_deliveries(&caller, &wanted, Some(1)).await });
    until_another_waits_for(&tx).await;
    tx.commit_unaudited().await.unwrap();
    let done = beside.await.unwrap().unwrap();
    assert_eq!((done.retried, done.more), (1, true));
    let states: Vec<_> = t.deliveries().await.iter().map(|delivery| delivery.status).collect();
    assert_eq!(states, [Pending, Pending, Failed]);
}
