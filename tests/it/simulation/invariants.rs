//! What must be true at the end, found out from the tables, the audit log and what the backends
//! have received. Each says what is wrong, or nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Duration, Utc};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::{Occurrence, OccurrenceStatus, Origin};

use super::calendar::due;
use super::retry_invariants;
use super::rule_invariants;
use super::scheduler::TIMEOUT;
use super::seen::{Interval, Seen};
use super::world::{SKEW, World};

pub type Verdict = Result<(), String>;

/// How long after its claim an attempt may begin: half of what the simulation's lease is longer than
/// an attempt.
const START_WITHIN: Duration = Duration::seconds(5);

/// What the simulation's settings, or their defaults, say too.
const CATCH_UP_WINDOW: Duration = Duration::minutes(5);
const PER_WINDOW: usize = 60;
const MAX_AGE: Duration = Duration::minutes(5);
/// A due time that is older was missed.
const ON_TIME: Duration = Duration::seconds(20);

/// How far apart the clocks of two processes may be.
pub fn skew() -> Duration {
    Duration::milliseconds(2 * SKEW)
}

macro_rules! hold {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(format!($($why)+));
        }
    };
}

pub(super) use hold;

/// Checks all of them.
pub async fn check(world: &World) -> Verdict {
    let seen = Seen::read(world).await;
    each_due_time_has_one_row(&seen)?;
    no_due_time_is_lost(&seen)?;
    nothing_else_is_due(&seen)?;
    skips_have_their_reasons(world, &seen)?;
    everything_ends(&seen)?;
    nothing_is_given_up_early(&seen)?;
    what_is_cancelled_was_taken_back(&seen)?;
    nothing_broke_off(&seen)?;
    what_is_delivered_was_answered(&seen)?;
    attempts_are_alike_and_one_at_a_time(&seen)?;
    retry_invariants::check(world, &seen)?;
    attempts_begin_while_there_is_time_to_end(world, &seen)?;
    each_attempt_is_logged_once(&seen)?;
    off_is_off(&seen)?;
    changes_and_audit_rows_come_together(world, &seen)?;
    counters_are_those_of_the_rows(&seen)?;
    rule_invariants::check(world, &seen).await
}

fn scheduled(seen: &Seen) -> impl Iterator<Item = &Occurrence> {
    seen.occurrences.iter().filter(|row| row.origin == Origin::Schedule)
}

/// The due times that a row stands for.
fn covered(row: &Occurrence) -> Vec<DateTime<Utc>> {
    let moment = Duration::milliseconds(1);
    match row.until_at {
        None => vec![row.scheduled_at],
        Some(last) => due(&row.payload.cron_expression, row.scheduled_at - moment, last),
    }
}

/// Invariant 1: No due time has two rows.
fn each_due_time_has_one_row(seen: &Seen) -> Verdict {
    let mut rows = BTreeSet::new();
    for row in scheduled(seen) {
        let stands_for = covered(row);
        hold!(stands_for.len() as i32 == row.occurrences, "a row counts wrongly: {row:?}");
        for at in stands_for {
            hold!(rows.insert((row.trigger_id.to_string(), at)), "a second row for {at}: {row:?}");
        }
    }
    Ok(())
}

/// Invariant 2: Each due time of an enabled trigger, as its schedule was then, has a row or is counted by one.
fn no_due_time_is_lost(seen: &Seen) -> Verdict {
    let mut rows = BTreeMap::<String, BTreeSet<_>>::new();
    for row in scheduled(seen) {
        rows.entry(row.trigger_id.to_string()).or_default().extend(covered(row));
    }
    for (trigger, intervals) in seen.intervals() {
        let rows = rows.remove(&trigger).unwrap_or_default();
        for interval in intervals.iter().filter(|interval| interval.enabled) {
            for at in due(&interval.cron, interval.after, interval.evaluated) {
                hold!(rows.contains(&at), "trigger {trigger} has lost {at} of {interval:?}");
            }
        }
    }
    Ok(())
}

