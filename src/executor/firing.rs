//! From evaluations to work: who may fire takes the right to, and what came of each evaluation is
//! queued or logged. Events and cycles go the same way.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::Executor;
use crate::domain::id::{
    ApplicationId, AudienceId, CycleId, EventId, ScheduledActionId, TriggerRuleId, WorkflowId,
};
use crate::domain::line::CALL_BUDGET;
use crate::domain::rule::TriggerRule;
use crate::domain::rule::facts::instant;
use crate::domain::rule::rate::{self, Limit, Rate};
use crate::error::Result;
use crate::rules::{CompiledRule, Firing, Outcome};
use crate::store::firing::{self, NewFiring};
use crate::store::log::{NewLog, insert_logs};
use crate::store::rule::{Ask, Taken, take};
use crate::store::{Tx, workflow};

/// A rule that met an event, or a user of a cycle.
pub(super) struct Candidate {
    pub rule: Arc<CompiledRule>,
    pub user_id: Option<String>,
    pub by: By,
    /// What the event is about has changed since, or this one stands in another's place.
    pub subject: SubjectState,
    pub outcome: Outcome,
}

/// What a candidate answers. It takes the right to fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Event(EventId),
    /// The walk of an audience, and when it was due.
    Cycle(CycleId, AudienceId, DateTime<Utc>),
}

impl By {
    fn id(self) -> Uuid {
        match self {
            Self::Event(id) => id.0,
            Self::Cycle(id, ..) => id.0,
        }
    }

    pub(super) fn event_id(self) -> Option<EventId> {
        match self {
            Self::Event(id) => Some(id),
            Self::Cycle(..) => None,
        }
    }

    fn walk(self) -> Option<(CycleId, AudienceId)> {
        match self {
            Self::Event(_) => None,
            Self::Cycle(id, audience, _) => Some((id, audience)),
        }
    }

    /// When rate control counts it as fired. A cycle counts from its due time: one a day may come 24 hours
    /// after the one before, however long either takes to walk. (Where clocks go forward, two due times
    /// are 23 hours apart.)
    fn counts_from(self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Event(_) => now,
            Self::Cycle(_, _, due_at) => due_at,
        }
    }
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

    /// What a row of the log says of it in any case.
    fn log(&self, now: DateTime<Utc>) -> NewLog<'_> {
        let rule = &self.rule.rule;
        NewLog {
            trigger_on: &rule.source_type,
            trigger_rule_id: Some(rule.id.0),
            audience_id: self.by.walk().map(|(_, audience)| audience.0),
            user_id: self.user_id.as_deref(),
            action_type: Some(&rule.action_type),
            event_id: Some(self.by.id()),
            organization_id: Some(rule.organization_id.0),
            line_oa_id: Some(rule.line_oa_id.0),
            created_date: now,
            ..NewLog::default()
        }
    }

    /// The workflow whose application it calls.
    fn resumes(&self) -> Option<WorkflowId> {
        let parts = self.rule.parts().ok()?;
        self.rule.rule.workflow_id.filter(|_| parts.action.needs.workflow)
    }

    /// Whether the workflow that it resumes was deleted: it asks for no right that it can't use.
    fn is_lost(&self, known: &HashMap<WorkflowId, ApplicationId>) -> bool {
        self.resumes().is_some_and(|workflow| !known.contains_key(&workflow))
    }

    /// Whether it is ready and its rule may not fire as often as it likes.
    fn is_limited(&self) -> bool {
        matches!(self.outcome, Outcome::Ready(_)) && self.rule.rule.is_limited()
    }

    /// What it asks of rate control, unless it need not ask.
    fn ask(&self) -> Option<Ask> {
        let rule = &self.rule.rule;
        if self.subject != SubjectState::Free || !self.is_limited() {
            return None;
        }
        let (rule_id, user_id) = self.pair();
        let pause_ms = rule.pause().map(|pause| pause.num_milliseconds());
        Some(Ask { rule_id, user_id, pause_ms, by: self.by.id() })
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

    fn log<'a>(&'a self, candidate: &'a Candidate, now: DateTime<Utc>) -> NewLog<'a> {
        NewLog {
            status: "held_back",
            reason: Some(self.reason),
            error_message: Some(&self.message),
            held_until: self.until,
            ..candidate.log(now)
        }
    }
}

/// What rate control says of the candidates of a transaction.
struct Rights {
    /// Of those who asked.
    taken: HashMap<Pair, Taken>,
    /// For whom work stands in the place of what was taken back: it waits as that did, and nobody
    /// else may ask.
    replaced: HashSet<Pair>,
    /// What was given to a candidate.
    used: HashSet<Pair>,
}

impl Rights {
    /// Whether a candidate that is ready may fire, or why not.
    fn admit(&mut self, candidate: &Candidate, now: DateTime<Utc>) -> Option<Held> {
        if candidate.subject == SubjectState::Stale {
            return Some(Held::new("superseded", "a later event about the same has come already"));
        }
        candidate.ask()?;
        let pair = candidate.pair();
        if self.replaced.contains(&pair) {
            return Some(waits());
        }
        let known = self.taken.get(&pair)?;
        if known.taken && self.used.insert(pair) {
            return None;
        }
        let rule = &candidate.rule.rule;
        Some(match rate::check(rule, known.last_fired_at, now) {
            Rate::Held { by, until } => {
                Held { reason: by.as_str(), message: held_back(rule, by, until), until }
            }
            Rate::Allowed => waits(),
        })
    }
}

