//! What a dry run tells: each gate with what it saw, and what would be done.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::dry_run::Past;
use crate::domain::delivery::ActionStatus;
use crate::domain::event::Event;
use crate::domain::rule::facts::instant;
use crate::domain::rule::rate::{self, Limit, Rate};
use crate::domain::rule::{Frequency, TriggerRule};
use crate::domain::scheduled_action::ScheduledAction;
use crate::rules::{CompiledRule, Evaluated, Firing, Gate, GateName, Outcome};

/// What would come of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Whether all gates are passed.
    pub would_fire: bool,
    /// The gates in the order in which they are asked. Those that can't be asked are left out.
    pub gates: Vec<TestedGate>,
    /// What is done when it fires; none if that can't be rendered.
    pub action: Option<TestedAction>,
    /// Until when frequency or cooldown hold it back; none: they do not, or for ever.
    pub held_until: Option<DateTime<Utc>>,
    /// What the action's templates speak of and has no value for the event.
    pub without_value: Vec<String>,
}

/// A gate that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedGate {
    /// Its name.
    pub gate: &'static str,
    /// Whether it was passed.
    pub passed: bool,
    /// What it saw, in words.
    pub saw: String,
    /// The reason that the trigger log would hold; none if it was passed.
    pub reason: Option<&'static str>,
}

/// What would be queued.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedAction {
    /// The action's type.
    pub action_type: String,
    /// Its configuration with nothing left to be rendered.
    pub config: Value,
    /// When it would be due.
    pub execute_at: DateTime<Utc>,
    /// From when it would not be done any more; none: when its retries are used up.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Puts together what was asked and what was before.
pub(super) fn told(
    compiled: &CompiledRule,
    (event, past, now): (&Event, &Past, DateTime<Utc>),
    evaluated: &Evaluated,
    rendered: Result<Firing, Outcome>,
) -> DryRun {
    let rule = &compiled.rule;
    let of = |name: GateName| evaluated.gates.iter().find(|gate| gate.name == name).map(asked);
    let condition = of(GateName::Condition)
        .or_else(|| compiled.parts().ok().map(|_| passed("condition", "the rule has none")));
    let replaces = replaces(event, past);
    let audience = past.in_audience.map(audience);
    let mut gates: Vec<_> = [of(GateName::Enabled), of(GateName::Scope), of(GateName::Source)]
        .into_iter()
        .chain([
            audience,
            condition,
            of(GateName::User),
            of(GateName::Expiry),
            Some(action(&rendered)),
        ])
        .chain([subject(event, past), past.has_workflow.map(workflow)])
        .flatten()
        .collect();
    if replaces {
        let saw = "what the rule has queued for an earlier state is replaced, and is not counted";
        gates.extend(["frequency", "cooldown", "waiting"].map(|gate| passed(gate, saw)));
    } else {
        gates.extend([frequency(rule, past, now), cooldown(rule, past, now)]);
        gates.push(waiting(rule, event, past));
    }
    let held_until = match rate::check(rule, past.last_fired_at, now) {
        Rate::Held { until, .. } if !replaces => until,
        _ => None,
    };
    let action = rendered.ok().map(|firing| TestedAction {
        action_type: rule.action_type.clone(),
        config: firing.action_config,
        execute_at: firing.execute_at,
        expires_at: firing.expires_at,
    });
    let would_fire = gates.iter().all(|gate| gate.passed);
    DryRun { would_fire, gates, action, held_until, without_value: Vec::new() }
}

fn passed(gate: &'static str, saw: impl Into<String>) -> TestedGate {
    TestedGate { gate, passed: true, saw: saw.into(), reason: None }
}

fn failed(gate: &'static str, reason: &'static str, saw: impl Into<String>) -> TestedGate {
    TestedGate { gate, passed: false, saw: saw.into(), reason: Some(reason) }
}

