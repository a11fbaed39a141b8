//! From evaluations to work: who may fire takes the right to, and what came of each evaluation is
//! queued or logged. Events and cycles go the same way.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::Executor;
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{
    ApplicationId, AudienceId, EventId, ScheduledActionId, TriggerRuleId, WorkflowId,
};
use crate::domain::line::CALL_BUDGET;
use crate::domain::rule::TriggerRule;
use crate::domain::rule::facts::instant;
use crate::domain::rule::rate::{self, Limit, Rate};
use crate::domain::scheduled_action::{ActionConfig, Cause, Concern, ScheduledAction};
use crate::error::Result;
use crate::rules::{CompiledRule, Firing, Outcome};
use crate::store::log::{NewLog, insert_logs};
use crate::store::rule::{Ask, Taken, take};
use crate::store::{Tx, scheduled_action, workflow};

/// A rule that met an event, or a user of a cycle.
pub(super) struct Candidate {
    pub rule: Arc<CompiledRule>,
    pub user_id: Option<String>,
    pub event_id: Option<EventId>,
    pub audience_id: Option<AudienceId>,
    /// Of the event or the cycle: who takes the right to fire.
    pub by: Uuid,
    /// What the event is about has changed since, or this one stands in another's place.
    pub subject: SubjectState,
    pub outcome: Outcome,
}

/// How an event stands to others about the same subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectState {
    /// Nothing is known against it.
    Free,
    /// What the rule had queued because of an earlier event was taken back: the new firing stands
    /// in its place, and rate control has counted it.
    Replaces,
    /// A later event has come already.
    Stale,
}

/// What became of candidates, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Queued,
    HeldBack,
    Failed,
}

type Pair = (TriggerRuleId, String);

impl Candidate {
    fn pair(&self) -> Pair {
        (self.rule.rule.id, self.user_id.clone().unwrap_or_default())
    }

    /// The workflow whose application it calls.
    fn resumes(&self) -> Option<WorkflowId> {
        let parts = self.rule.parts().ok()?;
        self.rule.rule.workflow_id.filter(|_| parts.action.needs.workflow)
    }

    /// What it asks of rate control, unless it need not ask.
    fn ask(&self) -> Option<Ask> {
        let rule = &self.rule.rule;
        let ready = matches!(self.outcome, Outcome::Ready(_));
        if !ready || self.subject != SubjectState::Free || !rule.is_limited() {
            return None;
        }
        let (rule_id, user_id) = self.pair();
        let pause_ms = rule.pause().map(|pause| pause.num_milliseconds());
        Some(Ask { rule_id, user_id, pause_ms, by: self.by })
    }
}

/// Why a candidate did not fire.
struct Held {
    reason: &'static str,
    message: String,
    until: Option<DateTime<Utc>>,
}

impl Held {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), until: None }
    }
}

/// Whether a candidate that is ready may fire, or why not.
fn admit(
    candidate: &Candidate,
    taken: &HashMap<Pair, Taken>,
    used: &mut HashSet<Pair>,
    now: DateTime<Utc>,
) -> Option<Held> {
    if candidate.subject == SubjectState::Stale {
        return Some(Held::new("superseded", "a later event about the same has come already"));
    }
    candidate.ask()?;
    let pair = candidate.pair();
    let known = taken.get(&pair)?;
    if known.taken && used.insert(pair) {
        return None;
    }
    let rule = &candidate.rule.rule;
    Some(match rate::check(rule, known.last_fired_at, now) {
        Rate::Held { by, until } => {
            Held { reason: by.as_str(), message: held_back(rule, by, until), until }
        }
        Rate::Allowed => Held::new("waiting", "an action of this rule waits for this user already"),
    })
}

fn held_back(rule: &TriggerRule, by: Limit, until: Option<DateTime<Utc>>) -> String {
    let what = match by {
        Limit::Frequency => rule.frequency.as_str().to_owned(),
        Limit::Cooldown => format!("the cooldown of {} s", rule.cooldown_seconds),
    };
    match until {
        Some(until) => format!("held back by {what} until {}", instant(until)),
        None => format!("held back by {what}, for ever"),
    }
}

