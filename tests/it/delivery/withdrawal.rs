//! Very much that waits is taken back in steps. Off is off at once all the same.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trigger_manager::app::{AuditFilter, Retryable, UpdateTrigger};
use trigger_manager::clock::{Clock, SystemClock};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::AuditLog;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::page::PageRequest;
use trigger_manager::domain::trigger::OccurrenceStatus;
use uuid::Uuid;

use crate::app::TestApp;
use crate::driver::{administrator, drive};

/// One transaction takes back five pieces of work, and one occurrence.
pub const LITTLE: [(&str, &str); 1] = [("PFY_RETENTION_BATCH", "1")];

/// The audit rows of something, newest first.
pub async fn audit(t: &TestApp, id: Uuid) -> Vec<AuditLog> {
    let filter = AuditFilter { entity_id: Some(id), ..Default::default() };
    let page = PageRequest { limit: 50, ..Default::default() };
    let found = t.app.audit_logs(Scope::Everything, &filter, &page).await.unwrap();
    found.rows.into_iter().map(|(_, row)| row).collect()
}

/// A trigger that was run so many times while its backend did not answer.
async fn behind(runs: usize) -> (TestApp, trigger_manager::domain::trigger::Trigger) {
    let t = TestApp::with(&LITTLE).await;
    t.register("a").await;
    let trigger = t.trigger("0 0 0 1 1 *").await;
    for _ in 0..runs {
        t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    }
    (t, trigger)
}

fn enabled(enabled: bool) -> UpdateTrigger {
    UpdateTrigger { enabled: Some(enabled), ..Default::default() }
}

#[tokio::test]
async fn a_disabled_trigger_calls_nobody_from_then_on_and_is_enabled_once_all_is_taken_back() {
    let (t, trigger) = behind(4).await;
    t.update(trigger.id, enabled(false)).await;
    let row = &audit(&t, trigger.id.0).await[0];
    let after = row.after.as_ref().unwrap();
    assert_eq!((&after["cancelledOccurrences"], &after["restFollows"]), (&json!(1), &json!(true)));
    let refused = t.app.update_trigger(&t.caller, trigger.id, enabled(true)).await.unwrap_err();
    assert_eq!((refused.code(), refused.field()), ("CONFLICT", Some("enabled")), "{refused}");
    let refused = t.app.run_trigger(&t.caller, trigger.id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT", "{refused}");
    let deliveries = t.deliveries().await;
    let cancelled = deliveries.iter().find(|one| one.status == ActionStatus::Cancelled).unwrap();
    let refused = t.app.retry_delivery(&t.caller, cancelled.id).await.unwrap_err();
    assert_eq!(refused.code(), "CONFLICT", "{refused}");
    let all = Retryable {
        application_id: t.application.id,
        trigger_id: None,
        backend_id: None,
        statuses: vec![ActionStatus::Cancelled],
        since: None,
        until: None,
        finished_since: None,
        finished_until: None,
    };
    let retried = t.app.retry_deliveries(&t.caller, &all, None).await.unwrap();
    assert_eq!(retried.retried, 0);
    // Renamed it may be.
    let renamed = UpdateTrigger { name: Some("Other".into()), ..Default::default() };
    t.update(trigger.id, renamed).await;

    t.run().await;
    assert!(t.receiver.received().is_empty(), "off is off");
    for occurrence in t.occurrences().await {
        assert_eq!(occurrence.status, OccurrenceStatus::Cancelled);
        assert_eq!(occurrence.reason.as_deref(), Some("trigger_disabled"));
    }
    for delivery in t.deliveries().await {
        assert_eq!(delivery.last_error.as_deref(), Some("trigger_disabled"));
        assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Cancelled, 0));
    }
    let row = &audit(&t, trigger.id.0).await[0];
    assert_eq!((row.action.as_str(), row.actor_type.as_str()), ("trigger.cancel_rest", "system"));
    let told = json!({"reason": "trigger_disabled", "cancelledOccurrences": 3});
    assert_eq!(row.after, Some(told));

    t.update(trigger.id, enabled(true)).await;
    t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    t.run().await;
    assert_eq!(t.receiver.received().len(), 1);
}

#[tokio::test]
async fn what_is_claimed_while_it_is_taken_back_is_given_back_unsent() {
    let (t, trigger) = behind(3).await;
    t.update(trigger.id, enabled(false)).await;
    let now = t.app.now();
    assert_eq!(t.executor.claim(now, 100).await.unwrap(), 2, "two of three are left");
    assert!(t.executor.withdraw(now).await.unwrap(), "it has looked at the first");
    while t.executor.withdraw(now).await.unwrap() {}
    let open = t.deliveries().await;
    let open = open.iter().filter(|one| one.status == ActionStatus::Processing).count();
    assert_eq!(open, 2, "what somebody holds is waited for");
    t.run().await;
    assert!(t.receiver.received().is_empty());
    let deliveries = t.deliveries().await;
    assert!(deliveries.iter().all(|one| one.status == ActionStatus::Cancelled), "{deliveries:?}");
    assert!(deliveries.iter().all(|one| one.retry_count == 0), "no attempt was made");
}

#[tokio::test]
async fn a_deleted_backend_is_not_called_and_its_deliveries_count_as_failed_step_by_step() {
    let (t, trigger) = behind(12).await;
    let backend = t.deliveries().await[0].backend_id;
    t.app.delete_backend(&t.caller, backend).await.unwrap();
    let before = audit(&t, backend.0).await.remove(0).before.unwrap();
    let told = (&before["cancelledActions"], &before["restFollows"]);
    assert_eq!(told, (&json!(5), &json!(true)));
    t.app.delete_trigger(&t.caller, trigger.id).await.unwrap();
    t.run().await;
    assert!(t.receiver.received().is_empty());
    let deliveries = t.deliveries().await;
    assert!(deliveries.iter().all(|one| one.status == ActionStatus::Cancelled), "{deliveries:?}");
    assert!(t.occurrences().await.iter().all(|one| one.finished_at.is_some()));
    let rest: Vec<_> = [backend.0, trigger.id.0].into();
    for id in rest {
        assert!(audit(&t, id).await[0].action.ends_with(".cancel_rest"));
    }
}

#[tokio::test]
async fn a_running_executor_takes_back_what_is_left() {
    let (t, trigger) = behind(4).await;
    t.clock.advance(SystemClock.now() - t.clock.now());
    t.update(trigger.id, enabled(false)).await;
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    let open = "{ deliveries(filter: {statuses: [PENDING, PROCESSING]}) { totalCount } }";
    let none = |data: &Value| (data["deliveries"]["totalCount"] == 0).then_some(());
    administrator(&t).await.until(open, json!(null), none).await;
    assert!(t.receiver.received().is_empty());
    stop.cancel();
    driving.await.unwrap();
}
