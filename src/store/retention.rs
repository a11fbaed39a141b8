//! Deleting what has been kept long enough, a batch at a time.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::entity::{
    audit_log, event, executor_instance, scheduled_action, scheduled_trigger_execution,
    trigger_log, trigger_occurrence,
};
use super::{Hold, Tx, dialect};
use crate::domain::delivery::ActionStatus;
use crate::domain::trigger_log::LogStatus;
use crate::error::Result;

/// The tables that are swept by their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Occurrences, and their deliveries with them.
    Occurrences,
    /// What rules and workflow services queued: scheduled actions that are no delivery of a
    /// trigger. Work that has not ended stays, however old.
    Actions,
    /// Cycles. Those that are being walked stay.
    Cycles,
    /// Events. Those that are not evaluated yet stay. With the event goes the memory of its id: the
    /// same one sent again is then a new one.
    Events,
    /// The audit log.
    Audit,
}

/// What stays: rows that ended at this time or later; none: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Of what ended well, and of what was skipped.
    pub well: Option<DateTime<Utc>>,
    /// Of what failed, wholly or in part, expired or was cancelled.
    pub badly: Option<DateTime<Utc>>,
}

impl Kept {
    /// The same for all that ended.
    pub fn since(time: Option<DateTime<Utc>>) -> Self {
        Self { well: time, badly: time }
    }
}

/// What one step of a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Rows deleted.
    pub deleted: u64,
    /// Where to go on; none at the end.
    pub last: Option<Uuid>,
}

#[derive(FromQueryResult)]
struct Row {
    id: Uuid,
    made: DateTime<Utc>,
    ended: Option<DateTime<Utc>>,
    status: String,
}

/// Looks at up to `limit` rows after `after` and deletes those that `kept` does not keep.
pub async fn sweep(
    tx: &Tx,
    table: Table,
    kept: Kept,
    (after, limit): (Uuid, u64),
) -> Result<Swept> {
    let Some(newest) = kept.well.max(kept.badly) else {
        return Ok(Swept { deleted: 0, last: None });
    };
    let rows = read(tx, table, (after, limit)).await?;
    let mut last = rows.last().map(|row| row.id).filter(|_| rows.len() as u64 == limit);
    if rows.first().is_some_and(|row| row.made >= newest) {
        last = None;
    }
    let old: Vec<_> = rows.iter().filter(|row| is_old(row, kept)).map(|row| row.id).collect();
    let deleted = if old.is_empty() { 0 } else { delete(tx, table, old).await? };
    Ok(Swept { deleted, last })
}

fn is_old(row: &Row, kept: Kept) -> bool {
    const BADLY: [&str; 4] = ["failed", "partially_delivered", "expired", "cancelled"];
    let since = if BADLY.contains(&row.status.as_str()) { kept.badly } else { kept.well };
    matches!((row.ended, since), (Some(ended), Some(since)) if ended < since)
}

/// Rows in the order of their ids, which is that of creation: when each was made and ended, and as
/// what.
async fn read(tx: &Tx, table: Table, (after, limit): (Uuid, u64)) -> Result<Vec<Row>> {
    macro_rules! rows {
        ($entity:ident, $made:ident, $ended:ident, $status:ident $(, $only:expr)?) => {{
            use $entity::{Column, Entity};
            Entity::find()
                .select_only()
                .column(Column::Id)
                .column_as(Column::$made, "made")
                .column_as(Column::$ended, "ended")
                .column_as(Column::$status, "status")
                .filter(Column::Id.gt(after))
                $(.filter($only))?
                .order_by_asc(Column::Id)
                .limit(limit)
                .into_model::<Row>()
                .all(&**tx)
                .await?
        }};
    }
    Ok(match table {
        Table::Occurrences => rows!(trigger_occurrence, CreatedAt, FinishedAt, Status),
        Table::Actions => {
            let of_no_trigger = scheduled_action::Column::TriggerId.is_null();
            rows!(scheduled_action, CreatedAt, ExecutedAt, Status, of_no_trigger)
        }
        Table::Cycles => rows!(scheduled_trigger_execution, StartedAt, CompletedAt, Status),
        Table::Events => rows!(event, ReceivedAt, ProcessedAt, Status),
        Table::Audit => rows!(audit_log, At, At, Action),
    })
}

