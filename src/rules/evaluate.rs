//! What comes of an event and a rule.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{CompiledRule, Parts};
use crate::actions::Preparing;
use crate::domain::cron::Zone;
use crate::domain::event::Event;
use crate::domain::id::{ApplicationId, WorkflowId};
use crate::domain::line::LineUser;
use crate::domain::rule::facts::Facts;
use crate::domain::rule::template;
use crate::sources::ParsedPayload;

/// An event with all that its rules look at. Made once an event; the forms that conditions and
/// templates need are made at their first use.
pub struct Occasion<'a> {
    event: &'a Event,
    payload: &'a ParsedPayload,
    zone: &'a Zone,
    facts: Facts<'a>,
}

impl<'a> Occasion<'a> {
    /// The occasion of an event. `user` is the event's user, if known; `zone` is the server's.
    pub fn new(
        event: &'a Event,
        payload: &'a ParsedPayload,
        user: Option<&'a LineUser>,
        now: DateTime<Utc>,
        zone: &'a Zone,
    ) -> Self {
        let facts = Facts::new(event, payload.normal(&event.payload), user, now);
        Self { event, payload, zone, facts }
    }

    /// What the templates of an action's configuration speak of and has no value here, for example
    /// `user.attributes.nick`: it renders as nothing, or as its default.
    pub fn without_value(&self, action_config: &Value) -> Vec<String> {
        template::without_value(action_config, &self.facts)
    }
}

/// A question that a firing must pass, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateName {
    /// Whether the rule is enabled and not deleted.
    Enabled,
    /// Whether the event is of the rule's LINE OA.
    Scope,
    /// Whether the event is what the source waits for.
    Source,
    /// Whether the condition is true.
    Condition,
    /// Whether there is a user, where the action needs one.
    User,
    /// Whether its time is still to come.
    Expiry,
}

impl GateName {
    /// The name that dry runs show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Scope => "scope",
            Self::Source => "source",
            Self::Condition => "condition",
            Self::User => "user",
            Self::Expiry => "expiry",
        }
    }

    /// The reason that the trigger log holds where it was not passed.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Enabled => "disabled",
            Self::User => "no_user",
            Self::Expiry => "expired",
            other => other.as_str(),
        }
    }
}

/// A gate that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Which one.
    pub name: GateName,
    /// Whether it was passed.
    pub passed: bool,
    /// What was seen, in words.
    pub saw: Cow<'static, str>,
}

/// What is to be queued.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// When it is due; may lie in the past.
    pub execute_at: DateTime<Utc>,
    /// From when it is not done any more.
    pub expires_at: Option<DateTime<Utc>>,
    /// The action's configuration, with nothing left to be rendered.
    pub action_config: Value,
    /// The rule's workflow.
    pub workflow_id: Option<WorkflowId>,
    /// The rule's node of the workflow.
    pub workflow_node_path: Option<String>,
    /// The application whose backends are called, if the action names it.
    pub application_id: Option<ApplicationId>,
    /// What the event is about: the rule's pending work about the same is replaced.
    pub subject: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A gate held it back.
    HeldBack {
        /// The first gate that was not passed.
        gate: GateName,
        /// What was seen, in words.
        reason: String,
    },
    /// It should have fired and could not.
    Failed {
        /// A code: `no_user`, `rule_invalid`, `not_rendered` or `too_costly`.
        reason: &'static str,
        /// What went wrong, in words.
        message: String,
    },
    /// It fires, as far as rate control lets it.
    Ready(Firing),
}

/// The gates that were asked, up to the first that was not passed, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// The gates.
    pub gates: Vec<Gate>,
    /// The outcome.
    pub outcome: Outcome,
    /// What it cost, at the most: 1 is about a step of an interpreter.
    pub cost: usize,
}

/// Asks each gate in turn and, if all are passed, renders what is to be queued. Depends on nothing
/// but its arguments: an event that is evaluated twice gives the same twice.
pub fn evaluate(rule: &CompiledRule, occasion: &Occasion<'_>) -> Evaluated {
    let mut asked = Asked::new(false);
    let outcome = match gated(rule, occasion, &mut asked) {
        Ok(firing) => Outcome::Ready(firing),
        Err(outcome) => *outcome,
    };
    Evaluated { gates: asked.gates, outcome, cost: asked.cost }
}

/// [`evaluate`] for a dry run: the same gates and the same outcome, but each gate that can be asked
/// is asked, also behind one that was not passed. Answers beside it what would have been queued if
/// all had been passed, or the failure that left nothing to be queued.
pub fn examine(
    rule: &CompiledRule,
    occasion: &Occasion<'_>,
) -> (Evaluated, Result<Firing, Box<Outcome>>) {
    let mut asked = Asked::new(true);
    let rendered = gated(rule, occasion, &mut asked);
    let outcome = match (asked.first, &rendered) {
        (Some(outcome), _) => *outcome,
        (None, Err(outcome)) => (**outcome).clone(),
        (None, Ok(firing)) => Outcome::Ready(firing.clone()),
    };
    (Evaluated { gates: asked.gates, outcome, cost: asked.cost }, rendered)
}

/// What it costs to ask those gates that compute nothing.
const GATES_COST: usize = 50;

/// The gates that were asked.
struct Asked {
    gates: Vec<Gate>,
    /// What the first gate that was not passed comes to.
    first: Option<Box<Outcome>>,
    /// Whether to go on behind it.
    all: bool,
    cost: usize,
}

