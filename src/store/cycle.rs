//! Cycles of time-based rules: one row a due time.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{OnConflict, SimpleExpr};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

use super::entity::scheduled_trigger_execution::{ActiveModel, Column, Entity, Model};
use super::paging::{By, page};
use super::wanted::Wanted;
use super::{Hold, Tx, dialect, scope};
use crate::domain::access::Scope;
use crate::domain::cycle::{Cycle, CycleStatus};
use crate::domain::id::{CycleId, LineOaId, TriggerRuleId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

impl From<Model> for Cycle {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            trigger_rule_id: row.trigger_rule_id.into(),
            line_oa_id: row.line_oa_id.into(),
            organization_id: row.organization_id.into(),
            audience_id: row.audience_id.into(),
            scheduled_at: row.scheduled_at,
            started_at: row.started_at,
            completed_at: row.completed_at,
            status: CycleStatus::from_name(&row.status).unwrap_or(CycleStatus::Failed),
            total_users: row.total_users,
            processed_users: row.processed_users,
            failed_users: row.failed_users,
            cursor: row.cursor,
            error_message: row.error_message,
        }
    }
}

fn row(cycle: &Cycle) -> ActiveModel {
    Model {
        id: cycle.id.0,
        trigger_rule_id: cycle.trigger_rule_id.0,
        line_oa_id: cycle.line_oa_id.0,
        organization_id: cycle.organization_id.0,
        audience_id: cycle.audience_id.0,
        scheduled_at: cycle.scheduled_at,
        started_at: cycle.started_at,
        completed_at: cycle.completed_at,
        status: cycle.status.as_str().to_owned(),
        total_users: cycle.total_users,
        processed_users: cycle.processed_users,
        failed_users: cycle.failed_users,
        cursor: cycle.cursor.clone(),
        error_message: cycle.error_message.clone(),
    }
    .into_active_model()
    .reset_all()
}

/// Begins a cycle. `false`, and nothing is written, when the rule has one of that due time.
pub async fn insert(db: &impl ConnectionTrait, new: &Cycle) -> Result<bool> {
    let mut unique = OnConflict::columns([Column::TriggerRuleId, Column::ScheduledAt]);
    let written = Entity::insert(row(new))
        .on_conflict(unique.do_nothing().to_owned())
        .exec_without_returning(db)
        .await?;
    Ok(written == 1)
}

/// Those of `rules` that have a cycle which is being walked.
pub async fn walking(
    db: &impl ConnectionTrait,
    rules: &[TriggerRuleId],
) -> Result<HashSet<TriggerRuleId>> {
    let rows = Entity::find()
        .select_only()
        .column(Column::TriggerRuleId)
        .filter(Column::Status.eq(CycleStatus::Processing.as_str()))
        .filter(Column::TriggerRuleId.is_in(rules.iter().map(|id| id.0)))
        .into_tuple::<uuid::Uuid>()
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The first cycle behind `after`, by age and then from the oldest on, that is being walked and that
/// nobody else holds, held until the transaction ends.
pub async fn next(db: &impl ConnectionTrait, after: CycleId) -> Result<Option<Cycle>> {
    let behind = dialect::NEXT_CYCLE.row::<Model>(db, vec![after.0.into()]).await?;
    let found = match behind {
        None if !after.0.is_nil() => {
            dialect::NEXT_CYCLE.row::<Model>(db, vec![uuid::Uuid::nil().into()]).await?
        }
        behind => behind,
    };
    Ok(found.map(Into::into))
}

/// Writes a cycle's row anew.
pub async fn update(db: &impl ConnectionTrait, changed: &Cycle) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

/// Holds the cycles of a rule that are being walked until the transaction ends; whoever walks one ends
/// its batch before. So a batch meets one rule, not the half of one and the half of the next.
pub async fn hold_of_rule(tx: &Tx, rule: TriggerRuleId) -> Result<()> {
    tx.hold_all(open(Column::TriggerRuleId.eq(rule.0)), Hold::Change).await
}

/// Holds the cycles of a LINE OA, as [`hold_of_rule`] does.
pub async fn hold_of_line_oa(tx: &Tx, line_oa: LineOaId) -> Result<()> {
    tx.hold_all(open(Column::LineOaId.eq(line_oa.0)), Hold::Change).await
}

/// What is being walked, in the order in which it is held.
fn open(among: SimpleExpr) -> Select<Entity> {
    Entity::find()
        .filter(among)
        .filter(Column::Status.eq(CycleStatus::Processing.as_str()))
        .order_by_asc(Column::Id)
}

/// Ends the cycles of a rule that are being walked; whoever walks one ends its batch before.
/// Answers which.
pub async fn cancel_of_rule(
    tx: &Tx,
    rule: TriggerRuleId,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<HashSet<CycleId>> {
    let open = open(Column::TriggerRuleId.eq(rule.0));
    let open = tx.holding(open, Hold::Change).all(&**tx).await?;
    let mut ended = HashSet::new();
    for open in open {
        let mut cycle = Cycle::from(open);
        cycle.status = CycleStatus::Cancelled;
        cycle.error_message = Some(reason.to_owned());
        cycle.completed_at = Some(now);
        update(&**tx, &cycle).await?;
        ended.insert(cycle.id);
    }
    Ok(ended)
}

/// Which cycles are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// Of this rule.
    pub trigger_rule_id: Option<TriggerRuleId>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<CycleStatus>,
    /// Due at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Due before this time.
    pub until: Option<DateTime<Utc>>,
}

/// The cycles in `scope`, for people, that `filter` asks for, by due time.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<Cycle>> {
    let wanted = Wanted::among(scope::of_people(scope, Column::OrganizationId))
        .eq(Column::LineOaId, filter.line_oa_id.map(|id| id.0))
        .eq(Column::TriggerRuleId, filter.trigger_rule_id.map(|id| id.0))
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::ScheduledAt, filter.since, filter.until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::ScheduledAt, id: Column::Id, direction }, request).await
}

/// The cycle of that id in `scope`, for people: a machine finds none.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: CycleId) -> Result<Cycle> {
    let row = Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: CycleId::WHAT })
}

/// The cycles of these ids in `scope`, for people, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[CycleId],
) -> Result<Vec<Cycle>> {
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::of_people(scope, Column::OrganizationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}