async fn delete(tx: &Tx, table: Table, ids: Vec<Uuid>) -> Result<u64> {
    let ids = if table == Table::Occurrences { without_open(tx, ids).await? } else { ids };
    macro_rules! gone {
        ($entity:ident) => {{
            use $entity::{Column, Entity};
            Entity::delete_many().filter(Column::Id.is_in(ids))
        }};
    }
    let deleted = match table {
        Table::Audit => gone!(audit_log).exec(&**tx).await?,
        Table::Events => gone!(event).exec(&**tx).await?,
        Table::Cycles => gone!(scheduled_trigger_execution).exec(&**tx).await?,
        Table::Actions => {
            // Somebody may have had it tried again since it was read.
            let ended = scheduled_action::Column::Status
                .is_not_in(ActionStatus::OPEN.map(ActionStatus::as_str));
            gone!(scheduled_action).filter(ended).exec(&**tx).await?
        }
        Table::Occurrences => {
            scheduled_action::Entity::delete_many()
                .filter(scheduled_action::Column::TriggerOccurrenceId.is_in(ids.iter().copied()))
                .exec(&**tx)
                .await?;
            gone!(trigger_occurrence).exec(&**tx).await?
        }
    };
    Ok(deleted.rows_affected)
}

/// Those of `occurrences` that have no open delivery. Their deliveries are held, so that nobody has
/// one tried again meanwhile; somebody may have done so since the occurrences were read.
async fn without_open(tx: &Tx, occurrences: Vec<Uuid>) -> Result<Vec<Uuid>> {
    use scheduled_action::{Column, Entity};
    let deliveries = Entity::find()
        .select_only()
        .column(Column::TriggerOccurrenceId)
        .column(Column::Status)
        .filter(Column::TriggerOccurrenceId.is_in(occurrences.iter().copied()))
        .order_by_asc(Column::Id);
    let deliveries = tx
        .holding(deliveries, Hold::Delete)
        .into_tuple::<(Option<Uuid>, String)>()
        .all(&**tx)
        .await?;
    let open: HashSet<_> = deliveries
        .iter()
        .filter(|(_, status)| ActionStatus::is_open(status))
        .filter_map(|(id, _)| *id)
        .collect();
    Ok(occurrences.into_iter().filter(|id| !open.contains(id)).collect())
}

/// Which rows of the trigger log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Evaluations that were held back.
    HeldBack,
    /// All others.
    Others,
}

/// Deletes up to `limit` of the oldest log rows of a kind, those from before `since`. Answers how
/// many.
pub async fn delete_logs(tx: &Tx, kind: Logs, since: DateTime<Utc>, limit: u64) -> Result<u64> {
    use trigger_log::{Column, Entity};
    #[derive(FromQueryResult)]
    struct Old {
        id: i64,
        created_date: DateTime<Utc>,
    }
    let of_kind = match kind {
        // Written out, so that the index of these rows is used.
        Logs::HeldBack => Expr::cust("status = 'held_back'"),
        Logs::Others => Column::Status.ne(LogStatus::HeldBack.as_str()),
    };
    let oldest = Entity::find()
        .select_only()
        .column(Column::Id)
        .column(Column::CreatedDate)
        .filter(of_kind)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_model::<Old>()
        .all(&**tx)
        .await?;
    let old: Vec<_> =
        oldest.iter().filter(|row| row.created_date < since).map(|row| row.id).collect();
    if old.is_empty() {
        return Ok(0);
    }
    Ok(Entity::delete_many().filter(Column::Id.is_in(old)).exec(&**tx).await?.rows_affected)
}

/// Deletes up to `limit` rows of what rate control remembers of rules that were deleted at `now` or
/// before. Answers how many.
pub async fn delete_rule_states(tx: &Tx, now: DateTime<Utc>, limit: u64) -> Result<u64> {
    dialect::DELETE_RULE_STATES.run(&**tx, vec![now.into(), dialect::limit(limit)]).await
}

/// Deletes executors that were last here before `since`. Answers how many.
pub async fn delete_executors(tx: &Tx, since: DateTime<Utc>) -> Result<u64> {
    use executor_instance::{Column, Entity};
    let old = Entity::delete_many().filter(Column::LastPassAt.lt(since));
    Ok(old.exec(&**tx).await?.rows_affected)
}
