//! A cycle: one due time of a time-based rule, and how far its audience has been walked.

use chrono::{DateTime, Utc};

use super::id::{AudienceId, CycleId, LineOaId, ProjectId, TriggerRuleId};

/// A cycle's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CycleStatus {
    /// Its audience is being walked.
    Processing,
    /// Every user of the audience was handled.
    Completed,
    /// It could not be walked to the end; `error_message` says why.
    Failed,
    /// Its rule was disabled or deleted while it was walked.
    Cancelled,
}

impl CycleStatus {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Processing, Self::Completed, Self::Failed, Self::Cancelled];

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// One due time of a time-based rule: a row of `scheduled_trigger_execution`, unique by rule and
/// due time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The id.
    pub id: CycleId,
    /// The rule.
    pub trigger_rule_id: TriggerRuleId,
    /// The rule's LINE OA.
    pub line_oa_id: LineOaId,
    /// The rule's project.
    pub organization_id: ProjectId,
    /// The audience that is walked, as the rule named it when the cycle began.
    pub audience_id: AudienceId,
    /// The due time.
    pub scheduled_at: DateTime<Utc>,
    /// When an executor began it.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// Its state.
    pub status: CycleStatus,
    /// How many users the audience had when it began.
    pub total_users: i32,
    /// How many users were handled so far: their action was queued, or held back with its reason.
    pub processed_users: i32,
    /// How many of them could not be handled; the trigger log says why.
    pub failed_users: i32,
    /// The last user that was handled; the walk goes on after it.
    pub cursor: Option<String>,
    /// Why it failed or was cancelled.
    pub error_message: Option<String>,
}
