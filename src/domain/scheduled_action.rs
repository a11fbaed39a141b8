//! A scheduled action: a row of the one queue. Everything that is to be done stands there first.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::delivery::{ActionStatus, Delivery};
use super::id::{
    ApplicationId, BackendId, EventId, LineOaId, OccurrenceId, ProjectId, ScheduledActionId,
    TriggerId, TriggerRuleId, WorkflowId,
};
use super::trigger::Payload;

/// What is to be done, as it was fixed when the work was queued.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionConfig {
    /// Of a trigger's delivery: the callback's body.
    Callback(Payload),
    /// Of everything else: the action's configuration, with nothing left to be rendered.
    Rendered(Value),
}

/// Why the work is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cause {
    /// The rule that queued it.
    pub trigger_rule_id: Option<TriggerRuleId>,
    /// The rule's source type; `workflow` for what a workflow service queued; none of a trigger.
    pub source_type: Option<String>,
    /// The rule's source configuration when it was queued.
    pub source_config: Option<Value>,
    /// The event that it answers.
    pub event_id: Option<EventId>,
    /// What the event was about, for example a booking: a later event about it replaces the work.
    pub subject: Option<String>,
    /// The trigger.
    pub trigger_id: Option<TriggerId>,
    /// The trigger's occurrence.
    pub occurrence_id: Option<OccurrenceId>,
    /// The workflow that it resumes, or that its rule is part of.
    pub workflow_id: Option<WorkflowId>,
    /// The node of the workflow.
    pub workflow_node_path: Option<String>,
}

/// Whom it concerns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Concern {
    /// The project; none of a trigger's delivery, whose application says it.
    pub organization_id: Option<ProjectId>,
    /// The LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// LINE's id of the user.
    pub user_id: Option<String>,
    /// The application whose backends are called.
    pub application_id: Option<ApplicationId>,
    /// The backend; none until a call got its address.
    pub backend_id: Option<BackendId>,
}

/// A row of the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledAction {
    /// The id: of a call of a backend its `webhook-id`, of a LINE message its retry key.
    pub id: ScheduledActionId,
    /// Of a call that went to several backends: the row that it was copied from.
    pub parent_id: Option<ScheduledActionId>,
    /// What is done.
    pub action_type: String,
    /// With which parameters.
    pub config: ActionConfig,
    /// Why.
    pub cause: Cause,
    /// For whom.
    pub concern: Concern,
    /// Work of one lane goes to one place, and shares its slots.
    pub lane: Uuid,
    /// Its state.
    pub status: ActionStatus,
    /// How many attempts have ended.
    pub retry_count: i32,
    /// How many of them came before its budget began.
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

impl ScheduledAction {
    /// What shares the limits of an application: the application itself, or the LINE OA.
    pub fn group(&self) -> Uuid {
        let application = self.concern.application_id.map(Uuid::from);
        application.or(self.concern.line_oa_id.map(Uuid::from)).unwrap_or(self.lane)
    }
}

impl From<Delivery> for ScheduledAction {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            parent_id: None,
            action_type: super::delivery::CALL_BACKEND.to_owned(),
            config: ActionConfig::Callback(delivery.payload),
            cause: Cause {
                trigger_id: Some(delivery.trigger_id),
                occurrence_id: Some(delivery.occurrence_id),
                ..Cause::default()
            },
            concern: Concern {
                application_id: Some(delivery.application_id),
                backend_id: Some(delivery.backend_id),
                ..Concern::default()
            },
            lane: delivery.backend_id.0,
            status: delivery.status,
            retry_count: delivery.retry_count,
            attempts_before: delivery.attempts_before,
            execute_at: delivery.execute_at,
            expires_at: delivery.expires_at,
            executed_at: delivery.executed_at,
            last_error: delivery.last_error,
            created_at: delivery.created_at,
            updated_at: delivery.updated_at,
        }
    }
}