impl Executor {
    /// Queues what may fire and logs what came of each candidate, in `tx`.
    pub(super) async fn fire(
        &self,
        tx: &Tx,
        candidates: Vec<Candidate>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Fate>> {
        let taken = ask(tx, &candidates, now).await?;
        let applications = applications(tx, &candidates).await?;
        let (mut fates, mut actions) = (Vec::with_capacity(candidates.len()), Vec::new());
        let (mut used, mut ends) = (HashSet::new(), Vec::with_capacity(candidates.len()));
        for candidate in &candidates {
            let end = match &candidate.outcome {
                Outcome::Ready(firing) => match admit(candidate, &taken, &mut used, now) {
                    Some(held) => End::Held(held),
                    None => self.queue(candidate, firing, &applications, now),
                },
                Outcome::HeldBack { gate, reason } => {
                    End::Held(Held::new(gate.reason(), reason.clone()))
                }
                Outcome::Failed { reason, message } => End::Failed(reason, message.clone()),
            };
            fates.push(end.fate());
            ends.push(end);
        }
        for end in &ends {
            if let End::Queued(action) = end {
                actions.push(((**action).clone(), None));
            }
        }
        scheduled_action::insert(&**tx, &actions).await?;
        let logs = candidates.iter().zip(&ends).filter(|(_, end)| self.is_logged(end));
        let logs: Vec<_> = logs.map(|(candidate, end)| log(candidate, end, now)).collect();
        insert_logs(&**tx, &logs).await?;
        Ok(fates)
    }

    fn queue(
        &self,
        candidate: &Candidate,
        firing: &Firing,
        workflows: &HashMap<WorkflowId, ApplicationId>,
        now: DateTime<Utc>,
    ) -> End {
        let rule = &candidate.rule.rule;
        let application = match (firing.application_id, candidate.resumes()) {
            (Some(application), _) => Some(application),
            (None, None) => None,
            (None, Some(workflow)) => {
                let Some(application) = workflows.get(&workflow) else {
                    let message = "the rule's workflow was deleted".to_owned();
                    return End::Failed("workflow_deleted", message);
                };
                Some(*application)
            }
        };
        let budget = self.budget(application.is_none());
        let ends_at = firing.execute_at.checked_add_signed(budget).unwrap_or(firing.execute_at);
        let action = ScheduledAction {
            id: ScheduledActionId::new(),
            parent_id: None,
            action_type: rule.action_type.clone(),
            config: ActionConfig::Rendered(firing.action_config.clone()),
            cause: Cause {
                trigger_rule_id: Some(rule.id),
                source_type: Some(rule.source_type.clone()),
                source_config: Some(rule.source_config.clone()),
                event_id: candidate.event_id,
                subject: firing.subject.clone(),
                workflow_id: rule.workflow_id,
                workflow_node_path: rule.workflow_node_path.clone(),
                ..Cause::default()
            },
            concern: Concern {
                organization_id: Some(rule.organization_id),
                line_oa_id: Some(rule.line_oa_id),
                user_id: candidate.user_id.clone(),
                application_id: application,
                backend_id: None,
            },
            lane: application.map_or(rule.line_oa_id.0, |application| application.0),
            status: ActionStatus::Pending,
            retry_count: 0,
            attempts_before: 0,
            execute_at: firing.execute_at,
            expires_at: Some(firing.expires_at.map_or(ends_at, |end| end.min(ends_at))),
            executed_at: None,
            last_error: None,
            created_at: now,
            updated_at: now,
        };
        End::Queued(Box::new(action))
    }

    /// How long something is tried after it is due.
    fn budget(&self, by_line: bool) -> Duration {
        let age = self.policy().max_age;
        if by_line { age.min(CALL_BUDGET) } else { age }
    }

    /// Whether an evaluation leaves a row: those that did not match may be switched off.
    fn is_logged(&self, end: &End) -> bool {
        match end {
            End::Held(held) if matches!(held.reason, "source" | "condition") => {
                self.app.config.rules.log_unmatched
            }
            _ => true,
        }
    }
}

/// What a candidate came to.
enum End {
    Queued(Box<ScheduledAction>),
    Held(Held),
    Failed(&'static str, String),
}

impl End {
    fn fate(&self) -> Fate {
        match self {
            Self::Queued(_) => Fate::Queued,
            Self::Held(_) => Fate::HeldBack,
            Self::Failed(..) => Fate::Failed,
        }
    }
}

/// Asks rate control for all candidates in one statement, for each pair of rule and user once.
async fn ask(
    tx: &Tx,
    candidates: &[Candidate],
    now: DateTime<Utc>,
) -> Result<HashMap<Pair, Taken>> {
    let mut seen = HashSet::new();
    let asks = candidates.iter().filter_map(Candidate::ask);
    let asks: Vec<_> = asks.filter(|ask| seen.insert((ask.rule_id, ask.user_id.clone()))).collect();
    let taken = take(&**tx, &asks, now).await?;
    Ok(taken.into_iter().map(|(rule, user, taken)| ((rule, user), taken)).collect())
}

/// The applications of the workflows that candidates resume.
async fn applications(
    tx: &Tx,
    candidates: &[Candidate],
) -> Result<HashMap<WorkflowId, ApplicationId>> {
    let mut ids: Vec<_> = candidates
        .iter()
        .filter(|candidate| matches!(candidate.outcome, Outcome::Ready(_)))
        .filter_map(Candidate::resumes)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let everything = crate::domain::access::Scope::Everything;
    let found = workflow::find_all(&**tx, everything, &ids).await?;
    Ok(found.into_iter().map(|found| (found.id, found.application_id)).collect())
}

fn log<'a>(candidate: &'a Candidate, end: &'a End, now: DateTime<Utc>) -> NewLog<'a> {
    let rule = &candidate.rule.rule;
    let mut log = NewLog {
        trigger_on: &rule.source_type,
        trigger_rule_id: Some(rule.id.0),
        audience_id: candidate.audience_id.map(|id| id.0),
        user_id: candidate.user_id.as_deref(),
        action_type: Some(&rule.action_type),
        event_id: Some(candidate.by),
        organization_id: Some(rule.organization_id.0),
        line_oa_id: Some(rule.line_oa_id.0),
        created_date: now,
        ..NewLog::default()
    };
    match end {
        End::Queued(action) => {
            log.status = "queued";
            log.scheduled_action_id = Some(action.id.0);
            log.application_id = action.concern.application_id.map(|id| id.0);
            if let ActionConfig::Rendered(config) = &action.config {
                log.action_config = Some(Cow::Borrowed(config));
            }
        }
        End::Held(held) => {
            log.status = "held_back";
            log.reason = Some(held.reason);
            log.error_message = Some(&held.message);
            log.held_until = held.until;
        }
        End::Failed(reason, message) => {
            log.status = "failed";
            log.reason = Some(reason);
            log.error_message = Some(message);
            log.action_config = Some(Cow::Borrowed(&rule.action_config));
        }
    }
    log
}
