//! Dry runs: what a rule would make of an event, gate by gate. Nothing is written.
//!
//! The gates are those of [`rules`](crate::rules), asked by the code that asks them for real events;
//! what rate control remembers and what waits is read beside them.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::CreateTriggerRule;
use super::tested::{DryRun, told};
use crate::app::App;
use crate::app::event::{checked_payload, within_range};
use crate::domain::access::Scope;
use crate::domain::delivery::ActionStatus;
use crate::domain::event::{Event, EventOrigin, EventStatus};
use crate::domain::id::{EventId, TriggerRuleId};
use crate::domain::line::{LineUser, user_id};
use crate::domain::page::{Direction, PageRequest};
use crate::domain::scheduled_action::ScheduledAction;
use crate::error::{Error, Result};
use crate::rules::{CompiledRule, Occasion, examine};
use crate::sources::{self, ParsedPayload, SourceType, Timetable};
use crate::store::{audience, event, line, rule, scheduled_action, workflow};

/// The rule that is tried.
#[derive(Debug, Clone)]
pub enum RuleToTest {
    /// One that is there, as it is.
    Saved(TriggerRuleId),
    /// One that is not saved, as if it were and were enabled.
    New(Box<CreateTriggerRule>),
}

/// The event that it is tried on.
#[derive(Debug, Clone, Default)]
pub struct SampleEvent {
    /// Its type; none: what the rule waits for.
    pub event_type: Option<String>,
    /// LINE's id of the user, who need not be known.
    pub user_id: Option<String>,
    /// When it happened; none: now.
    pub occurred_at: Option<DateTime<Utc>>,
    /// What it brings; none: an empty object, and of a time-based rule what its cycles bring.
    pub payload: Option<Value>,
}

/// What was before the event.
#[derive(Default)]
pub(super) struct Past {
    /// The event's user, if known.
    pub(super) user: Option<LineUser>,
    /// When the rule last fired for the user.
    pub(super) last_fired_at: Option<DateTime<Utc>>,
    /// The rule's open work for the user.
    pub(super) waiting: Vec<ScheduledAction>,
    /// Whether the user is in the audience of a time-based rule; none: any user may do, or no user
    /// is named.
    pub(super) in_audience: Option<bool>,
    /// A later event about the same subject has come.
    pub(super) stale: bool,
    /// Whether the workflow that the rule resumes is there; none when it resumes none.
    pub(super) has_workflow: Option<bool>,
}

impl App {
    /// Tries a rule on an event. Reads only. A time-based rule can be tried without an event.
    ///
    /// # Errors
    /// `NOT_FOUND` for the rule or the LINE OA; for a rule that is not saved what saving it would
    /// be refused with; `INVALID` below `event`; `UNKNOWN_SOURCE_TYPE` on `event.type`.
    pub async fn test_trigger_rule(
        &self,
        scope: Scope,
        rule: RuleToTest,
        sample: Option<SampleEvent>,
    ) -> Result<DryRun> {
        let (now, db) = (self.now(), self.store.read());
        let rule = match rule {
            RuleToTest::Saved(id) => rule::find(db, scope, id).await?,
            RuleToTest::New(new) => {
                let line_oa = line::shown(db, scope, new.line_oa_id).await?;
                self.draft(db, &line_oa, CreateTriggerRule { enabled: true, ..*new }, now).await?
            }
        };
        let compiled = CompiledRule::stored(&rule);
        let (event, payload) = happening(&compiled, sample, now)?;
        let past = self.past(&compiled, &event).await?;
        let occasion = Occasion::new(&event, &payload, past.user.as_ref(), now, &self.zone);
        let (evaluated, rendered) = examine(&compiled, &occasion);
        let rendered = rendered.map_err(|outcome| *outcome);
        let run = told(&compiled, (&event, &past, now), &evaluated, rendered);
        Ok(DryRun { without_value: occasion.without_value(&compiled.rule.action_config), ..run })
    }

    async fn past(&self, compiled: &CompiledRule, event: &Event) -> Result<Past> {
        let (rule, db) = (&compiled.rule, self.store.read());
        let user = event.user_id.as_deref();
        let mut past = Past {
            last_fired_at: rule::last_fired(db, rule.id, user.unwrap_or_default()).await?,
            stale: !event::stale(db, &[event]).await?.is_empty(),
            ..Past::default()
        };
        if let Some(user) = user {
            let known = line::users_by_ids(db, &[(rule.line_oa_id, user)]).await?;
            past.user = known.into_iter().next();
            let filter = scheduled_action::Filter {
                trigger_rule_id: Some(rule.id),
                user_id: Some(user.to_owned()),
                statuses: vec![ActionStatus::Pending, ActionStatus::Processing],
                ..Default::default()
            };
            let (up, page) = (Direction::Ascending, PageRequest::default());
            let open = scheduled_action::list(db, Scope::Everything, &filter, up, &page).await?;
            past.waiting = open.rows.into_iter().map(|(_, action)| action).collect();
            if let Some(timetable) = timetable(compiled) {
                let found = audience::has_member(db, timetable.audience_id, user).await?;
                past.in_audience = Some(found);
            }
        }
        let resumes = compiled.parts().is_ok_and(|parts| parts.action.needs.workflow);
        if let Some(id) = rule.workflow_id.filter(|_| resumes) {
            let found = workflow::find_all(db, Scope::Everything, &[id]).await?;
            past.has_workflow = Some(!found.is_empty());
        }
        Ok(past)
    }
}

/// When a time-based rule is due and for whom; none of any other.
fn timetable(compiled: &CompiledRule) -> Option<&Timetable> {
    compiled.parts().ok()?.source.timetable.as_ref()
}

/// The event, as it would have been stored, and its payload.
fn happening(
    compiled: &CompiledRule,
    sample: Option<SampleEvent>,
    now: DateTime<Utc>,
) -> Result<(Event, ParsedPayload)> {
    let rule = &compiled.rule;
    let given = sample.is_some();
    let sample = sample.unwrap_or_default();
    let source = source(sample.event_type.as_deref().unwrap_or(&rule.source_type))?;
    if !given && source.accepts_events {
        let reason = format!("event is required: the rule waits for {}", source.name);
        return Err(Error::invalid("event", reason));
    }
    let occurred_at = sample.occurred_at.unwrap_or(now);
    if source.accepts_events {
        within_range("event.occurredAt", occurred_at, now)?;
    }
    let payload = match (sample.payload, timetable(compiled)) {
        (None, Some(timetable)) => sources::due_payload(occurred_at, timetable.audience_id),
        (payload, _) => checked_payload("event.payload", payload)?,
    };
    let parsed = source.parse_payload(&payload).map_err(|misfit| misfit.below("event"))?;
    let user_id = sample.user_id.map(|text| user_id("event.userId", &text)).transpose()?;
    let event = Event {
        id: EventId::new(),
        event_id: "sample".to_owned(),
        event_type: source.name.to_owned(),
        line_oa_id: rule.line_oa_id,
        organization_id: rule.organization_id,
        user_id,
        occurred_at,
        payload,
        subject: parsed.subject.clone(),
        origin: EventOrigin::Api,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: now,
        processed_at: None,
    };
    Ok((event, parsed))
}

fn source(name: &str) -> Result<&'static SourceType> {
    sources::find(name).map_err(|error| {
        let reason = error.to_string().replacen("sourceType", "event.type", 1);
        Error::invalid_code(error.code(), "event.type", reason)
    })
}