fn waits() -> Held {
    Held::new("waiting", "an action of this rule waits for this user already")
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
    /// Queues what may fire and logs what came of each candidate, in `tx`. The candidates answer
    /// events, or one cycle.
    pub(super) async fn fire(
        &self,
        tx: &Tx,
        candidates: &[Candidate],
        now: DateTime<Utc>,
    ) -> Result<Vec<Fate>> {
        let known = applications(tx, candidates).await?;
        let able: Vec<_> = candidates.iter().filter(|one| !one.is_lost(&known)).collect();
        let counted = candidates.first().map_or(now, |candidate| candidate.by.counts_from(now));
        let mut rights = ask(tx, &able, counted).await?;
        // Once more: a workflow may have been deleted while others held their right to fire.
        let applications = applications(tx, candidates).await?;
        let ends: Vec<_> = candidates
            .iter()
            .map(|candidate| match &candidate.outcome {
                Outcome::Ready(firing) => match rights.admit(candidate, counted) {
                    Some(held) => End::Held(held),
                    None => self.queue(candidate, firing, &applications),
                },
                Outcome::HeldBack { gate, reason } => {
                    End::Held(Held::new(gate.reason(), reason.clone()))
                }
                Outcome::Failed { reason, message } => End::Failed(reason, message.clone()),
            })
            .collect();
        let (mut fates, mut firings, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for (candidate, end) in candidates.iter().zip(&ends) {
            fates.push(end.fate());
            match end {
                End::Queued(firing) => firings.push(firing.clone()),
                End::Held(held) if !self.is_logged(held) => {}
                End::Held(held) => logs.push(held.log(candidate, now)),
                End::Failed(reason, message) => logs.push(NewLog {
                    status: "failed",
                    reason: Some(reason),
                    error_message: Some(message),
                    action_config: Some(Cow::Borrowed(&candidate.rule.rule.action_config)),
                    ..candidate.log(now)
                }),
            }
        }
        let walk = candidates.first().and_then(|candidate| candidate.by.walk());
        firing::queue(&**tx, &firings, walk, now).await?;
        insert_logs(&**tx, &logs).await?;
        Ok(fates)
    }

    fn queue<'a>(
        &self,
        candidate: &'a Candidate,
        firing: &'a Firing,
        workflows: &HashMap<WorkflowId, ApplicationId>,
    ) -> End<'a> {
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
        End::Queued(NewFiring {
            id: ScheduledActionId::new(),
            trigger_rule_id: candidate.rule.rule.id,
            user_id: candidate.user_id.as_deref(),
            action_config: &firing.action_config,
            execute_at: firing.execute_at,
            expires_at: firing.expires_at.map_or(ends_at, |end| end.min(ends_at)),
            application_id: application,
            event_id: candidate.by.event_id(),
            subject: firing.subject.as_deref(),
        })
    }

    /// How long something is tried after it is due.
    fn budget(&self, by_line: bool) -> Duration {
        let age = self.policy().max_age;
        if by_line { age.min(CALL_BUDGET) } else { age }
    }

    /// Whether it leaves a row: evaluations that did not match may be switched off.
    fn is_logged(&self, held: &Held) -> bool {
        !matches!(held.reason, "source" | "condition") || self.app.config.rules.log_unmatched
    }
}

/// What a candidate came to.
enum End<'a> {
    Queued(NewFiring<'a>),
    Held(Held),
    Failed(&'static str, String),
}

impl End<'_> {
    fn fate(&self) -> Fate {
        match self {
            Self::Queued(_) => Fate::Queued,
            Self::Held(_) => Fate::HeldBack,
            Self::Failed(..) => Fate::Failed,
        }
    }
}

/// Asks rate control for all candidates in one statement, for each pair of rule and user once, and not
/// for those for whom a firing is replaced: that it was taken back in this transaction is no reason to
/// let another one beside it.
async fn ask(tx: &Tx, candidates: &[&Candidate], now: DateTime<Utc>) -> Result<Rights> {
    let replaces = |one: &&&Candidate| one.subject == SubjectState::Replaces && one.is_limited();
    let replaced: HashSet<_> = candidates.iter().filter(replaces).map(|one| one.pair()).collect();
    let mut seen = replaced.clone();
    let asks = candidates.iter().filter_map(|candidate| candidate.ask());
    let asks: Vec<_> = asks.filter(|ask| seen.insert((ask.rule_id, ask.user_id.clone()))).collect();
    let taken = take(&**tx, &asks, now).await?;
    let taken = taken.into_iter().map(|(rule, user, taken)| ((rule, user), taken)).collect();
    Ok(Rights { taken, replaced, used: HashSet::new() })
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
