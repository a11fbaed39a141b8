//! What a piece of claimed work asks for, and where that leads.

use bytes::Bytes;

use crate::actions::{self, Doing, Effect, Work};
use crate::domain::id::{ApplicationId, BackendId, LineOaId};
use crate::domain::line::LineCall;
use crate::domain::scheduled_action::{ActionConfig, ScheduledAction};

/// What is to be done.
pub(super) enum Job {
    /// A call of a backend with this body, the same bytes on every attempt.
    Call { backend: BackendId, body: Bytes },
    /// A call of an application's backends, which has to find out which those are.
    Address(ApplicationId),
    /// A call of the LINE platform.
    Line { line_oa: LineOaId, call: LineCall },
    /// A change in our own database.
    Store(Effect),
    /// It can't be read, and why.
    Broken(String),
}

/// Where a job leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Backend(BackendId),
    Application(ApplicationId),
    LineOa(LineOaId),
    /// Our own database, or nowhere.
    Here,
}

impl Job {
    /// Reads what `action` asks for.
    pub fn of(action: &ScheduledAction) -> Self {
        Self::read(action).unwrap_or_else(Self::Broken)
    }

    fn read(action: &ScheduledAction) -> Result<Self, String> {
        let config = match &action.config {
            ActionConfig::Callback(payload) => {
                let body = serde_json::to_vec(payload).map_err(|error| error.to_string())?;
                return Self::call(action, Bytes::from(body));
            }
            ActionConfig::Rendered(config) => config,
        };
        let kind = actions::find(&action.action_type).map_err(|error| error.to_string())?;
        match kind.doing(config, &known(action))? {
            Doing::Line(call) => {
                let line_oa = action.concern.line_oa_id.ok_or("it names no LINE OA")?;
                Ok(Self::Line { line_oa, call })
            }
            Doing::Backends { body, .. } => {
                let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
                Self::call(action, Bytes::from(body))
            }
            Doing::Store(effect) => Ok(Self::Store(effect)),
        }
    }

    fn call(action: &ScheduledAction, body: Bytes) -> Result<Self, String> {
        if let Some(backend) = action.concern.backend_id {
            return Ok(Self::Call { backend, body });
        }
        let application = action.concern.application_id.ok_or("it names no application")?;
        Ok(Self::Address(application))
    }

    /// Where it leads.
    pub fn place(&self) -> Place {
        match self {
            Self::Call { backend, .. } => Place::Backend(*backend),
            Self::Address(application) => Place::Application(*application),
            Self::Line { line_oa, .. } => Place::LineOa(*line_oa),
            Self::Store(_) | Self::Broken(_) => Place::Here,
        }
    }
}

/// What an action may look at beside its configuration.
fn known(action: &ScheduledAction) -> Work {
    Work {
        action_id: action.id,
        line_oa_id: action.concern.line_oa_id,
        user_id: action.concern.user_id.clone(),
        rule_id: action.cause.trigger_rule_id,
        event_id: action.cause.event_id,
        workflow_id: action.cause.workflow_id,
        workflow_node_path: action.cause.workflow_node_path.clone(),
    }
}
