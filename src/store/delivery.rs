//! Deliveries and the log of their attempts, as people read and change them.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
};
use serde::Serialize;
use uuid::Uuid;

use super::dialect::{self, hex};
use super::entity::{scheduled_action, trigger_log};
use super::paging::{By, page};
use super::scope;
use super::wanted::Wanted;
use crate::domain::access::Scope;
use crate::domain::delivery::{ActionStatus, Attempt, Delivery, WHAT};
use crate::domain::id::{ApplicationId, BackendId, OccurrenceId, ScheduledActionId, TriggerId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

impl From<scheduled_action::Model> for Delivery {
    fn from(row: scheduled_action::Model) -> Self {
        let trigger_id = row.trigger_id.unwrap_or_default().into();
        Self {
            id: row.id.into(),
            trigger_id,
            occurrence_id: row.trigger_occurrence_id.unwrap_or_default().into(),
            application_id: row.application_id.unwrap_or_default().into(),
            backend_id: row.backend_id.unwrap_or_default().into(),
            status: ActionStatus::from_name(&row.status).unwrap_or(ActionStatus::Pending),
            payload: super::trigger::payload(trigger_id, row.action_config),
            retry_count: row.retry_count,
            attempts_before: row.attempts_before,
            execute_at: row.execute_at,
            expires_at: row.expires_at,
            executed_at: row.executed_at,
            last_error: row.last_error,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<trigger_log::Model> for Attempt {
    fn from(row: trigger_log::Model) -> Self {
        Self {
            id: row.id,
            delivery_id: row.scheduled_action_id.unwrap_or_default().into(),
            number: row.attempt.unwrap_or_default(),
            status: row.status,
            response_status: row.response_status,
            duration_ms: row.duration_ms,
            reason: row.reason,
            error_message: row.error_message,
            created_at: row.created_date,
        }
    }
}

/// Which deliveries are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this application.
    pub application_id: Option<ApplicationId>,
    /// Of this occurrence.
    pub occurrence_id: Option<OccurrenceId>,
    /// Of this trigger.
    pub trigger_id: Option<TriggerId>,
    /// To this backend.
    pub backend_id: Option<BackendId>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<ActionStatus>,
    /// Made at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Made before this time.
    pub until: Option<DateTime<Utc>>,
    /// Ended at this time or later.
    pub finished_since: Option<DateTime<Utc>>,
    /// Ended before this time.
    pub finished_until: Option<DateTime<Utc>>,
}

/// The deliveries in `scope` that `filter` asks for, by creation.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<Delivery>> {
    use scheduled_action::{Column, Entity};
    let visible = scope::application(scope, Column::ApplicationId);
    let wanted = Wanted::among(visible.add(Column::TriggerId.is_not_null()))
        .eq(Column::ApplicationId, filter.application_id.map(|id| id.0))
        .eq(Column::TriggerOccurrenceId, filter.occurrence_id.map(|id| id.0))
        .eq(Column::TriggerId, filter.trigger_id.map(|id| id.0))
        .eq(Column::BackendId, filter.backend_id.map(|id| id.0))
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::CreatedAt, filter.since, filter.until)
        .between(Column::ExecutedAt, filter.finished_since, filter.finished_until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::Id, id: Column::Id, direction }, request).await
}

/// The delivery of that id in `scope`.
pub async fn find(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: ScheduledActionId,
) -> Result<Delivery> {
    use scheduled_action::{Column, Entity};
    let row = Entity::find_by_id(id.0)
        .filter(Column::TriggerId.is_not_null())
        .filter(scope::application(scope, Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: WHAT })
}

