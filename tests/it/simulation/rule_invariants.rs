//! What must be true of rules at the end, found out from the tables, the audit log and what the
//! LINE platform accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Duration, Utc};
use trigger_manager::domain::cycle::{Cycle, CycleStatus};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::event::{Event, EventStatus};
use trigger_manager::domain::rule::Frequency;
use trigger_manager::domain::scheduled_action::ScheduledAction;
use trigger_manager::domain::trigger_log::{LogStatus, TriggerLog};
use uuid::Uuid;

use super::cycle_invariants;
use super::invariants::{Verdict, hold, skew};
use super::scheduler::TIMEOUT;
use super::seen::Seen;
use super::world::{MEMBERS, World};

/// From when until when.
type Span = (DateTime<Utc>, DateTime<Utc>);

struct Rules<'a> {
    seen: &'a Seen,
    evaluated: &'a HashMap<Uuid, DateTime<Utc>>,
    events: Vec<Event>,
    cycles: Vec<Cycle>,
    logs: Vec<TriggerLog>,
    actions: HashMap<String, &'a ScheduledAction>,
    /// Of each rule, when it was on.
    on: BTreeMap<String, Vec<Span>>,
}

/// Checks all of them.
pub async fn check(world: &World, seen: &Seen) -> Verdict {
    let rules = Rules {
        events: world.p.events().await,
        cycles: world.p.cycles().await,
        logs: world.p.logs().await,
        actions: seen.actions.iter().map(|action| (action.id.to_string(), action)).collect(),
        on: on(seen),
        evaluated: &world.times.evaluated,
        seen,
    };
    rules.everything_ends()?;
    rules.each_is_evaluated_once()?;
    rules.no_event_is_lost()?;
    rules.every_member_is_walked()?;
    rules.what_is_queued_is_logged()?;
    rules.rates_are_kept()?;
    rules.pushes_are_those_of_actions(world)?;
    rules.nothing_starts_too_late()?;
    cycle_invariants::check(&world.times.moved, &rules.cycles, &rules.logs)
}

/// Of each rule, from which commit to which it was on.
fn on(seen: &Seen) -> BTreeMap<String, Vec<Span>> {
    let mut on = BTreeMap::<String, Vec<(DateTime<Utc>, DateTime<Utc>)>>::new();
    for change in seen.audit.iter().filter(|row| row.entity_type == "trigger_rule") {
        let spans = on.entry(change.entity_id.to_string()).or_default();
        let at = seen.committed(change);
        let is = |state: &Option<serde_json::Value>| {
            state.as_ref().is_some_and(|state| state["enabled"] == true)
        };
        match (is(&change.before), is(&change.after)) {
            (false, true) => spans.push((at, seen.end + Duration::days(1))),
            (true, false) => spans.last_mut().unwrap().1 = at,
            _ => {}
        }
    }
    on
}

