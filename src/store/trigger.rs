//! Triggers and their occurrences, as people read and change them. What the executor does with
//! them is in [`super::executor`].

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder,
};

use super::dialect::LATEST_OCCURRENCES;
use super::entity::{trigger, trigger_occurrence};
use super::paging::{By, page};
use super::scope;
use super::wanted::Wanted;
use crate::domain::access::Scope;
use crate::domain::id::{ApplicationId, OccurrenceId, TriggerId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::trigger::{CatchUp, Occurrence, OccurrenceStatus, Origin, Payload, Trigger};
use crate::error::{Error, Result};

impl From<trigger::Model> for Trigger {
    fn from(row: trigger::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            name: row.name,
            description: row.description,
            run_key: row.run_key,
            cron_expression: row.cron_expression,
            time_zone: row.time_zone,
            enabled: row.enabled,
            catch_up: CatchUp::from_name(&row.catch_up).unwrap_or_default(),
            evaluated_at: row.evaluated_at,
            next_fire_at: row.next_fire_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<trigger_occurrence::Model> for Occurrence {
    fn from(row: trigger_occurrence::Model) -> Self {
        Self {
            id: row.id.into(),
            trigger_id: row.trigger_id.into(),
            application_id: row.application_id.into(),
            scheduled_at: row.scheduled_at,
            until_at: row.until_at,
            occurrences: row.occurrences,
            origin: Origin::from_name(&row.origin).unwrap_or(Origin::Schedule),
            status: OccurrenceStatus::from_name(&row.status).unwrap_or(OccurrenceStatus::Pending),
            reason: row.reason,
            payload: payload(row.trigger_id.into(), row.payload),
            deliveries: row.deliveries,
            delivered: row.delivered,
            failed: row.failed,
            fan_out_attempts: row.fan_out_attempts,
            next_attempt_at: row.next_attempt_at,
            created_at: row.created_at,
            finished_at: row.finished_at,
        }
    }
}

/// Reads a stored payload. One that a person changed by hand past recognition reads as empty.
pub(super) fn payload(trigger: TriggerId, json: serde_json::Value) -> Payload {
    serde_json::from_value(json).unwrap_or_else(|_| Payload {
        trigger_id: trigger,
        trigger_name: String::new(),
        cron_expression: String::new(),
        run_key: String::new(),
        executed_at: String::new(),
    })
}

/// Writes a new trigger.
pub async fn insert(db: &impl ConnectionTrait, new: &Trigger) -> Result<()> {
    trigger::Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a trigger's row anew.
pub async fn update(db: &impl ConnectionTrait, changed: &Trigger) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

fn row(trigger: &Trigger) -> trigger::ActiveModel {
    trigger::Model {
        id: trigger.id.0,
        application_id: trigger.application_id.0,
        name: trigger.name.clone(),
        description: trigger.description.clone(),
        run_key: trigger.run_key.clone(),
        cron_expression: trigger.cron_expression.clone(),
        time_zone: trigger.time_zone.clone(),
        enabled: trigger.enabled,
        catch_up: trigger.catch_up.as_str().to_owned(),
        evaluated_at: trigger.evaluated_at,
        next_fire_at: trigger.next_fire_at,
        created_at: trigger.created_at,
        updated_at: trigger.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Starts the windows of enabled triggers that name no zone at `now`. The next pass finds out when
/// they are due.
pub async fn restart_windows_without_zone(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
) -> Result<u64> {
    use sea_orm::sea_query::Expr;
    use trigger::Column;
    let done = trigger::Entity::update_many()
        .col_expr(Column::EvaluatedAt, Expr::value(now))
        .col_expr(Column::NextFireAt, Expr::value(now))
        .filter(Column::Enabled.eq(true))
        .filter(Column::TimeZone.is_null())
        .exec(db)
        .await?;
    Ok(done.rows_affected)
}

/// Deletes a trigger. Its history stays; its undelivered work is cancelled elsewhere, in the
/// same transaction.
pub async fn delete(db: &impl ConnectionTrait, id: TriggerId) -> Result<()> {
    trigger::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The trigger of that id in `scope`.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: TriggerId) -> Result<Trigger> {
    let row = trigger::Entity::find_by_id(id.0)
        .filter(scope::application(scope, trigger::Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TriggerId::WHAT })
}

/// The trigger of that id in `scope`, held until the transaction ends, so that no pass
/// evaluates it meanwhile. (SQLite has one writer and needs no more.)
pub async fn find_held(
    tx: &super::Tx,
    scope: Scope,
    id: TriggerId,
    hold: super::Hold,
) -> Result<Trigger> {
    let select = trigger::Entity::find_by_id(id.0)
        .filter(scope::application(scope, trigger::Column::ApplicationId));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TriggerId::WHAT })
}

/// Those of these triggers that are still there, held until the transaction ends.
pub async fn hold_all(tx: &super::Tx, ids: &BTreeSet<TriggerId>) -> Result<BTreeSet<TriggerId>> {
    let select = trigger::Entity::find()
        .filter(trigger::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .order_by_asc(trigger::Column::Id);
    let rows = tx.holding(select, super::Hold::Change).all(&**tx).await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

/// The triggers of these ids in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[TriggerId],
) -> Result<Vec<Trigger>> {
    let rows = trigger::Entity::find()
        .filter(trigger::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, trigger::Column::ApplicationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which triggers are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this application.
    pub application_id: Option<ApplicationId>,
    /// Enabled ones, or the others.
    pub enabled: Option<bool>,
    /// With this run key.
    pub run_key: Option<String>,
    /// With this text in the name, whatever its case.
    pub name_contains: Option<String>,
}

/// How a list of triggers is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By the time of creation.
    #[default]
    CreatedAt,
    /// By name.
    Name,
    /// By the time of the last change.
    UpdatedAt,
}

/// The triggers in `scope` that `filter` asks for.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    sort: (Sort, Direction),
    request: &PageRequest,
) -> Result<Page<Trigger>> {
    use trigger::{Column, Entity};
    let wanted = Wanted::among(scope::application(scope, Column::ApplicationId))
        .eq(Column::ApplicationId, filter.application_id.map(|id| id.0))
        .eq(Column::Enabled, filter.enabled)
        .eq(Column::RunKey, filter.run_key.as_deref())
        .contains(Column::Name, filter.name_contains.as_ref());
    let select = Entity::find().filter(wanted);
    let column = match sort.0 {
        Sort::CreatedAt => Column::Id,
        Sort::Name => Column::Name,
        Sort::UpdatedAt => Column::UpdatedAt,
    };
    page(db, select, By { column, id: Column::Id, direction: sort.1 }, request).await
}

/// Writes an occurrence of its own, for example of a manual run. `false`, and nothing is
/// written, when the trigger has an occurrence at that instant already.
pub async fn insert_occurrence(db: &impl ConnectionTrait, new: &Occurrence) -> Result<bool> {
    use sea_orm::sea_query::OnConflict;
    use trigger_occurrence::{Column, Entity, Model};
    let row = Model {
        id: new.id.0,
        trigger_id: new.trigger_id.0,
        application_id: new.application_id.0,
        scheduled_at: new.scheduled_at,
        origin: new.origin.as_str().to_owned(),
        status: new.status.as_str().to_owned(),
        reason: new.reason.clone(),
        occurrences: new.occurrences,
        until_at: new.until_at,
        payload: serde_json::to_value(&new.payload).map_err(Error::internal)?,
        deliveries: new.deliveries,
        delivered: new.delivered,
        failed: new.failed,
        fan_out_attempts: new.fan_out_attempts,
        next_attempt_at: new.next_attempt_at,
        created_at: new.created_at,
        finished_at: new.finished_at,
    };
    let mut unique = OnConflict::columns([Column::TriggerId, Column::ScheduledAt]);
    let written = Entity::insert(row.into_active_model().reset_all())
        .on_conflict(unique.do_nothing().to_owned())
        .exec_without_returning(db)
        .await?;
    Ok(written == 1)
}

/// The occurrence of that id in `scope`.
pub async fn occurrence(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: OccurrenceId,
) -> Result<Occurrence> {
    let row = trigger_occurrence::Entity::find_by_id(id.0)
        .filter(scope::application(scope, trigger_occurrence::Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: OccurrenceId::WHAT })
}

/// The occurrences of these ids in `scope`, in no order.
pub async fn occurrences_by_ids(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[OccurrenceId],
) -> Result<Vec<Occurrence>> {
    let rows = trigger_occurrence::Entity::find()
        .filter(trigger_occurrence::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, trigger_occurrence::Column::ApplicationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The latest occurrence of each of `triggers` that has one.
pub async fn latest_occurrences(
    db: &impl ConnectionTrait,
    triggers: &[TriggerId],
) -> Result<Vec<Occurrence>> {
    let ids = triggers.iter().copied();
    let rows = LATEST_OCCURRENCES
        .rows::<trigger_occurrence::Model>(db, vec![super::dialect::ids(ids)])
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which occurrences are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct OccurrenceFilter {
    /// Of this application.
    pub application_id: Option<ApplicationId>,
    /// Of this trigger.
    pub trigger_id: Option<TriggerId>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<OccurrenceStatus>,
    /// Due at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Due before this time.
    pub until: Option<DateTime<Utc>>,
    /// Ended at this time or later.
    pub finished_since: Option<DateTime<Utc>>,
    /// Ended before this time.
    pub finished_until: Option<DateTime<Utc>>,
}

/// The occurrences in `scope` that `filter` asks for, by due time.
pub async fn occurrences(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &OccurrenceFilter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<Occurrence>> {
    use trigger_occurrence::{Column, Entity};
    let wanted = Wanted::among(scope::application(scope, Column::ApplicationId))
        .eq(Column::ApplicationId, filter.application_id.map(|id| id.0))
        .eq(Column::TriggerId, filter.trigger_id.map(|id| id.0))
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::ScheduledAt, filter.since, filter.until)
        .between(Column::FinishedAt, filter.finished_since, filter.finished_until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::ScheduledAt, id: Column::Id, direction }, request).await
}
