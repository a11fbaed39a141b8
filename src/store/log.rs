//! The trigger log as a feed: what was recorded since one looked last.

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::entity::trigger_log::{Column, Entity};
use crate::domain::id::{ApplicationId, OccurrenceId, ScheduledActionId};
use crate::error::Result;

/// Which occurrence, and which delivery of it, a row of the log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The row's number. On PostgreSQL a smaller one may become visible after a greater one.
    pub id: i64,
    /// The application.
    pub application_id: ApplicationId,
    /// The occurrence.
    pub occurrence_id: OccurrenceId,
    /// The delivery; none when the row is about the occurrence as a whole.
    pub delivery_id: Option<ScheduledActionId>,
}

/// The greatest number in the log, 0 when it is empty.
pub async fn last(db: &impl ConnectionTrait) -> Result<i64> {
    let row = Entity::find()
        .select_only()
        .column(Column::Id)
        .order_by_desc(Column::Id)
        .into_tuple::<i64>()
        .one(db)
        .await?;
    Ok(row.unwrap_or_default())
}

/// The rows above `after` that are about an occurrence, in order, at most `limit` of all rows.
pub async fn above(db: &impl ConnectionTrait, after: i64, limit: u64) -> Result<Vec<Entry>> {
    type Row = (i64, Uuid, Uuid, Option<Uuid>);
    let rows = Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::ApplicationId,
            Column::TriggerOccurrenceId,
            Column::ScheduledActionId,
        ])
        .filter(Column::Id.gt(after))
        .filter(Column::ApplicationId.is_not_null())
        .filter(Column::TriggerOccurrenceId.is_not_null())
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple::<Row>()
        .all(db)
        .await?;
    let entries = rows.into_iter().map(|(id, application, occurrence, delivery)| Entry {
        id,
        application_id: application.into(),
        occurrence_id: occurrence.into(),
        delivery_id: delivery.map(Into::into),
    });
    Ok(entries.collect())
}