/// Invariant 2: Nothing has a row that was not due.
fn nothing_else_is_due(seen: &Seen) -> Verdict {
    let intervals = seen.intervals();
    for row in scheduled(seen) {
        let mine = intervals.get(&row.trigger_id.to_string()).map_or(&[][..], Vec::as_slice);
        let ahead = Duration::milliseconds(SKEW + 1);
        let fits = |interval: &&Interval| {
            let (first, last) = (row.scheduled_at, row.until_at.unwrap_or(row.scheduled_at));
            interval.enabled
                && interval.cron == row.payload.cron_expression
                && interval.after < first
                && last <= interval.ended + ahead
        };
        hold!(mine.iter().any(|interval| fits(&interval)), "this was not due: {row:?}, {mine:#?}");
        hold!(row.scheduled_at <= row.created_at, "a row before its time: {row:?}");
        let first = due(
            &row.payload.cron_expression,
            row.scheduled_at - Duration::seconds(1),
            row.scheduled_at,
        );
        hold!(first == [row.scheduled_at], "not on the calendar: {row:?}");
    }
    Ok(())
}

/// Invariant 2: What is recorded only is so for a reason that holds.
fn skips_have_their_reasons(world: &World, seen: &Seen) -> Verdict {
    for row in scheduled(seen).filter(|row| row.status == OccurrenceStatus::Skipped) {
        let (first, last) = (row.scheduled_at, row.until_at.unwrap_or(row.scheduled_at));
        let (pass, policy) = (row.created_at, world.times.policies.get(&row.id.0));
        let missed = policy.is_some_and(|policy| policy != "all") && last < pass - ON_TIME;
        let is_old = last < pass - CATCH_UP_WINDOW;
        let is_young = first >= pass - CATCH_UP_WINDOW;
        let holds = match row.reason.as_deref() {
            Some("catch_up_window") => is_old,
            Some("catch_up_policy") => missed && is_young,
            Some("window_cap") => is_young && fired_before(seen, row) == PER_WINDOW,
            _ => false,
        };
        hold!(holds, "skipped without a reason: {row:?}");
    }
    Ok(())
}

/// How many due times the pass fired that recorded this one, all of them before it.
fn fired_before(seen: &Seen, skipped: &Occurrence) -> usize {
    let fired = scheduled(seen).filter(|row| row.status != OccurrenceStatus::Skipped);
    let same = fired
        .filter(|row| row.trigger_id == skipped.trigger_id && row.created_at == skipped.created_at);
    same.filter(|row| row.scheduled_at < skipped.scheduled_at).count()
}

/// Invariant 3: A delivery fails, and an occurrence finds nobody, only when the budget is used up: of
/// attempts, or of time, as it stands since the last retry of a person.
fn nothing_is_given_up_early(seen: &Seen) -> Verdict {
    let mut budgets = BTreeMap::new();
    for row in seen.retry_rows() {
        budgets.insert(row.entity_id.to_string(), row.at);
    }
    for row in seen.deliveries.iter().filter(|row| row.status == ActionStatus::Failed) {
        let tried = (row.retry_count - row.attempts_before) as usize >= retry_invariants::BUDGET;
        let began = budgets.get(&row.id.to_string()).copied().unwrap_or(row.created_at);
        let is_over = row.executed_at.is_some_and(|at| at >= began + MAX_AGE);
        hold!(tried || is_over, "given up early: {row:?}");
    }
    for row in seen.occurrences.iter().filter(|row| row.deliveries == 0) {
        let failed = row.status == OccurrenceStatus::Failed;
        let is_over = row.finished_at.is_some_and(|at| at >= row.created_at + MAX_AGE);
        hold!(!failed || is_over, "given up early: {row:?}");
    }
    Ok(())
}

/// Invariant 3: A delivery is cancelled only when its trigger was switched off or deleted, its backend was
/// deleted, or a person wanted it.
fn what_is_cancelled_was_taken_back(seen: &Seen) -> Verdict {
    let mut off = BTreeSet::new();
    for row in &seen.audit {
        let is_off = row.after.as_ref().is_none_or(|after| after["enabled"] == false);
        let takes_back = match row.entity_type.as_str() {
            "trigger" => is_off,
            "backend" => row.action == "backend.delete",
            _ => row.action == "scheduled_action.cancel",
        };
        if takes_back {
            off.insert(row.entity_id.to_string());
        }
    }
    for row in seen.deliveries.iter().filter(|row| row.status == ActionStatus::Cancelled) {
        let causes = [row.trigger_id.to_string(), row.backend_id.to_string(), row.id.to_string()];
        hold!(causes.iter().any(|id| off.contains(id)), "cancelled, for no reason: {row:?}");
    }
    Ok(())
}

