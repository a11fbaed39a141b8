//! Cycles: a time-based rule that is due walks its audience.
//!
//! Beginning a cycle is one row, unique by rule and due time: however many executors try, one
//! begins it. Walking it is a transaction a batch of users: the cycle's row is locked, the users
//! after its cursor are evaluated as an event would be, their work is queued, and the cursor moves
//! with it. Whoever comes next goes on from there, be it another executor after a crash; no user
//! is handled twice.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::firing::{By, Candidate, Fate, SubjectState};
use super::meeting::{BATCH_COST_MAX, take_turns};
use super::walks::Step;
use super::{BATCH, Executor, whole};
use crate::domain::access::Scope;
use crate::domain::cycle::{Cycle, CycleStatus};
use crate::domain::event::{Event, EventOrigin, EventStatus};
use crate::domain::id::{AudienceId, CycleId, EventId};
use crate::domain::rule::TriggerRule;
use crate::domain::trigger::CatchUp;
use crate::domain::window::{self, Skipped};
use crate::error::Result;
use crate::rules::{CompiledRule, Occasion, Outcome, evaluate};
use crate::sources::{self, ParsedPayload, Timetable};
use crate::store::log::{NewLog, insert_logs};
use crate::store::rule::{RuleWindow, due, move_windows};
use crate::store::{Tx, audience, cycle, line, rule};

/// The source type of time-based rules.
const SCHEDULE: &str = "schedule";
/// A transaction begins no further cycles once it has looked at so many due times.
const DUE_TIMES_PER_TRANSACTION: usize = window::COUNTED_MAX;
/// Nor once it has counted so many members of audiences, which is what beginning a cycle costs.
const MEMBERS_PER_TRANSACTION: u64 = 1_000_000;

impl Executor {
    /// Begins the cycles of rules that are due at `now`. Of missed due times only the latest is
    /// walked; the others are logged as skipped, and so is one that is due while the rule's cycle
    /// before is still being walked. Answers how many rules it evaluated.
    pub async fn begin_cycles(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let due = due(&*tx, now, BATCH).await?;
        if due.is_empty() {
            return Ok(0);
        }
        let ids: Vec<_> = due.iter().map(|rule| rule.id).collect();
        let walking = cycle::walking(&*tx, &ids).await?;
        let (mut windows, mut skipped, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begun, mut looked_at, mut members) = (0, 0, 0);
        for rule in &due {
            let since = rule.evaluated_at.unwrap_or(now);
            let compiled = CompiledRule::stored(rule);
            let Some(timetable) = timetable(&compiled) else {
                tracing::error!(rule = %rule.id, "the rule's stored schedule can't be read; it does not fire until it is saved anew");
                let (rule_id, evaluated_at) = (rule.id, since);
                windows.push(RuleWindow { rule_id, evaluated_at, next_fire_at: None });
                unread.push(rule);
                continue;
            };
            let window = (since, CatchUp::Last);
            let limits = self.app.window_limits();
            let zone = timetable.zone.as_ref().unwrap_or(&self.app.zone);
            let met = window::evaluate_from(window, (&timetable.schedule, zone), now, &limits);
            looked_at += met.due_times();
            // One at a time: what is due with it finds it being walked.
            let room = usize::from(!walking.contains(&rule.id));
            let (fire, left_out) = met.fire.split_at(room.min(met.fire.len()));
            skipped.extend(left_out.iter().map(|at| Left::still_walking(rule, *at)));
            for &at in fire {
                let cycle = new_cycle(&tx, rule, timetable.audience_id, (at, now)).await?;
                members += u64::from(cycle.total_users.unsigned_abs());
                begun += usize::from(cycle::insert(&*tx, &cycle).await?);
            }
            skipped.extend(met.skipped.iter().map(|run| Left::skipped(rule, run)));
            windows.push(RuleWindow {
                rule_id: rule.id,
                evaluated_at: met.evaluated_at,
                next_fire_at: met.next_fire_at,
            });
            if looked_at >= DUE_TIMES_PER_TRANSACTION || members >= MEMBERS_PER_TRANSACTION {
                break;
            }
        }
        move_windows(&*tx, &windows).await?;
        let logs = skipped.iter().map(|left| left.log(now));
        let logs: Vec<_> = logs.chain(unread.into_iter().map(|rule| stopped(rule, now))).collect();
        insert_logs(&*tx, &logs).await?;
        tx.commit_unaudited().await?;
        for _ in 0..begun {
            self.app.metrics.cycle(CycleStatus::Processing.as_str());
        }
        Ok(windows.len())
    }

