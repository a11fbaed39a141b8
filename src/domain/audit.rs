//! The audit log: who changed what. (What the server did on its own account stands in the trigger log.)

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::access::Actor;
use super::id::{ApplicationId, AuditLogId, ProjectId};

/// One change, to be written in the change's own transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// `noun.verb`, for example `trigger.update`.
    pub action: &'static str,
    /// The noun.
    pub entity_type: &'static str,
    /// Which one.
    pub entity_id: Uuid,
    /// The project it belongs to, if to one.
    pub project_id: Option<ProjectId>,
    /// The application it belongs to, if to one.
    pub application_id: Option<ApplicationId>,
    /// How it was; none when it was made.
    pub before: Option<Value>,
    /// How it is; none when it was deleted.
    pub after: Option<Value>,
}

/// Who makes the change, and in which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub actor: Actor,
    /// The request's id, which log lines and error answers carry too.
    pub request_id: Option<String>,
}

impl Caller {
    /// The server itself.
    pub fn system() -> Self {
        Self { actor: Actor::System, request_id: None }
    }
}

/// A row of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLog {
    /// The id, in the order of writing.
    pub id: AuditLogId,
    /// When.
    pub at: DateTime<Utc>,
    /// `user`, `machine_user` or `system`.
    pub actor_type: String,
    /// Who, none for the system.
    pub actor_id: Option<Uuid>,
    /// The actor's name at that time.
    pub actor_name: String,
    /// `noun.verb`.
    pub action: String,
    /// The noun.
    pub entity_type: String,
    /// Which one.
    pub entity_id: Uuid,
    /// The project, if it belongs to one.
    pub project_id: Option<ProjectId>,
    /// The application, if it belongs to one.
    pub application_id: Option<ApplicationId>,
    /// How it was.
    pub before: Option<Value>,
    /// How it became.
    pub after: Option<Value>,
    /// The request's id.
    pub request_id: Option<String>,
}