impl Asked {
    fn new(all: bool) -> Self {
        Self { gates: Vec::with_capacity(6), first: None, all, cost: GATES_COST }
    }

    fn ask(&mut self, name: GateName, answer: Answer) -> Result<(), Box<Outcome>> {
        let passed = answer.is_ok();
        let saw = answer.unwrap_or_else(Cow::Owned);
        self.gates.push(Gate { name, passed, saw: saw.clone() });
        let outcome = match (passed, name) {
            (true, _) => return Ok(()),
            (false, GateName::User) => failed(name.reason(), saw),
            (false, gate) => Box::new(Outcome::HeldBack { gate, reason: saw.into_owned() }),
        };
        if !self.all {
            return Err(outcome);
        }
        self.first.get_or_insert(outcome);
        Ok(())
    }
}

fn gated(
    rule: &CompiledRule,
    occasion: &Occasion<'_>,
    asked: &mut Asked,
) -> Result<Firing, Box<Outcome>> {
    asked.ask(GateName::Enabled, enabled(rule))?;
    asked.ask(GateName::Scope, scope(rule, occasion))?;
    let parts = rule.parts().map_err(|misfit| failed("rule_invalid", misfit))?;
    asked.ask(GateName::Source, source(parts, occasion))?;
    if let Some(condition) = &parts.source.condition {
        asked.cost += condition.cost(&occasion.facts);
        let answer = match condition.evaluate(&occasion.facts) {
            Ok(true) => Ok("it is true".into()),
            Ok(false) => Err("it is false".to_owned()),
            Err(reason) => Err(reason),
        };
        asked.ask(GateName::Condition, answer)?;
    }
    if parts.action.needs_user {
        asked.ask(GateName::User, user(parts, occasion))?;
    }
    let (execute_at, expires_at, answer) = timing(parts, occasion);
    asked.ask(GateName::Expiry, answer)?;
    asked.cost += parts.rendering_cost;
    let firing = Preparing { facts: &occasion.facts, rule: &rule.rule, execute_at };
    let action_config =
        parts.action.prepare(&firing).map_err(|misfit| failed("not_rendered", misfit))?;
    Ok(Firing {
        execute_at,
        expires_at,
        action_config,
        workflow_id: rule.rule.workflow_id,
        workflow_node_path: rule.rule.workflow_node_path.clone(),
        application_id: parts.action.needs.application_id,
        subject: occasion.payload.subject.clone(),
    })
}

fn failed(reason: &'static str, message: impl ToString) -> Box<Outcome> {
    Box::new(Outcome::Failed { reason, message: message.to_string() })
}

type Answer = Result<Cow<'static, str>, String>;

fn enabled(rule: &CompiledRule) -> Answer {
    match (rule.rule.enabled, rule.rule.deleted_date) {
        (_, Some(_)) => Err("the rule is deleted".to_owned()),
        (false, None) => Err("the rule is disabled".to_owned()),
        (true, None) => Ok("the rule is enabled".into()),
    }
}

fn scope(rule: &CompiledRule, occasion: &Occasion<'_>) -> Answer {
    let same = rule.rule.line_oa_id == occasion.event.line_oa_id
        && rule.rule.organization_id == occasion.event.organization_id;
    if same {
        Ok("the same LINE OA".into())
    } else {
        Err("the event is of another LINE OA".to_owned())
    }
}

fn source(parts: &Parts, occasion: &Occasion<'_>) -> Answer {
    if occasion.event.event_type != parts.source.source_type {
        let seen = &occasion.event.event_type;
        return Err(format!("the event is a {seen}, not a {}", parts.source.source_type));
    }
    parts.source.matches(occasion.payload).map(|()| "the event is what it waits for".into())
}

fn user(parts: &Parts, occasion: &Occasion<'_>) -> Answer {
    match occasion.event.user_id {
        Some(_) => Ok("the event has a user".into()),
        None => Err(format!("{} needs a user, and the event has none", parts.action.action_type)),
    }
}

/// When it is due and when it expires, and whether it is too late. A moment that was named by the
/// event must not have passed when the event came in: a reminder of what has begun helps nobody.
fn timing(
    parts: &Parts,
    occasion: &Occasion<'_>,
) -> (DateTime<Utc>, Option<DateTime<Utc>>, Answer) {
    let (event, now) = (occasion.event, occasion.facts.now());
    let moment = parts.source.due_at(occasion.payload);
    let timing = &parts.action.timing;
    // A cycle's users count from its due time, whenever their turn comes.
    let base = parts.source.timetable.as_ref().map_or(now, |_| event.occurred_at);
    let execute_at = timing.due(moment.unwrap_or(base), occasion.zone);
    let expires_at = timing.expires_at(execute_at);
    let shown = |at: DateTime<Utc>| crate::domain::rule::facts::instant(at);
    let answer = match (moment, expires_at) {
        (Some(moment), _) if moment < event.received_at => {
            let came = shown(event.received_at);
            Err(format!("its moment, {}, had passed when the event came, {came}", shown(moment)))
        }
        (_, Some(expired)) if expired <= now => {
            Err(format!("it was due at {} and expired at {}", shown(execute_at), shown(expired)))
        }
        _ => Ok("its time is still to come".into()),
    };
    (execute_at, expires_at, answer)
}
