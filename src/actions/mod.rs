//! Actions: what a rule can do.
//!
//! An action type is typed inside and text outside: a file with a configuration and an
//! `impl Action`, and one line in [`ALL`]. Whoever looks one up by its name gets an [`ActionType`],
//! which knows no types. An action does nothing itself: it says what is to be done, as a
//! [`Doing`], from what was fixed when the work was queued and nothing else, so that every attempt
//! does the same. Nothing here stores, sends or asks for the time.

mod add_to_audience;
mod call_backend;
mod kind;
mod resume_workflow;
mod send_message;
mod switch_rich_menu;
mod timing;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::add_to_audience::AddToAudience;
pub use self::call_backend::CallBackend;
pub use self::kind::{ActionType, ParsedAction};
pub use self::resume_workflow::ResumeWorkflow;
pub use self::send_message::SendMessage;
pub use self::switch_rich_menu::SwitchRichMenu;
pub use self::timing::Timing;
use crate::domain::id::{
    ApplicationId, AudienceId, EventId, LineOaId, ScheduledActionId, TriggerRuleId, WorkflowId,
};
use crate::domain::line::LineCall;
use crate::domain::rule::TriggerRule;
use crate::domain::rule::facts::Facts;
use crate::domain::rule::misfit::{Misfit, cut};
use crate::error::{Error, Result as Answer};

/// Each of the action types, in the order in which they are shown.
pub static ALL: &[ActionType] = &[
    ActionType::of::<SendMessage>(),
    ActionType::of::<AddToAudience>(),
    ActionType::of::<SwitchRichMenu>(),
    ActionType::of::<ResumeWorkflow>(),
    ActionType::of::<CallBackend>(),
];

/// The action type of that name.
///
/// # Errors
/// `UNKNOWN_ACTION_TYPE` on `actionType`, with the names that are known.
pub fn find(name: &str) -> Answer<&'static ActionType> {
    ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|kind| kind.name).collect();
        let reason =
            format!("actionType must be one of {}; `{}` is not", known.join(", "), cut(name, 50));
        Error::invalid_code("UNKNOWN_ACTION_TYPE", "actionType", reason)
    })
}

/// A type of action: its value is a rule's configuration, in camelCase.
pub trait Action: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The name.
    const TYPE: &'static str;
    /// What it does, in a sentence.
    const DESCRIPTION: &'static str;
    /// Whether it can't be done without a user.
    const NEEDS_USER: bool;

    /// Checks what the types do not say. Paths begin below the configuration.
    fn check(&self) -> Result<(), Misfit> {
        Ok(())
    }

    /// What it refers to.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The configuration with nothing left to be rendered: what is queued. It holds all that
    /// [`Action::doing`] needs and the queue's row has not.
    ///
    /// # Errors
    /// The path, below the configuration, of what could not be rendered, and why.
    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit>;

    /// What is to be done. A pure function of the queue's row: the same on every attempt.
    ///
    /// # Errors
    /// A sentence, if the row does not hold what it must; another attempt would fail alike.
    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String>;
}

/// What an action refers to: whoever saves a rule makes sure that it lies in the rule's scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// An audience of the rule's LINE OA.
    pub audience_id: Option<AudienceId>,
    /// An application of the rule's project.
    pub application_id: Option<ApplicationId>,
    /// Whether the rule must name a workflow and a node in it.
    pub workflow: bool,
}

/// What an action is prepared from.
pub struct Preparing<'a> {
    /// The facts.
    pub facts: &'a Facts<'a>,
    /// The rule.
    pub rule: &'a TriggerRule,
    /// When it is due.
    pub execute_at: DateTime<Utc>,
}

/// What the queue's row holds beside the configuration, and what stays the same on every attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// The row: of a message its retry key.
    pub action_id: ScheduledActionId,
    /// The LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// LINE's id of the user.
    pub user_id: Option<String>,
    /// The rule that queued it.
    pub rule_id: Option<TriggerRuleId>,
    /// The event that it answers.
    pub event_id: Option<EventId>,
    /// The workflow.
    pub workflow_id: Option<WorkflowId>,
    /// The node of the workflow.
    pub workflow_node_path: Option<String>,
}

impl Work {
    fn user(&self) -> Result<String, String> {
        self.user_id.clone().ok_or_else(|| "there is no user to do this for".to_owned())
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Doing {
    /// One call of the LINE platform.
    Line(LineCall),
    /// The same body to each active backend of an application.
    Backends {
        /// The application, if the configuration names it; otherwise it is the workflow's, which
        /// the queue's row names.
        application_id: Option<ApplicationId>,
        /// The body.
        body: Value,
    },
    /// A change in our own database, in the transaction that ends the work.
    Store(Effect),
}

/// A change in our own database. Made twice it is made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Puts a user into an audience.
    AddToAudience {
        /// The audience.
        audience_id: AudienceId,
        /// LINE's id of the user.
        user_id: String,
    },
}

/// Reads what was queued.
fn stored<T: DeserializeOwned>(rendered: &Value) -> Result<T, String> {
    T::deserialize(rendered).map_err(|error| format!("what was queued can't be read: {error}"))
}
