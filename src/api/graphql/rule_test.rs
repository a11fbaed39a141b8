//! Dry runs of trigger rules.

use async_graphql::{Context, ID, InputObject, Json, Object, SimpleObject};
use serde_json::Value;

use super::context::{app, scope};
use super::rule_input::CreateTriggerRuleInput;
use super::time::DateTime;
use crate::app::{DryRun, RuleToTest, SampleEvent};
use crate::domain::id::TriggerRuleId;
use crate::error::{Error, Result};

/// An event to try a rule on. It is not stored.
#[derive(InputObject)]
pub struct SampleEventInput {
    /// Its type, for example `form_submitted`; none: what the rule waits for.
    #[graphql(name = "type")]
    kind: Option<String>,
    /// LINE's id of the user that it happens to: `U` and 32 lower-case hexadecimal digits. The user
    /// need not be known.
    user_id: Option<String>,
    /// When it happens; none: now.
    occurred_at: Option<DateTime>,
    /// What it brings, as its type asks for; none: an empty object, and for a rule by the schedule
    /// what its cycles bring.
    payload: Option<Json<Value>>,
}

impl From<SampleEventInput> for SampleEvent {
    fn from(input: SampleEventInput) -> Self {
        Self {
            event_type: input.kind,
            user_id: input.user_id,
            occurred_at: input.occurred_at.map(Into::into),
            payload: input.payload.map(|Json(payload)| payload),
        }
    }
}

/// What a rule would make of an event.
#[derive(SimpleObject)]
pub struct TriggerRuleTest {
    /// Whether it would fire: all gates are passed.
    would_fire: bool,
    /// The gates in the order in which they are asked, also those behind one that is not passed.
    /// One that can't be asked is left out.
    gates: Vec<TriggerRuleTestGate>,
    /// What is done when it fires, also where a gate holds it back now; none if that can't be
    /// rendered.
    action: Option<TriggerRuleTestAction>,
    /// Until when frequency or cooldown hold it back; none: they do not, or for ever.
    held_until: Option<DateTime>,
    /// What the action's templates speak of and has no value for the event, for example
    /// `user.attributes.nick`: it renders as nothing, or as its `default`. Each once. Names
    /// that are written with dots alone: what stands in brackets, and the parts of what a loop goes
    /// through, are not looked at.
    without_value: Vec<String>,
}

/// A gate that a firing must pass.
#[derive(SimpleObject)]
pub struct TriggerRuleTestGate {
    /// `enabled`, `scope`, `source`, `audience` (of a rule by the schedule, where the event names a
    /// user), `condition`, `user` (where the action needs one), `expiry`,
    /// `action` (whether it can be rendered), `subject` (where a later event about the same would
    /// replace this one), `workflow` (where the rule resumes one), `frequency`, `cooldown`, or
    /// `waiting` (whether an action of the rule waits for the user).
    gate: String,
    /// Whether it is passed.
    passed: bool,
    /// What it saw, in words.
    saw: String,
    /// The reason that the trigger log would hold, for example `frequency`; none if it is passed.
    /// Of a real event `disabled` and `scope` are never logged: it does not meet such a rule; nor is
    /// `audience`: a cycle goes through the members alone.
    reason: Option<String>,
}

/// What would be queued.
#[derive(SimpleObject)]
pub struct TriggerRuleTestAction {
    /// The action's type.
    #[graphql(name = "type")]
    kind: String,
    /// Its configuration with nothing left to be rendered.
    config: Json<Value>,
    /// When it would be due.
    execute_at: DateTime,
    /// From when it would not be done any more; none: when its retries are used up.
    expires_at: Option<DateTime>,
}

impl From<DryRun> for TriggerRuleTest {
    fn from(run: DryRun) -> Self {
        Self {
            would_fire: run.would_fire,
            gates: run
                .gates
                .into_iter()
                .map(|gate| TriggerRuleTestGate {
                    gate: gate.gate.to_owned(),
                    passed: gate.passed,
                    saw: gate.saw,
                    reason: gate.reason.map(str::to_owned),
                })
                .collect(),
            action: run.action.map(|action| TriggerRuleTestAction {
                kind: action.action_type,
                config: Json(action.config),
                execute_at: action.execute_at.into(),
                expires_at: action.expires_at.map(Into::into),
            }),
            held_until: run.held_until.map(Into::into),
            without_value: run.without_value,
        }
    }
}

/// Queries that try rules.
#[derive(Default)]
pub struct TriggerRuleTestQuery;

#[Object]
impl TriggerRuleTestQuery {
    /// What a trigger rule would make of an event, gate by gate, and the action as it would be
    /// queued. Nothing is stored, queued, sent or counted. Either `id` or `input` is given.
    async fn test_trigger_rule(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A rule that is there, as it is.")] id: Option<ID>,
        #[graphql(desc = "A rule that is not saved, as if it were and were enabled.")]
        input: Option<CreateTriggerRuleInput>,
        #[graphql(desc = "The event. May be left out for a rule by the schedule.")] event: Option<
            SampleEventInput,
        >,
    ) -> Result<TriggerRuleTest> {
        let scope = scope(ctx)?;
        let rule = match (id, input) {
            (Some(id), None) => RuleToTest::Saved(TriggerRuleId::parse(&id)?),
            (None, Some(input)) => RuleToTest::New(Box::new(input.read()?)),
            _ => return Err(Error::invalid("id", "give either id or input, not both")),
        };
        let run = app(ctx).test_trigger_rule(scope, rule, event.map(Into::into)).await?;
        Ok(run.into())
    }
}