/// Invariant 12: A panic in an attempt is recorded as one that broke off: there is none.
fn nothing_broke_off(seen: &Seen) -> Verdict {
    let odd = seen.attempts.iter().find(|row| row.reason.as_deref() == Some("broken_off"));
    hold!(odd.is_none(), "an attempt panicked: {odd:?}");
    Ok(())
}

/// Invariant 3: Everything has come to an end.
fn everything_ends(seen: &Seen) -> Verdict {
    for row in &seen.occurrences {
        hold!(row.status.is_final() && row.finished_at.is_some(), "still open: {row:?}");
    }
    for row in &seen.deliveries {
        let open = matches!(row.status, ActionStatus::Pending | ActionStatus::Processing);
        hold!(!open && row.executed_at.is_some(), "still open: {row:?}");
    }
    Ok(())
}

/// Invariant 4: Each request is of a delivery, and what counts as delivered was answered with 2xx.
fn what_is_delivered_was_answered(seen: &Seen) -> Verdict {
    let requests = seen.by_delivery();
    let mut known = BTreeSet::new();
    for row in &seen.deliveries {
        let id = row.id.to_string();
        let answered =
            requests.get(id.as_str()).is_some_and(|all| all.iter().any(|r| r.succeeded()));
        let delivered = row.status == ActionStatus::Completed;
        hold!(!delivered || answered, "no backend has answered 2xx to {row:?}");
        known.insert(id);
    }
    known.extend(seen.actions.iter().map(|action| action.id.to_string()));
    for request in &seen.requests {
        hold!(known.contains(&request.id), "a request of no delivery: {request:?}");
    }
    Ok(())
}

/// Invariant 5: All attempts of a delivery carry the same body and rising numbers, and none begins before the
/// one before has ended.
fn attempts_are_alike_and_one_at_a_time(seen: &Seen) -> Verdict {
    for (id, requests) in seen.by_delivery() {
        for request in &requests {
            hold!(request.forged.is_none(), "{}: {request:?}", request.forged.unwrap_or_default());
        }
        for pair in requests.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            hold!(one.body == next.body, "delivery {id} has two bodies: {one:?}, {next:?}");
            hold!(one.path == next.path, "delivery {id} went to two places: {one:?}, {next:?}");
            hold!(one.attempt < next.attempt, "numbers do not rise: {one:?}, {next:?}");
            // A sender that stands still has run out of time, though it does not know yet.
            let apart =
                one.until.is_some_and(|until| until < next.from) || next.at >= one.at + TIMEOUT;
            hold!(apart, "two attempts overlap: {one:?}, {next:?}");
        }
    }
    Ok(())
}

/// Invariant 5: An attempt begins so soon after its claim that it ends, and is written down, before
/// the lease does. What stands still in front of its request runs out of time.
fn attempts_begin_while_there_is_time_to_end(world: &World, seen: &Seen) -> Verdict {
    for request in &seen.requests {
        let claimed = (request.id.parse().unwrap(), request.attempt - 1);
        let claimed = world.times.claimed.get(&claimed).map_or(&[][..], Vec::as_slice);
        let Some(claimed) = claimed.iter().rfind(|at| **at <= request.at) else {
            return Err(format!("nobody has claimed it: {request:?}"));
        };
        let late = request.at - *claimed;
        hold!(late < START_WITHIN + TIMEOUT + skew(), "{late} after its claim: {request:?}");
    }
    Ok(())
}

