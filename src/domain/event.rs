//! An event: something that happened, usually to a user of a LINE OA.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::id::{EventId, LineOaId, ProjectId};
use super::input;
use crate::error::Result;

/// The longest event id that a sender may give, in characters.
pub const EVENT_ID_MAX: usize = 200;
/// The largest payload, in bytes of JSON.
pub const PAYLOAD_MAX: usize = 64 * 1024;
/// How deep a payload may be nested, the payload itself counted. JSON readers give up at 128, and
/// what is made of an event holds the payload some levels deeper.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// A sender's id to search for, of up to [`EVENT_ID_MAX`] characters. Refused with `INVALID` on
/// `field`.
pub fn search_id(field: &'static str, id: &str) -> Result<String> {
    input::bounded(field, id, EVENT_ID_MAX)
}

/// How an event came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventOrigin {
    /// Posted to the machine API.
    Api,
    /// From LINE's webhook.
    LineWebhook,
    /// From the outbox of a PostgreSQL database.
    Postgres,
    /// A change made through this server's own API or by one of its actions.
    Internal,
}

impl EventOrigin {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::LineWebhook => "line_webhook",
            Self::Postgres => "postgres",
            Self::Internal => "internal",
        }
    }

    /// The origin of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Api, Self::LineWebhook, Self::Postgres, Self::Internal]
            .into_iter()
            .find(|origin| origin.as_str() == name)
    }
}

/// An event's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventStatus {
    /// Stored, not evaluated yet.
    Pending,
    /// Evaluated; what came of it stands in the trigger log.
    Processed,
    /// It could not be evaluated; `error` says why.
    Failed,
}

impl EventStatus {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processed => "processed",
            Self::Failed => "failed",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Pending, Self::Processed, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Our id, in the order of storing.
    pub id: EventId,
    /// The sender's id, unique in the LINE OA: the same one again is a duplicate and does nothing.
    pub event_id: String,
    /// A source type, for example `form_submitted`.
    pub event_type: String,
    /// The LINE OA whose rules it meets.
    pub line_oa_id: LineOaId,
    /// The LINE OA's project.
    pub organization_id: ProjectId,
    /// LINE's id of the user that it happened to, if to one.
    pub user_id: Option<String>,
    /// When it happened, by the sender's word.
    pub occurred_at: DateTime<Utc>,
    /// What else is known of it, as its type asks for.
    pub payload: Value,
    /// What it is about, for types that have states of one thing, for example a booking: what waits
    /// because of an earlier state is replaced.
    pub subject: Option<String>,
    /// How it came in.
    pub origin: EventOrigin,
    /// Its state.
    pub status: EventStatus,
    /// How many rules accepted it; none before it was evaluated.
    pub matched: Option<i32>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was stored.
    pub received_at: DateTime<Utc>,
    /// When it was evaluated.
    pub processed_at: Option<DateTime<Utc>>,
}
