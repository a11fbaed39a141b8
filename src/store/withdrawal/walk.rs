//! The walks of withdrawals over what is open.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SecondsFormat, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::{Kind, Withdrawal, has_open, is_old, skipping_held};
use crate::domain::delivery::ActionStatus;
use crate::domain::trigger::OccurrenceStatus;
use crate::error::Result;
use crate::store::delivery::IdRow;
use crate::store::entity::{scheduled_action, trigger_occurrence};
use crate::store::{Tx, cancel, dialect};

/// What a stretch of a walk came to.
pub(super) struct Walked {
    pub cancelled: u64,
    pub met_open: bool,
    /// Where to go on; none at the end.
    pub position: Option<String>,
}

#[derive(FromQueryResult)]
struct OwnRow {
    id: Uuid,
    status: String,
    owner: Option<Uuid>,
    trigger_rule_id: Option<Uuid>,
    created_at: DateTime<Utc>,
}

/// What is no delivery of a trigger, in the order of its ids.
pub(super) async fn own(
    tx: &Tx,
    of: &Withdrawal,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Walked> {
    use scheduled_action::{Column, Entity};
    let (column, among) = match of.owner.kind {
        Kind::TriggerRule => (Column::TriggerRuleId, Column::TriggerRuleId.eq(of.owner.id)),
        Kind::LineOa => (Column::LineOaId, Column::TriggerId.is_null()),
        _ => (Column::WorkflowId, Column::TriggerId.is_null()),
    };
    let rows = Entity::find()
        .select_only()
        .columns([Column::Id, Column::Status, Column::TriggerRuleId, Column::CreatedAt])
        .column_as(column, "owner")
        .filter(among)
        .filter(Column::Id.gt(of.position.parse::<Uuid>().unwrap_or_default()))
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_model::<OwnRow>()
        .all(&**tx)
        .await?;
    let position = last_of(&rows, limit).map(|row| row.id.to_string());
    let theirs = rows.into_iter().filter(|row| {
        let made_by_rule = row.trigger_rule_id.map(|_| row.created_at);
        row.owner == Some(of.owner.id) && is_old(made_by_rule, of.until())
    });
    let open = theirs.filter(|row| ActionStatus::is_open(&row.status));
    let open: Vec<_> = open.map(|row| row.id).collect();
    let free = free_of(tx, open.iter().copied()).await?;
    let cancelled = cancel::work(&**tx, &free, (&of.reason, now)).await?;
    Ok(Walked { cancelled, met_open: !open.is_empty(), position })
}

/// What waits for a backend, in its lane: what is cancelled is found no more, so that each stretch is
/// the first.
pub(super) async fn lane(
    tx: &Tx,
    of: &Withdrawal,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Walked> {
    use scheduled_action::{Column, Entity};
    let waiting = Entity::find()
        .select_only()
        .column(Column::Id)
        // Written out, so that the index of what waits is used.
        .filter(Expr::cust("status = 'pending'"))
        .filter(Column::Lane.eq(of.owner.id))
        .filter(Column::BackendId.eq(of.owner.id))
        .order_by_asc(Column::Lane)
        .order_by_asc(Column::ExecuteAt)
        .limit(limit);
    let free: Vec<Uuid> = skipping_held(tx, waiting).into_tuple().all(&**tx).await?;
    let cancelled = cancel::work(&**tx, &free, (&of.reason, now)).await?;
    Ok(Walked { cancelled, met_open: has_open(tx, &of.owner).await?, position: None })
}

/// A trigger's occurrences, in the order of their due times. One of whose deliveries somebody holds is
/// left for the next walk, whole.
pub(super) async fn occurrences(
    tx: &Tx,
    of: &Withdrawal,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Walked> {
    use trigger_occurrence::{Column, Entity};
    let after = DateTime::parse_from_rfc3339(&of.position).map(|at| at.to_utc());
    let mut rows: Vec<(Uuid, DateTime<Utc>, String, i32)> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::ScheduledAt, Column::Status, Column::Deliveries])
        .filter(Column::TriggerId.eq(of.owner.id))
        .filter(Column::ScheduledAt.gt(after.unwrap_or(DateTime::UNIX_EPOCH)))
        .order_by_asc(Column::ScheduledAt)
        .limit(limit)
        .into_tuple()
        .all(&**tx)
        .await?;
    let full = rows.len() as u64 == limit;
    let found = rows.len();
    cancel::taken(&mut rows, limit, |(_, _, status, deliveries)| {
        if *status == OccurrenceStatus::Pending.as_str() { *deliveries } else { 0 }
    });
    let position = rows.last().filter(|_| full || rows.len() < found);
    let position = position.map(|(_, at, ..)| at.to_rfc3339_opts(SecondsFormat::AutoSi, true));
    let pending = rows.into_iter().filter(|row| row.2 == OccurrenceStatus::Pending.as_str());
    let pending: Vec<Uuid> = pending.map(|(id, ..)| id).collect();
    let busy = busy_of(tx, &pending).await?;
    let free: Vec<_> = pending.iter().copied().filter(|id| !busy.contains(id)).collect();
    let cancelled = cancel::occurrences(&**tx, &free, (&of.reason, now)).await?;
    Ok(Walked { cancelled, met_open: !pending.is_empty(), position })
}

/// Those of these occurrences that have a delivery which somebody works on or holds. The open
/// deliveries of the others are held.
async fn busy_of(tx: &Tx, occurrences: &[Uuid]) -> Result<HashSet<Uuid>> {
    use scheduled_action::{Column, Entity};
    let deliveries: HashMap<Uuid, Uuid> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::TriggerOccurrenceId])
        .filter(Column::TriggerOccurrenceId.is_in(occurrences.iter().copied()))
        .filter(Column::Status.is_in(ActionStatus::OPEN.map(ActionStatus::as_str)))
        .into_tuple()
        .all(&**tx)
        .await?
        .into_iter()
        .collect();
    let free: HashSet<_> = free_of(tx, deliveries.keys().copied()).await?.into_iter().collect();
    let held = deliveries.into_iter().filter(|(id, _)| !free.contains(id));
    Ok(held.map(|(_, occurrence)| occurrence).collect())
}

/// Those of these pieces of work that wait and that nobody holds: they are held now.
async fn free_of(tx: &Tx, work: impl Iterator<Item = Uuid>) -> Result<Vec<Uuid>> {
    let free = dialect::HOLD_WAITING_WORK.rows::<IdRow>(&**tx, vec![dialect::ids(work)]).await?;
    Ok(free.into_iter().map(|row| row.id).collect())
}

/// The last of these rows, unless there are no more behind it.
fn last_of<T>(rows: &[T], limit: u64) -> Option<&T> {
    rows.last().filter(|_| rows.len() as u64 == limit)
}
