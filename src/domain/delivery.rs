//! A delivery: the scheduled action that calls one backend, and the log of its attempts.

use chrono::{DateTime, Utc};

use super::id::{ApplicationId, BackendId, OccurrenceId, ScheduledActionId, TriggerId};
use super::trigger::Payload;

/// The noun, as it reads in "… not found".
pub const WHAT: &str = "delivery";

/// The action type of a delivery.
pub const CALL_BACKEND: &str = "call_backend";

/// A scheduled action's state.
///
/// `Pending → Processing → Completed | Failed | Expired | Pending (retry, or its executor died)`;
/// `Pending | Processing → Cancelled`; `Failed | Expired | Cancelled → Pending` by a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionStatus {
    /// It waits for its time.
    Pending,
    /// An executor holds it under a lease.
    Processing,
    /// Done; of a delivery: answered 2xx.
    Completed,
    /// Given up: the budget ended.
    Failed,
    /// Its time to be done had passed.
    Expired,
    /// Taken back before it was done.
    Cancelled,
}

impl ActionStatus {
    const ALL: [Self; 6] = [
        Self::Pending,
        Self::Processing,
        Self::Completed,
        Self::Failed,
        Self::Expired,
        Self::Cancelled,
    ];

    /// The states of work that has not ended.
    pub const OPEN: [Self; 2] = [Self::Pending, Self::Processing];

    /// Whether the state of that name is one of work that has not ended.
    pub fn is_open(name: &str) -> bool {
        Self::OPEN.iter().any(|open| open.as_str() == name)
    }

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// One occurrence on its way to one backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The id; every attempt carries it as `webhook-id`.
    pub id: ScheduledActionId,
    /// The trigger.
    pub trigger_id: TriggerId,
    /// The occurrence.
    pub occurrence_id: OccurrenceId,
    /// The application.
    pub application_id: ApplicationId,
    /// The backend, which may have been deleted since.
    pub backend_id: BackendId,
    /// Its state.
    pub status: ActionStatus,
    /// What is sent.
    pub payload: Payload,
    /// How many attempts have ended.
    pub retry_count: i32,
    /// How many of them came before its budget began: it was given a new one when a person retried it.
    pub attempts_before: i32,
    /// When the next attempt is due, or when the last one was.
    pub execute_at: DateTime<Utc>,
    /// From when no attempt starts any more.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub executed_at: Option<DateTime<Utc>>,
    /// What the last attempt failed with.
    pub last_error: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When its row last changed.
    pub updated_at: DateTime<Utc>,
}

/// One attempt of a delivery, as the trigger log holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The log row's number.
    pub id: i64,
    /// The delivery.
    pub delivery_id: ScheduledActionId,
    /// The attempt's number, from 1.
    pub number: i32,
    /// `success` or `error`.
    pub status: String,
    /// The HTTP status of the answer, none without one.
    pub response_status: Option<i16>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<i32>,
    /// A code for what went wrong, for example `timeout`.
    pub reason: Option<String>,
    /// What went wrong, in words.
    pub error_message: Option<String>,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
}