/// The deliveries of these ids in `scope`, in no order.
pub async fn by_ids(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[ScheduledActionId],
) -> Result<Vec<Delivery>> {
    use scheduled_action::{Column, Entity};
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(Column::TriggerId.is_not_null())
        .filter(scope::application(scope, Column::ApplicationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The deliveries of these occurrences, oldest first.
pub async fn of_occurrences(
    db: &impl ConnectionTrait,
    occurrences: &[OccurrenceId],
) -> Result<Vec<Delivery>> {
    use scheduled_action::{Column, Entity};
    let rows = Entity::find()
        .filter(Column::TriggerOccurrenceId.is_in(occurrences.iter().map(|id| id.0)))
        .order_by_asc(Column::Id)
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The most attempts of one delivery that are read, if it is the only one.
pub const ATTEMPTS_MAX: usize = 1000;
/// The most attempts of each of several deliveries that are read, or as many as make
/// [`ATTEMPTS_MAX`] in all if that is more.
pub const ATTEMPTS_OF_EACH_MAX: usize = 100;

/// The attempts of these deliveries, oldest first. Of a delivery with more than [`ATTEMPTS_MAX`], or
/// [`ATTEMPTS_OF_EACH_MAX`] beside others, the newest.
pub async fn attempts(
    db: &impl ConnectionTrait,
    deliveries: &[ScheduledActionId],
) -> Result<Vec<Attempt>> {
    let each = (ATTEMPTS_MAX / deliveries.len().max(1)).max(ATTEMPTS_OF_EACH_MAX);
    let ids = dialect::ids(deliveries.iter().map(|id| id.0));
    let values = vec![ids, i64::try_from(each).unwrap_or(i64::MAX).into()];
    let rows = dialect::ATTEMPTS.rows::<trigger_log::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Those of these attempts, each a delivery and a number, that are logged, with the time of each.
pub async fn logged(
    db: &impl ConnectionTrait,
    attempts: &[(ScheduledActionId, i32)],
) -> Result<HashSet<(ScheduledActionId, i32, DateTime<Utc>)>> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        attempt: i32,
    }
    #[derive(FromQueryResult)]
    struct Found {
        scheduled_action_id: Uuid,
        attempt: i32,
        created_date: DateTime<Utc>,
    }
    let rows: Vec<_> =
        attempts.iter().map(|(id, attempt)| Row { id: hex(id.0), attempt: *attempt }).collect();
    let found = dialect::LOGGED_ATTEMPTS.rows::<Found>(db, vec![dialect::rows(&rows)?]).await?;
    Ok(found
        .into_iter()
        .map(|row| (row.scheduled_action_id.into(), row.attempt, row.created_date))
        .collect())
}

/// Which ended deliveries are to be tried again.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retryable {
    /// Of this application.
    pub application_id: ApplicationId,
    /// Of this trigger.
    pub trigger_id: Option<TriggerId>,
    /// To this backend.
    pub backend_id: Option<BackendId>,
    /// In one of these states.
    #[serde(serialize_with = "names")]
    pub statuses: Vec<ActionStatus>,
    /// Of occurrences that were due at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Of occurrences that were due before this time.
    pub until: Option<DateTime<Utc>>,
    /// Ended at this time or later.
    pub finished_since: Option<DateTime<Utc>>,
    /// Ended before this time.
    pub finished_until: Option<DateTime<Utc>>,
}

fn names<S: serde::Serializer>(states: &[ActionStatus], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(states.iter().map(|status| status.as_str()))
}

/// The latest due time that there can be, in seconds since 1970: the end of the year 9999.
const LATEST: i64 = 253_402_300_799;

/// Holds the bulk retries of an application until the transaction ends: one that runs beside another
/// would find the same deliveries.
pub async fn hold_retries(tx: &super::Tx, application: ApplicationId) -> Result<()> {
    tx.hold_names(&dialect::HOLD_NAMES, &[format!("retries/{application}")]).await
}

/// The first `limit` deliveries, by due time, that `wanted` asks for and whose trigger and backend
/// are still there; each with its trigger.
pub async fn retryable(
    db: &impl ConnectionTrait,
    wanted: &Retryable,
    limit: u32,
) -> Result<Vec<(ScheduledActionId, TriggerId)>> {
    #[derive(FromQueryResult)]
    struct Row {
        id: Uuid,
        trigger_id: Uuid,
    }
    let states: Vec<_> = wanted.statuses.iter().map(|status| status.as_str()).collect();
    let latest = || DateTime::from_timestamp(LATEST, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    let values = vec![
        wanted.application_id.0.into(),
        wanted.since.unwrap_or(DateTime::UNIX_EPOCH).into(),
        wanted.until.unwrap_or_else(latest).into(),
        serde_json::json!(states).to_string().into(),
        wanted.trigger_id.map(|id| id.0).into(),
        wanted.backend_id.map(|id| id.0).into(),
        i64::from(limit).into(),
        wanted.finished_since.unwrap_or(DateTime::UNIX_EPOCH).into(),
        wanted.finished_until.unwrap_or_else(latest).into(),
    ];
    let rows = dialect::RETRYABLE.rows::<Row>(db, values).await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.trigger_id.into())).collect())
}

