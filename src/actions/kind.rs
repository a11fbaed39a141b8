//! Action types as whoever looks them up by name sees them: without their Rust types.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{Action, Doing, Needs, Preparing, Timing, Work};
use crate::domain::rule::config;
use crate::domain::rule::misfit::Misfit;

const CONFIG: &str = "actionConfig";

/// The largest configuration, in bytes of JSON.
const CONFIG_MAX: usize = 100 * 1024;

/// An action type.
pub struct ActionType {
    /// The name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub description: &'static str,
    /// Whether it can't be done without a user.
    pub needs_user: bool,
    config_schema: fn() -> Value,
    parse_config: fn(&Value) -> Result<ParsedAction, Misfit>,
    doing: fn(&Value, &Work) -> Result<Doing, String>,
}

impl ActionType {
    pub(super) const fn of<A: Action>() -> Self {
        Self {
            name: A::TYPE,
            description: A::DESCRIPTION,
            needs_user: A::NEEDS_USER,
            config_schema: config::schema::<A, Timing>,
            parse_config: parse::<A>,
            doing: A::doing,
        }
    }

    /// The JSON Schema of a rule's `actionConfig`.
    pub fn config_schema(&self) -> Value {
        (self.config_schema)()
    }

    /// Reads a rule's configuration.
    ///
    /// # Errors
    /// The path, such as `actionConfig.messages[0].text`, of what does not fit, and what would.
    pub fn parse_config(&self, config: &Value) -> Result<ParsedAction, Misfit> {
        (self.parse_config)(config)
    }

    /// What is to be done, from what was queued: `rendered` is `scheduled_action.action_config`.
    /// The same on every attempt.
    ///
    /// # Errors
    /// A sentence, if the row does not hold what it must; another attempt would fail alike.
    pub fn doing(&self, rendered: &Value, work: &Work) -> Result<Doing, String> {
        (self.doing)(rendered, work)
    }
}

impl fmt::Debug for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActionType").field(&self.name).finish()
    }
}

fn parse<A: Action>(value: &Value) -> Result<ParsedAction, Misfit> {
    if value.to_string().len() > CONFIG_MAX {
        return Err(Misfit::new(CONFIG, "must have at most 100 KiB"));
    }
    let (action, timing) = config::read::<A, Timing>(CONFIG, value)?;
    action.check().map_err(|misfit| misfit.below(CONFIG))?;
    timing.check().map_err(|misfit| misfit.below(CONFIG))?;
    let config = config::write(&action, &timing).map_err(|misfit| misfit.below(CONFIG))?;
    Ok(ParsedAction {
        action_type: A::TYPE,
        needs_user: A::NEEDS_USER,
        needs: action.needs(),
        config,
        timing,
        action: Arc::new(action),
    })
}

/// A rule's action configuration, understood.
pub struct ParsedAction {
    /// The action type.
    pub action_type: &'static str,
    /// Whether it can't be done without a user.
    pub needs_user: bool,
    /// What it refers to.
    pub needs: Needs,
    /// The configuration as it is stored: camelCase, complete.
    pub config: Value,
    /// When it is due, and until when it may be late.
    pub timing: Timing,
    action: Arc<dyn Prepare>,
}

impl ParsedAction {
    /// The configuration with nothing left to be rendered: what is queued.
    ///
    /// # Errors
    /// The path, such as `actionConfig.messages[0].text`, of what could not be rendered, and why.
    pub fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit> {
        self.action.prepare(firing).map_err(|misfit| misfit.below(CONFIG))
    }
}

impl fmt::Debug for ParsedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (self.action_type, &self.config);
        f.debug_tuple("ParsedAction").field(&shown).finish()
    }
}

/// [`Action`] without its type.
trait Prepare: Send + Sync {
    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit>;
}

impl<A: Action> Prepare for A {
    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit> {
        Action::prepare(self, firing)
    }
}