    /// Handles the next users of the cycle whose turn it is among those that nobody else is walking;
    /// each has its turn, by age. Answers whether there was one.
    ///
    /// After each failure in a row a cycle's step is half as large; a user who can't be handled alone
    /// is logged as failed, and the walk goes on behind. A cycle where that does not help has failed.
    pub async fn walk_cycle(&self, now: DateTime<Utc>) -> Result<bool> {
        let tx = self.app.store.begin().await?;
        let next = cycle::next(&*tx, self.walks.after()).await?;
        let Some(mut cycle) = next else { return Ok(false) };
        let (id, now) = (cycle.id, self.since(now));
        let step = self.walks.begin(id);
        let walked = match whole(self.walk_on(&tx, &mut cycle, step, now)).await {
            Ok(fates) => tx.commit_unaudited().await.map(|()| fates),
            Err(error) => {
                // Waited for, so that its next turn finds it free.
                let _ = tx.rollback().await;
                Err(error)
            }
        };
        match walked {
            Ok(fates) => {
                self.walks.went(id, step);
                self.count_walk(&cycle, &fates);
                Ok(true)
            }
            Err(error) => {
                self.walks.failed(id, &error);
                Err(error)
            }
        }
    }

    async fn walk_on(
        &self,
        tx: &Tx,
        cycle: &mut Cycle,
        step: Step,
        now: DateTime<Utc>,
    ) -> Result<Vec<Fate>> {
        let rules = rule::find_all(&**tx, Scope::Everything, &[cycle.trigger_rule_id]).await?;
        let rule = rules.into_iter().next();
        let rule = rule.filter(|rule| rule.enabled && rule.deleted_date.is_none());
        let mut fates = Vec::new();
        match (rule, step) {
            (None, _) => {
                cycle.status = CycleStatus::Cancelled;
                cycle.error_message = Some("the rule was disabled or deleted".to_owned());
            }
            (_, Step::GiveUp) => {
                tracing::error!(cycle = %cycle.id, "a cycle can't be walked to its end, and is recorded as failed");
                cycle.status = CycleStatus::Failed;
                cycle.error_message =
                    Some("its users could not be handled; the server's log says why".to_owned());
            }
            (Some(rule), step) => fates = self.walk(tx, &rule, (cycle, step), now).await?,
        }
        if cycle.status != CycleStatus::Processing {
            cycle.completed_at = Some(now);
        }
        cycle::update(&**tx, cycle).await?;
        Ok(fates)
    }

    async fn walk(
        &self,
        tx: &Tx,
        rule: &TriggerRule,
        (cycle, step): (&mut Cycle, Step),
        now: DateTime<Utc>,
    ) -> Result<Vec<Fate>> {
        let limit = if let Step::Users(limit) = step { limit } else { 1 };
        let cursor = cycle.cursor.as_deref();
        let members = audience::members_after(&**tx, cycle.audience_id, cursor, limit).await?;
        if members.is_empty() {
            cycle.status = CycleStatus::Completed;
            return Ok(Vec::new());
        }
        let wanted: BTreeSet<_> =
            members.iter().map(|user| (cycle.line_oa_id, user.clone())).collect();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let users = line::users_by_ids(&**tx, &wanted).await?;
        let users: HashMap<_, _> = users.into_iter().map(|u| (u.user_id.clone(), u)).collect();
        let mut done = (members.len() as u64) < limit;
        let (compiled, tick) = (Arc::new(CompiledRule::stored(rule)), self.tick(cycle)?);
        let (mut candidates, mut spent) = (Vec::new(), 0);
        for member in members {
            if spent > BATCH_COST_MAX {
                done = false;
                break;
            }
            let (outcome, cost) = match step {
                Step::Users(_) => {
                    let event = due_event(cycle, &member);
                    let user = users.get(&member);
                    let occasion = Occasion::new(&event, &tick, user, now, &self.app.zone);
                    let evaluated = evaluate(&compiled, &occasion);
                    (evaluated.outcome, evaluated.cost)
                }
                _ => (left_out(cycle, &member), 0),
            };
            cycle.cursor = Some(member.clone());
            candidates.push(candidate(&compiled, cycle, member, outcome));
            spent += cost;
            take_turns(cost).await;
        }
        let fates = self.fire(tx, &candidates, now).await?;
        let failed = fates.iter().filter(|fate| **fate == Fate::Failed).count();
        cycle.processed_users += i32::try_from(fates.len()).unwrap_or(i32::MAX);
        cycle.failed_users += i32::try_from(failed).unwrap_or(i32::MAX);
        cycle.total_users = cycle.total_users.max(cycle.processed_users);
        if done {
            cycle.status = CycleStatus::Completed;
        }
        Ok(fates)
    }

    /// What a cycle's due time brings.
    fn tick(&self, cycle: &Cycle) -> Result<ParsedPayload> {
        let source = sources::find(SCHEDULE)?;
        Ok(source.parse_payload(&due_payload(cycle))?)
    }