fn asked(gate: &Gate) -> TestedGate {
    let reason = (!gate.passed).then(|| gate.name.reason());
    let (gate, passed, saw) = (gate.name.as_str(), gate.passed, gate.saw.clone().into_owned());
    TestedGate { gate, passed, saw, reason }
}

fn audience(is_in: bool) -> TestedGate {
    match is_in {
        true => passed("audience", "the user is in the rule's audience"),
        false => {
            let saw = "the user is not in the rule's audience, whose members alone it is due for";
            failed("audience", "audience", saw)
        }
    }
}

/// Whether an event that has a subject comes too late.
fn subject(event: &Event, past: &Past) -> Option<TestedGate> {
    let subject = event.subject.as_deref()?;
    Some(if past.stale {
        let saw = format!("a later event about {subject} has come already");
        failed("subject", "superseded", saw)
    } else {
        passed("subject", format!("no later event about {subject} has come"))
    })
}

/// Whether the firing stands in the place of one that waits because of an earlier event about the
/// same, and was not attempted yet: rate control has counted it then.
fn replaces(event: &Event, past: &Past) -> bool {
    past.waiting.iter().any(|action| {
        let fresh = action.retry_count == 0;
        action.status == ActionStatus::Pending && fresh && is_taken_back(action, event, past)
    })
}

/// Whether the event takes open work back, attempted or not: it is about the same.
fn is_taken_back(action: &ScheduledAction, event: &Event, past: &Past) -> bool {
    !past.stale && event.subject.is_some() && action.cause.subject == event.subject
}

fn frequency(rule: &TriggerRule, past: &Past, now: DateTime<Utc>) -> TestedGate {
    let alone = TriggerRule { cooldown_seconds: 0, ..rule.clone() };
    limited(Limit::Frequency, rule.frequency.as_str().to_owned(), (&alone, past, now))
}

fn cooldown(rule: &TriggerRule, past: &Past, now: DateTime<Utc>) -> TestedGate {
    let alone = TriggerRule { frequency: Frequency::EveryTime, ..rule.clone() };
    limited(Limit::Cooldown, format!("{} s", rule.cooldown_seconds), (&alone, past, now))
}

/// One of the two limits by itself.
fn limited(
    limit: Limit,
    what: String,
    (alone, past, now): (&TriggerRule, &Past, DateTime<Utc>),
) -> TestedGate {
    let name = limit.as_str();
    let fired = match past.last_fired_at {
        Some(at) => format!("last fired at {}", instant(at)),
        None => "never fired before".to_owned(),
    };
    match rate::check(alone, past.last_fired_at, now) {
        Rate::Allowed => passed(name, format!("{what}; {fired}")),
        Rate::Held { until: Some(until), .. } => {
            failed(name, name, format!("{what}; {fired}; held until {}", instant(until)))
        }
        Rate::Held { until: None, .. } => {
            failed(name, name, format!("{what}; {fired}; held for ever"))
        }
    }
}

fn waiting(rule: &TriggerRule, event: &Event, past: &Past) -> TestedGate {
    match past.waiting.iter().find(|action| !is_taken_back(action, event, past)) {
        None => passed("waiting", "no action of the rule waits for the user"),
        Some(_) if !rule.is_limited() => {
            passed("waiting", "an action waits; every_time without cooldown does not mind")
        }
        Some(action) => {
            let due = instant(action.execute_at);
            failed("waiting", "waiting", format!("an action waits for the user, due at {due}"))
        }
    }
}

fn action(rendered: &Result<Firing, Outcome>) -> TestedGate {
    match rendered {
        Ok(_) => passed("action", "it could be rendered"),
        Err(Outcome::Failed { reason, message }) => failed("action", reason, message.as_str()),
        // Nothing else leaves a firing out where all gates are asked.
        Err(_) => failed("action", "not_rendered", "it could not be rendered"),
    }
}

fn workflow(is_there: bool) -> TestedGate {
    match is_there {
        true => passed("workflow", "the rule's workflow is there"),
        false => failed("workflow", "workflow_deleted", "the rule's workflow was deleted"),
    }
}
