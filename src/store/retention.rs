//! Deleting what has been kept long enough, a batch at a time.

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::Tx;
use super::entity::{audit_log, scheduled_action, trigger_log, trigger_occurrence};
use crate::error::Result;

/// The tables that are swept by their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Occurrences, and their deliveries with them.
    Occurrences,
    /// The audit log.
    Audit,
}

/// What stays: rows that ended at this time or later; none: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Of what ended well, and of what was skipped.
    pub well: Option<DateTime<Utc>>,
    /// Of what failed, wholly or in part, or was cancelled.
    pub badly: Option<DateTime<Utc>>,
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
    let rows = match table {
        Table::Occurrences => occurrences(tx, after, limit).await?,
        Table::Audit => audits(tx, after, limit).await?,
    };
    let mut last = rows.last().map(|row| row.id).filter(|_| rows.len() as u64 == limit);
    if rows.first().is_some_and(|row| row.made >= newest) {
        last = None;
    }
    let old: Vec<_> = rows.iter().filter(|row| is_old(row, kept)).map(|row| row.id).collect();
    let deleted = old.len() as u64;
    if deleted > 0 {
        delete(tx, table, old).await?;
    }
    Ok(Swept { deleted, last })
}

fn is_old(row: &Row, kept: Kept) -> bool {
    let bad = matches!(row.status.as_str(), "failed" | "partially_delivered" | "cancelled");
    let since = if bad { kept.badly } else { kept.well };
    matches!((row.ended, since), (Some(ended), Some(since)) if ended < since)
}

async fn occurrences(tx: &Tx, after: Uuid, limit: u64) -> Result<Vec<Row>> {
    use trigger_occurrence::{Column, Entity};
    let select = Entity::find()
        .select_only()
        .column(Column::Id)
        .column_as(Column::CreatedAt, "made")
        .column_as(Column::FinishedAt, "ended")
        .column(Column::Status)
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(limit);
    Ok(select.into_model::<Row>().all(&**tx).await?)
}

async fn audits(tx: &Tx, after: Uuid, limit: u64) -> Result<Vec<Row>> {
    use audit_log::{Column, Entity};
    let select = Entity::find()
        .select_only()
        .column(Column::Id)
        .column_as(Column::At, "made")
        .column_as(Column::At, "ended")
        .column_as(Column::Action, "status")
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(limit);
    Ok(select.into_model::<Row>().all(&**tx).await?)
}

async fn delete(tx: &Tx, table: Table, ids: Vec<Uuid>) -> Result<()> {
    match table {
        Table::Audit => {
            audit_log::Entity::delete_many()
                .filter(audit_log::Column::Id.is_in(ids))
                .exec(&**tx)
                .await?;
        }
        Table::Occurrences => {
            scheduled_action::Entity::delete_many()
                .filter(scheduled_action::Column::TriggerOccurrenceId.is_in(ids.iter().copied()))
                .exec(&**tx)
                .await?;
            trigger_occurrence::Entity::delete_many()
                .filter(trigger_occurrence::Column::Id.is_in(ids))
                .exec(&**tx)
                .await?;
        }
    }
    Ok(())
}

/// Deletes up to `limit` of the oldest log rows, those from before `since`. Answers how many.
pub async fn delete_logs(tx: &Tx, since: DateTime<Utc>, limit: u64) -> Result<u64> {
    use trigger_log::{Column, Entity};
    #[derive(FromQueryResult)]
    struct Old {
        id: i64,
        created_date: DateTime<Utc>,
    }
    let oldest = Entity::find()
        .select_only()
        .column(Column::Id)
        .column(Column::CreatedDate)
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
