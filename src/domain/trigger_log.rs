//! The trigger log of rules: what was evaluated and done, and why not. (The audit log says who
//! changed what.)

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::id::{
    ApplicationId, AudienceId, BackendId, EventId, LineOaId, ProjectId, ScheduledActionId,
    TriggerRuleId,
};

/// The source type of time-based rules: rows of it are about a cycle, not an event.
pub const SCHEDULE: &str = "schedule";

/// What a row of the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStatus {
    /// The rule accepted the event; its action is queued.
    Queued,
    /// The rule did not accept it; the reason is the gate that held it back.
    HeldBack,
    /// The rule accepted it, but its action could not be made.
    Failed,
    /// Due times were not worked off.
    Skipped,
    /// An attempt succeeded.
    Success,
    /// An attempt did not.
    Error,
}

impl LogStatus {
    const ALL: [Self; 6] =
        [Self::Queued, Self::HeldBack, Self::Failed, Self::Skipped, Self::Success, Self::Error];

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::HeldBack => "held_back",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Success => "success",
            Self::Error => "error",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// A row of the log that a rule, or a workflow service, caused.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerLog {
    /// The row's number.
    pub id: i64,
    /// The rule; none of what a workflow service queued.
    pub trigger_rule_id: Option<TriggerRuleId>,
    /// The LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// The project.
    pub organization_id: Option<ProjectId>,
    /// The audience whose walk caused it.
    pub audience_id: Option<AudienceId>,
    /// LINE's id of the user.
    pub user_id: Option<String>,
    /// The source type, or `workflow`.
    pub trigger_on: String,
    /// The action's type, as it was.
    pub action_type: Option<String>,
    /// The action's configuration, as it was.
    pub action_config: Option<Value>,
    /// What happened.
    pub status: LogStatus,
    /// A code for why: the gate that held it back, or what went wrong.
    pub reason: Option<String>,
    /// Why, in words.
    pub error_message: Option<String>,
    /// Until when it was held back, where that is known.
    pub held_until: Option<DateTime<Utc>>,
    /// The event; of the walk of a cycle the cycle's id.
    pub event_id: Option<EventId>,
    /// The work.
    pub scheduled_action_id: Option<ScheduledActionId>,
    /// The application whose backend was called.
    pub application_id: Option<ApplicationId>,
    /// The backend that was called.
    pub backend_id: Option<BackendId>,
    /// The attempt's number, from 1.
    pub attempt: Option<i32>,
    /// The HTTP status of the answer.
    pub response_status: Option<i16>,
    /// How long the attempt took, in milliseconds.
    pub duration_ms: Option<i32>,
    /// What the LINE platform calls the request.
    pub platform_request_id: Option<String>,
    /// When.
    pub created_date: DateTime<Utc>,
}
