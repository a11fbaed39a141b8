//! What must be true of time-based rules at the end: each due time that a pass has come to began a cycle
//! or is logged as skipped, as the calendar says.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use trigger_manager::domain::cycle::Cycle;
use trigger_manager::domain::trigger_log::{LogStatus, TriggerLog};
use uuid::Uuid;

use super::calendar::{OFTEN, due};
use super::invariants::{Verdict, hold, skew};
use super::seen::instant;
use super::watch::Moves;

/// What the simulation's settings say too.
const CATCH_UP_WINDOW: Duration = Duration::minutes(5);
/// A due time that is older was missed.
const ON_TIME: Duration = Duration::seconds(20);

/// Checks all of them. `moved` is what passes have evaluated, rule by rule.
pub fn check(moved: &Moves, cycles: &[Cycle], logs: &[TriggerLog]) -> Verdict {
    let skips: Vec<_> = logs.iter().filter(|row| row.status == LogStatus::Skipped).collect();
    each_due_time_is_told_once(moved, cycles, &skips)?;
    skips.iter().try_for_each(|row| has_its_reason(row, cycles))?;
    cycles.iter().try_for_each(is_worth_walking)
}

/// Those that a row of the log stands for.
fn skipped(row: &TriggerLog) -> (DateTime<Utc>, DateTime<Utc>, Vec<DateTime<Utc>>) {
    let span = row.action_config.as_ref().unwrap();
    let (from, until) = (instant(&span["from"]), instant(&span["until"]));
    (from, until, due(OFTEN.0, from - Duration::milliseconds(1), until))
}

/// Invariant 2: What was due while a rule was on has begun a cycle or stands in the log, once.
fn each_due_time_is_told_once(moved: &Moves, cycles: &[Cycle], skips: &[&TriggerLog]) -> Verdict {
    let mut told = BTreeMap::<Uuid, Vec<DateTime<Utc>>>::new();
    for cycle in cycles {
        told.entry(cycle.trigger_rule_id.0).or_default().push(cycle.scheduled_at);
    }
    for row in skips {
        let (_, _, all) = skipped(row);
        let counted = &row.action_config.as_ref().unwrap()["occurrences"];
        hold!(*counted == all.len(), "a row counts wrongly: {row:?}");
        told.entry(row.trigger_rule_id.unwrap().0).or_default().extend(all);
    }
    for (rule, moves) in moved {
        let mut told = told.remove(rule).unwrap_or_default();
        told.sort();
        let were: Vec<_> = moves.iter().flat_map(|(from, to)| due(OFTEN.0, *from, *to)).collect();
        let odd = told.iter().zip(&were).find(|(told, was)| told != was);
        hold!(
            told == were,
            "of rule {rule} {} due times are told, {} were: {odd:?}",
            told.len(),
            were.len()
        );
    }
    hold!(told.is_empty(), "never due: {told:?}");
    Ok(())
}

/// Invariant 2: What is logged only is so for a reason that holds.
fn has_its_reason(row: &TriggerLog, cycles: &[Cycle]) -> Verdict {
    let (from, until, _) = skipped(row);
    let now = row.created_date;
    let holds = match row.reason.as_deref() {
        Some("catch_up_window") => until < now - CATCH_UP_WINDOW,
        Some("catch_up_policy") => until < now - ON_TIME && from >= now - CATCH_UP_WINDOW,
        Some("still_walking") => cycles
            .iter()
            .filter(|cycle| Some(cycle.trigger_rule_id) == row.trigger_rule_id)
            .filter(|cycle| cycle.scheduled_at < from && cycle.started_at <= now + skew())
            .any(|cycle| cycle.completed_at.is_none_or(|end| end >= now - skew())),
        _ => false,
    };
    hold!(holds, "skipped without a reason: {row:?}");
    Ok(())
}

/// Invariant 2: Of what was missed only the latest begins a cycle, and only within the catch-up window.
fn is_worth_walking(cycle: &Cycle) -> Verdict {
    let age = cycle.started_at - cycle.scheduled_at;
    hold!(age >= Duration::zero() && age <= CATCH_UP_WINDOW, "{age} too late: {cycle:?}");
    let later = due(OFTEN.0, cycle.scheduled_at, cycle.started_at);
    hold!(age <= ON_TIME || later.is_empty(), "missed, and not the latest: {cycle:?}");
    Ok(())
}