/// Makes ended deliveries due again, with a fresh budget until `expires_at`, and their occurrences
/// pending. Attempts go on counting. Those that had not ended as failed or cancelled stay as they
/// are. Answers how many were made due.
pub async fn requeue(
    db: &impl ConnectionTrait,
    deliveries: &[ScheduledActionId],
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<u64> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        reopened: i32,
    }
    let occurrences = super::scheduled_action::requeue(db, deliveries, now, expires_at).await?;
    let mut reopened = BTreeMap::<Uuid, i32>::new();
    for occurrence in occurrences.iter().flatten() {
        *reopened.entry(occurrence.0).or_default() += 1;
    }
    let rows: Vec<_> =
        reopened.into_iter().map(|(id, reopened)| Row { id: hex(id), reopened }).collect();
    if !rows.is_empty() {
        dialect::REOPEN_OCCURRENCES.run(db, vec![dialect::rows(&rows)?]).await?;
    }
    Ok(occurrences.len() as u64)
}

/// An id and nothing else.
#[derive(Debug, FromQueryResult)]
pub(super) struct IdRow {
    pub id: Uuid,
}

/// Makes the waiting deliveries of backends of an application, and its occurrences and calls that found
/// no backend, due at `now`: they are there again. To be called after `tx` has written that they
/// are; waits for nobody who works on the queue, see [`hold_waiting`].
pub async fn wake_backends(
    tx: &super::Tx,
    application: ApplicationId,
    backends: &[BackendId],
    now: DateTime<Utc>,
) -> Result<()> {
    hold_waiting(tx, [application]).await?;
    let lanes = backends.iter().map(|backend| backend.0).chain([application.0]);
    dialect::WAKE_LANES.run(&**tx, vec![dialect::ids(lanes), now.into()]).await?;
    dialect::WAKE_WAITING.run(&**tx, vec![application.0.into(), now.into()]).await?;
    Ok(())
}

/// Held, until the transaction ends, by who wakes what waits for backends of these applications, and by
/// who puts work off because none is active, before it looks for them once more: the second of
/// the two sees what the first has done. Nothing else is waited for while it is held.
pub async fn hold_waiting(
    tx: &super::Tx,
    applications: impl IntoIterator<Item = ApplicationId>,
) -> Result<()> {
    let names: Vec<_> = applications.into_iter().map(|id| format!("waiting/{id}")).collect();
    tx.hold_names(&dialect::HOLD_NAMES, &names).await
}

/// Deletes all work of these applications: deliveries of their occurrences, calls, and whatever is
/// part of one of their workflows.
pub(super) async fn delete_of_applications(
    db: &impl ConnectionTrait,
    applications: &[Uuid],
) -> Result<()> {
    let ids = dialect::ids(applications.iter().copied());
    dialect::DELETE_APPLICATION_WORK.run(db, vec![ids]).await?;
    Ok(())
}

/// Deletes open work of these applications, whatever of them is still there.
pub(super) async fn delete_open_of_applications(
    db: &impl ConnectionTrait,
    applications: &[Uuid],
) -> Result<()> {
    let ids = dialect::ids(applications.iter().copied());
    dialect::DELETE_OPEN_APPLICATION_WORK.run(db, vec![ids]).await?;
    Ok(())
}