    fn count_walk(&self, cycle: &Cycle, fates: &[Fate]) {
        let metrics = &self.app.metrics;
        let failed = fates.iter().filter(|fate| **fate == Fate::Failed).count() as u64;
        metrics.cycle_users("failed", failed);
        metrics.cycle_users("handled", fates.len() as u64 - failed);
        if cycle.status != CycleStatus::Processing {
            metrics.cycle(cycle.status.as_str());
        }
        self.count_fates(fates);
        self.app.live.hint();
    }
}

async fn new_cycle(
    tx: &Tx,
    rule: &TriggerRule,
    audience_id: AudienceId,
    (at, now): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Cycle> {
    let total = audience::count(&**tx, audience_id).await?;
    Ok(Cycle {
        id: CycleId::new(),
        trigger_rule_id: rule.id,
        line_oa_id: rule.line_oa_id,
        organization_id: rule.organization_id,
        audience_id,
        scheduled_at: at,
        started_at: now,
        completed_at: None,
        status: CycleStatus::Processing,
        total_users: i32::try_from(total).unwrap_or(i32::MAX),
        processed_users: 0,
        failed_users: 0,
        cursor: None,
        error_message: None,
    })
}

/// What is logged of a user who could not be handled alone either.
fn left_out(cycle: &Cycle, user: &str) -> Outcome {
    tracing::error!(cycle = %cycle.id, user, "a user of a cycle can't be handled, and is recorded as failed");
    let message = "it could not be evaluated; the server's log says why".to_owned();
    Outcome::Failed { reason: "not_evaluated", message }
}

fn timetable(rule: &CompiledRule) -> Option<&Timetable> {
    rule.parts().ok()?.source.timetable.as_ref()
}

fn candidate(
    rule: &Arc<CompiledRule>,
    cycle: &Cycle,
    user_id: String,
    outcome: Outcome,
) -> Candidate {
    Candidate {
        rule: rule.clone(),
        user_id: Some(user_id),
        by: By::Cycle(cycle.id, cycle.audience_id, cycle.scheduled_at),
        subject: SubjectState::Free,
        outcome,
    }
}

fn due_payload(cycle: &Cycle) -> Value {
    sources::due_payload(cycle.scheduled_at, cycle.audience_id)
}

/// What a cycle's due time is to conditions and templates.
fn due_event(cycle: &Cycle, user_id: &str) -> Event {
    Event {
        id: EventId(cycle.id.0),
        event_id: cycle.id.to_string(),
        event_type: SCHEDULE.to_owned(),
        line_oa_id: cycle.line_oa_id,
        organization_id: cycle.organization_id,
        user_id: Some(user_id.to_owned()),
        occurred_at: cycle.scheduled_at,
        payload: due_payload(cycle),
        subject: None,
        origin: EventOrigin::Internal,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: cycle.started_at,
        processed_at: None,
    }
}

/// What is logged of a rule that is due and can't be understood.
fn stopped(rule: &TriggerRule, now: DateTime<Utc>) -> NewLog<'_> {
    const MESSAGE: &str =
        "the stored rule can't be understood; it is not due again until it is saved anew";
    NewLog {
        trigger_on: &rule.source_type,
        trigger_rule_id: Some(rule.id.0),
        action_type: Some(&rule.action_type),
        status: "failed",
        error_message: Some(MESSAGE),
        organization_id: Some(rule.organization_id.0),
        line_oa_id: Some(rule.line_oa_id.0),
        reason: Some("rule_invalid"),
        created_date: now,
        ..NewLog::default()
    }
}

/// Due times that begin no cycle.
struct Left<'a> {
    rule: &'a TriggerRule,
    reason: &'static str,
    count: usize,
    first: DateTime<Utc>,
    last: DateTime<Utc>,
}

impl<'a> Left<'a> {
    fn skipped(rule: &'a TriggerRule, run: &Skipped) -> Self {
        let reason = run.reason.as_str();
        Self { rule, reason, count: run.count, first: run.first, last: run.last }
    }

    /// The rule's cycle before is still being walked: cycles must not pile up.
    fn still_walking(rule: &'a TriggerRule, at: DateTime<Utc>) -> Self {
        Self { rule, reason: "still_walking", count: 1, first: at, last: at }
    }

    fn log(&self, now: DateTime<Utc>) -> NewLog<'a> {
        let rule = self.rule;
        NewLog {
            trigger_on: &rule.source_type,
            trigger_rule_id: Some(rule.id.0),
            action_type: Some(&rule.action_type),
            action_config: Some(Cow::Owned(json!({
                "occurrences": self.count,
                "from": self.first,
                "until": self.last,
            }))),
            status: "skipped",
            organization_id: Some(rule.organization_id.0),
            line_oa_id: Some(rule.line_oa_id.0),
            reason: Some(self.reason),
            created_date: now,
            ..NewLog::default()
        }
    }
}
