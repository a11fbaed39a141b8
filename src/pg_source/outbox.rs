//! A row of the outbox, as it is handed on.

use chrono::{DateTime, SubsecRound, Utc};
use sea_orm::sqlx::Row;
use sea_orm::sqlx::postgres::PgRow;
use serde_json::Value;
use uuid::Uuid;

use super::reader::PAYLOAD_READ_MAX;

/// A row of the outbox. Only its shape is known to be right: type, user and LINE OA are whatever
/// was written there.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// The row, in this outbox.
    pub id: i64,
    /// The event's id: the same one when the row is handed on again.
    pub event_id: Uuid,
    /// A source type, or any other text; at most 100 characters.
    pub event_type: String,
    /// The LINE OA; none where the table held no UUID.
    pub line_oa_id: Option<Uuid>,
    /// LINE's id of the user, or any other text, cut at 200 characters.
    pub user_id: Option<String>,
    /// When it happened, cut to milliseconds.
    pub occurred_at: DateTime<Utc>,
    /// What else is known of it; any JSON of at most [`PAYLOAD_READ_MAX`] bytes.
    pub payload: Value,
}

/// A row that can't be an event, and why. It is moved to `trigger_manager.outbox_refused`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The row.
    pub id: i64,
    /// A sentence for whoever looks there; cut at 1,000 characters.
    pub reason: String,
}

impl OutboxRow {
    /// Reads what `take` selects. A row that can't be read must not hold up the others.
    pub(super) fn read(id: i64, row: &PgRow) -> Result<Self, Refused> {
        Self::parts(id, row).map_err(|reason| Refused { id, reason })
    }

    fn parts(id: i64, row: &PgRow) -> Result<Self, String> {
        let unreadable = |error: sea_orm::sqlx::Error| format!("the row can't be read: {error}");
        let payload: Option<String> = row.try_get("payload").map_err(unreadable)?;
        let payload = payload
            .ok_or_else(|| format!("the payload is longer than {PAYLOAD_READ_MAX} bytes"))?;
        let occurred_at: DateTime<Utc> = row.try_get("occurred_at").map_err(unreadable)?;
        Ok(Self {
            id,
            event_id: row.try_get("event_id").map_err(unreadable)?,
            event_type: row.try_get("type").map_err(unreadable)?,
            line_oa_id: row.try_get("line_oa_id").map_err(unreadable)?,
            user_id: row.try_get("user_id").map_err(unreadable)?,
            occurred_at: occurred_at.trunc_subsecs(6),
            payload: serde_json::from_str(&payload)
                .map_err(|error| format!("the payload can't be read: {error}"))?,
        })
    }
}