/// Invariant 12: Each attempt has one row of the log; only that its executor went away can stand beside it.
fn each_attempt_is_logged_once(seen: &Seen) -> Verdict {
    let mut rows = HashMap::new();
    for row in &seen.attempts {
        let went_away = row.reason.as_deref() == Some("lease_expired");
        let key = (row.delivery_id.to_string(), row.number, went_away);
        let other = rows.insert(key, row);
        hold!(other.is_none(), "logged twice: {row:?}, {other:?}");
    }
    for request in seen.requests.iter().filter(|request| request.excuse.is_none()) {
        let row = rows.get(&(request.id.clone(), request.attempt, false));
        let status = row.and_then(|row| row.response_status);
        let told = status == i16::try_from(request.status).ok();
        hold!(told, "the log does not tell of {request:?}: {row:?}");
    }
    Ok(())
}

/// Invariant 7: Once a disabling or deletion is committed, no attempt starts later than one pass.
fn off_is_off(seen: &Seen) -> Verdict {
    let made: HashMap<_, _> = seen.deliveries.iter().map(|row| (row.id.to_string(), row)).collect();
    let pass = Duration::seconds(10);
    for (trigger, changes) in seen.changes() {
        for change in changes {
            let disabled = change.after.as_ref().is_none_or(|after| after["enabled"] == false);
            let was_on = change.before.as_ref().is_some_and(|before| before["enabled"] == true);
            if !disabled || !was_on {
                continue;
            }
            let off = seen.committed(change);
            for request in seen.requests.iter().filter(|r| r.at > off + pass + TIMEOUT + skew()) {
                let Some(delivery) = made.get(&request.id) else { continue };
                let of_before = delivery.trigger_id.to_string() == trigger
                    && delivery.created_at < change.at - skew()
                    && !seen.retries(&request.id).iter().any(|at| *at >= off);
                hold!(!of_before, "off since {off}, and yet called: {request:?}, {delivery:?}");
            }
        }
    }
    Ok(())
}

/// Invariant 8: A call that was committed has its row in the audit log, any other has none, and the last row
/// of each trigger tells how it is.
fn changes_and_audit_rows_come_together(world: &World, seen: &Seen) -> Verdict {
    for (name, call) in &world.calls {
        let row = seen.audit.iter().find(|row| row.request_id.as_ref() == Some(name));
        let committed = world.s.commits.contains_key(name);
        hold!(committed || row.is_none(), "{name} was not committed, and yet: {row:?}");
        let missing = committed && call.is_audited() && row.is_none();
        hold!(!missing, "{name} was committed and left no row: {call:?}");
    }
    let now: HashMap<_, _> = seen.triggers.iter().map(|row| (row.id.to_string(), row)).collect();
    for (id, changes) in seen.changes() {
        let last = changes.last().and_then(|row| row.after.clone());
        let row = now.get(&id).map(|row| serde_json::to_value(row).unwrap());
        hold!(last == row, "the audit log says {last:?}, the table {row:?}");
    }
    Ok(())
}

/// Invariant 12: What occurrences count of their deliveries is what there is.
fn counters_are_those_of_the_rows(seen: &Seen) -> Verdict {
    let mut of = HashMap::<_, [i32; 3]>::new();
    for row in &seen.deliveries {
        let counts = of.entry(row.occurrence_id).or_default();
        counts[0] += 1;
        match row.status {
            ActionStatus::Completed => counts[1] += 1,
            _ => counts[2] += 1,
        }
    }
    for row in &seen.occurrences {
        let [all, delivered, failed] = of.remove(&row.id).unwrap_or_default();
        let counts = (row.deliveries, row.delivered, row.failed);
        hold!(row.deliveries == all, "{all} deliveries, but {row:?}");
        let cancelled = row.status == OccurrenceStatus::Cancelled;
        hold!(cancelled || counts == (all, delivered, failed), "{delivered} and {failed}: {row:?}");
        let status = match (delivered, failed) {
            (0, 0) => continue,
            (_, 0) => OccurrenceStatus::Delivered,
            (0, _) => OccurrenceStatus::Failed,
            _ => OccurrenceStatus::PartiallyDelivered,
        };
        hold!(cancelled || row.status == status, "it should be {status:?}: {row:?}");
    }
    hold!(of.is_empty(), "deliveries of no occurrence: {of:?}");
    Ok(())
}