impl Rules<'_> {
    /// The rows that say what an evaluation came to.
    fn evaluations(&self) -> impl Iterator<Item = &TriggerLog> {
        let kinds = [LogStatus::Queued, LogStatus::HeldBack, LogStatus::Failed];
        self.logs.iter().filter(move |row| row.attempt.is_none() && kinds.contains(&row.status))
    }

    fn everything_ends(&self) -> Verdict {
        for event in &self.events {
            let well = event.status == EventStatus::Processed && event.error.is_none();
            hold!(well, "not evaluated: {event:?}");
        }
        let panicked = |row: &&TriggerLog| row.reason.as_deref() == Some("not_evaluated");
        let odd = self.logs.iter().find(panicked);
        hold!(odd.is_none(), "an evaluation failed: {odd:?}");
        for cycle in &self.cycles {
            let ended = matches!(cycle.status, CycleStatus::Completed | CycleStatus::Cancelled);
            hold!(ended && cycle.completed_at.is_some(), "still walked: {cycle:?}");
        }
        Ok(())
    }

    fn each_is_evaluated_once(&self) -> Verdict {
        let mut known = BTreeSet::new();
        for row in self.evaluations() {
            let key = (row.event_id, row.trigger_rule_id, &row.user_id);
            hold!(known.insert(key), "evaluated twice: {row:?}");
        }
        let mut ids = BTreeSet::new();
        for event in &self.events {
            hold!(ids.insert(&event.event_id), "stored twice: {event:?}");
        }
        let mut due = BTreeSet::new();
        for cycle in &self.cycles {
            let key = (cycle.trigger_rule_id, cycle.scheduled_at);
            hold!(due.insert(key), "begun twice: {cycle:?}");
        }
        Ok(())
    }

    /// Each event met each rule that was on from before it came until after it was evaluated.
    fn no_event_is_lost(&self) -> Verdict {
        let met: BTreeSet<_> =
            self.evaluations().map(|row| (row.event_id, row.trigger_rule_id)).collect();
        let of_events: BTreeMap<_, _> = self
            .seen
            .audit
            .iter()
            .filter(|row| row.action == "trigger_rule.create")
            .filter(|row| row.after.as_ref().unwrap()["sourceType"] == "form_submitted")
            .map(|row| (row.entity_id.to_string(), row.entity_id))
            .collect();
        for (rule, id) in of_events {
            for event in &self.events {
                let (from, until) = (event.received_at, self.evaluated[&event.id.0]);
                let on = self.on[&rule].iter();
                let mut on = on.filter(|on| on.0 < from - skew() && until + skew() < on.1);
                let lost = on.next().is_some() && !met.contains(&(Some(event.id), Some(id.into())));
                hold!(!lost, "rule {rule} has never met {event:?}");
            }
        }
        Ok(())
    }

    fn every_member_is_walked(&self) -> Verdict {
        let mut walked = HashMap::<_, usize>::new();
        for row in self.evaluations().filter(|row| row.audience_id.is_some()) {
            *walked.entry(row.event_id.unwrap().0).or_default() += 1;
        }
        for cycle in self.cycles.iter().filter(|one| one.status == CycleStatus::Completed) {
            let users = walked.get(&cycle.id.0).copied().unwrap_or_default();
            let counted = cycle.processed_users as usize;
            hold!(users == MEMBERS && counted == MEMBERS, "{users} users of {cycle:?}");
        }
        Ok(())
    }

    fn what_is_queued_is_logged(&self) -> Verdict {
        let queued = self.evaluations().filter(|row| row.status == LogStatus::Queued);
        let queued: BTreeSet<_> =
            queued.map(|row| row.scheduled_action_id.unwrap().to_string()).collect();
        let firsts = self.actions.values().filter(|action| action.parent_id.is_none());
        let firsts: BTreeSet<_> = firsts.map(|action| action.id.to_string()).collect();
        hold!(queued == firsts, "queued is {firsts:?}, but the log says {queued:?}");
        Ok(())
    }

    /// Invariant 11: Two firings of a rule for a user are as far apart as its frequency and cooldown say;
    /// of a cycle its due time counts.
    fn rates_are_kept(&self) -> Verdict {
        let pauses: HashMap<_, _> = self
            .seen
            .audit
            .iter()
            .filter(|row| row.action == "trigger_rule.create")
            .map(|row| {
                let rule = row.after.as_ref().unwrap();
                let cooldown = Duration::seconds(rule["cooldownSeconds"].as_i64().unwrap());
                let once = rule["frequency"] == serde_json::to_value(Frequency::Once).unwrap();
                (row.entity_id, if once { Duration::days(1000) } else { cooldown })
            })
            .collect();
        let mut last = HashMap::new();
        for row in self.evaluations().filter(|row| row.status == LogStatus::Queued) {
            let rule = row.trigger_rule_id.unwrap();
            let of = |cycle: &&Cycle| Some(cycle.id.0) == row.event_id.map(|id| id.0);
            let cycle = self.cycles.iter().find(of);
            let at = cycle.map_or(row.created_date, |cycle| cycle.scheduled_at);
            let Some(before) = last.insert((rule, row.user_id.clone()), at) else { continue };
            let apart = at - before;
            let pause = pauses[&rule.0];
            hold!(pause.is_zero() || apart >= pause, "fired again after {apart}: {row:?}");
        }
        Ok(())
    }

    /// A push is accepted once, and only what an action asked for; what counts as done was accepted.
    fn pushes_are_those_of_actions(&self, world: &World) -> Verdict {
        let mut accepted = BTreeSet::new();
        for push in world.p.line.accepted() {
            let key = push.retry_key.clone().unwrap_or_default();
            let action = self.actions.get(&key);
            let wanted = action.is_some_and(|one| one.concern.user_id.as_ref() == Some(&push.to));
            hold!(wanted, "nobody has asked for {push:?}");
            hold!(accepted.insert(key), "accepted twice: {push:?}");
        }
        for action in self.actions.values().filter(|one| one.action_type == "send_message") {
            let done = action.status == ActionStatus::Completed;
            let sent = accepted.contains(&action.id.to_string());
            hold!(!done || sent, "done, but never sent: {action:?}");
        }
        Ok(())
    }

    /// Invariant 12: Nothing is attempted when its time has passed, nor, one pass after its rule was switched
    /// off, what had been queued before.
    fn nothing_starts_too_late(&self) -> Verdict {
        let pass = Duration::seconds(10);
        for row in self.logs.iter().filter(|row| row.attempt.is_some()) {
            // Of one without an answer it is not known when it began: its process may have stood
            // still in the middle.
            if row.response_status.is_none() {
                continue;
            }
            let id = row.scheduled_action_id.unwrap().to_string();
            let Some(action) = self.actions.get(&id) else {
                return Err(format!("an attempt of nothing: {row:?}"));
            };
            let late =
                action.expires_at.is_some_and(|end| row.created_date > end + TIMEOUT + skew());
            hold!(!late, "attempted too late: {row:?}, {action:?}");
            let rule = action.cause.trigger_rule_id.unwrap().to_string();
            for (_, off) in &self.on[&rule] {
                let off_before = row.created_date > *off + pass + TIMEOUT + skew();
                let queued_before = action.created_at < *off - skew()
                    && !self.seen.retries(&id).iter().any(|at| at >= off);
                hold!(!(off_before && queued_before), "off since {off}: {row:?}, {action:?}");
            }
        }
        Ok(())
    }
}
