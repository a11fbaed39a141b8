//! Deliveries, and what an executor does with them.

use chrono::{DateTime, Duration, Utc};
use trigger_manager::domain::delivery::{ActionStatus, Delivery};
use trigger_manager::domain::id::{BackendId, ScheduledActionId};
use trigger_manager::domain::trigger::Occurrence;
use trigger_manager::error::Result;
use trigger_manager::store::application::BackendSecrets;
use trigger_manager::store::executor::{self, Claim, Claimed, Finished, Lease};
use trigger_manager::store::{Store, Tx};
use uuid::Uuid;

/// A delivery of `occurrence` that is not stored yet, due at the occurrence's time.
pub fn new_delivery(occurrence: &Occurrence, backend: BackendId) -> Delivery {
    Delivery {
        id: ScheduledActionId::new(),
        trigger_id: occurrence.trigger_id,
        occurrence_id: occurrence.id,
        application_id: occurrence.application_id,
        backend_id: backend,
        status: ActionStatus::Pending,
        payload: occurrence.payload.clone(),
        retry_count: 0,
        attempts_before: 0,
        execute_at: occurrence.scheduled_at,
        expires_at: Some(occurrence.scheduled_at + Duration::days(1)),
        executed_at: None,
        last_error: None,
        created_at: occurrence.created_at,
        updated_at: occurrence.created_at,
    }
}

pub fn secrets() -> BackendSecrets {
    BackendSecrets { token: "sealed token".to_owned(), signing_secret: "sealed secret".to_owned() }
}

/// A new lease that ends 30 seconds after `now`.
pub fn lease(now: DateTime<Utc>) -> Lease {
    Lease { token: Uuid::new_v4(), until: now + Duration::seconds(30) }
}

/// Claims from the first lane on, leaving none out.
pub async fn claim(store: &Store, now: DateTime<Utc>, limit: u64, per_lane: u64) -> Vec<Claimed> {
    executor::claim(store, asking(now, limit, per_lane)).await.unwrap()
}

/// A claim from the first lane on, leaving none out.
pub fn asking(now: DateTime<Utc>, limit: u64, per_lane: u64) -> Claim<'static> {
    Claim { now, lease: lease(now), limit, per_lane, start_after: Uuid::nil(), without: &[] }
}

/// What ends a claimed delivery with `status` at `now`.
pub fn ending(claimed: &Claimed, status: ActionStatus, now: DateTime<Utc>) -> Finished {
    let ended = status != ActionStatus::Pending;
    Finished {
        id: claimed.action.id,
        lease_token: claimed.lease.token,
        status,
        execute_at: now,
        executed_at: ended.then_some(now),
        retry_count: claimed.action.retry_count + 1,
        last_error: (status != ActionStatus::Completed).then(|| "it failed".to_owned()),
    }
}

/// One step of an executor: finishes what was claimed and counts what was recorded.
pub async fn record(
    tx: &Tx,
    claimed: &[Claimed],
    status: ActionStatus,
    now: DateTime<Utc>,
) -> Result<Vec<executor::Settled>> {
    let finished: Vec<_> = claimed.iter().map(|one| ending(one, status, now)).collect();
    let recorded = executor::finish(&**tx, &finished, now).await?;
    let ended = claimed.iter().filter(|one| recorded.contains(&one.action.id)).filter_map(|one| {
        Some((one.action.cause.occurrence_id?, status == ActionStatus::Completed))
    });
    executor::settle(&**tx, ended.collect::<Vec<_>>(), now).await
}
