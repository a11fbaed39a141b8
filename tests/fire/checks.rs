//! What must hold at the end, from the tables, the calendar and the backends' own logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use trigger_manager::line::stand_in::Accepted;
use uuid::Uuid;

use crate::backends::Request;
use crate::faults::Past;
use crate::ledger::{Ledger, Span};
use crate::load::{Call, Outcome};
use crate::settings::Form;

/// The most memory that a process may take, in KiB.
const MEMORY: u64 = 128 * 1024;

/// All that is known.
#[derive(Clone)]
pub struct Evidence {
    pub form: Form,
    pub past: Arc<Past>,
    pub requests: Vec<Request>,
    pub ledger: Ledger,
    pub calendar: Vec<Span>,
    pub calls: Vec<Call>,
    pub messages: Vec<Accepted>,
    /// Ids of the rules: once, cooldown, plain.
    pub rules: [Uuid; 3],
    /// Names and lines of all processes.
    pub output: Arc<Vec<(String, Vec<String>)>>,
    /// Names and resident KiB, early and at the end.
    pub memory: Vec<(String, Option<u64>, Option<u64>)>,
    /// Processes that ended and were not killed.
    pub unasked: Vec<String>,
    /// What was not done when everything had been healthy for long.
    pub stuck: Vec<String>,
    /// Triggers that nobody evaluated to the end.
    pub behind: Vec<String>,
    /// Tasks of the load that could not go on.
    pub broken: Vec<String>,
}

/// A promise, and what was found.
pub struct Check {
    pub name: &'static str,
    pub seen: String,
    pub wrong: Vec<String>,
}

impl Check {
    /// One that looked at `seen` things, at least one.
    pub fn of(name: &'static str, seen: usize, what: &str, mut wrong: Vec<String>) -> Self {
        if seen == 0 {
            wrong.push(format!("there were no {what}: nothing was checked"));
        }
        Self { name, seen: format!("{seen} {what}"), wrong }
    }

    pub fn passed(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// All checks.
pub fn all(evidence: &Evidence) -> Vec<Check> {
    let mut checks = schedule(evidence);
    checks.extend(crate::calls::all(evidence));
    checks.extend(rules(evidence));
    checks.extend(audit(evidence));
    checks.extend(processes(evidence));
    checks
}

fn schedule(evidence: &Evidence) -> Vec<Check> {
    let mut times = BTreeMap::<(Uuid, DateTime<Utc>), usize>::new();
    let rows = || evidence.ledger.occurrences.iter().filter(|row| row.origin == "schedule");
    // Some executor is always up again soon enough: nothing is left out.
    let skipped = rows().filter(|row| row.status == "skipped");
    let mut lost: Vec<_> = skipped.map(|row| format!("left out: {row:?}")).collect();
    for row in rows().filter(|row| row.status != "skipped") {
        *times.entry((row.trigger_id, row.scheduled_at)).or_default() += 1;
    }
    let twice = times.iter().filter(|(_, count)| **count > 1);
    let twice = twice.map(|((trigger, at), count)| format!("{trigger} {at}: {count}")).collect();
    let due: BTreeSet<_> =
        evidence.calendar.iter().flat_map(|span| span.due().map(|at| (span.trigger, at))).collect();
    let missing = due.iter().filter(|key| !times.contains_key(key));
    lost.extend(missing.map(|(trigger, at)| format!("{trigger} {at}")));
    lost.extend(evidence.behind.iter().cloned());
    let extra = times.keys().filter(|key| !due.contains(key));
    let extra = extra.map(|(trigger, at)| format!("{trigger} {at}")).collect();
    let seen = times.len();
    vec![
        Check::of("no due second has two occurrences", seen, "occurrences", twice),
        Check::of("each due second of an enabled trigger has one", due.len(), "due seconds", lost),
        Check::of("no occurrence is beside the calendar", seen, "occurrences", extra),
        Check::of(
            "nothing is stuck once everything is healthy",
            evidence.ledger.actions.len(),
            "pieces of work",
            evidence.stuck.clone(),
        ),
        counters(&evidence.ledger),
    ]
}

/// What an occurrence counts is what its deliveries say: a result that was recorded twice is not.
fn counters(ledger: &Ledger) -> Check {
    let mut found = BTreeMap::<Uuid, (i32, i32)>::new();
    for action in &ledger.actions {
        let Some(id) = action.trigger_occurrence_id else { continue };
        let (deliveries, delivered) = found.entry(id).or_default();
        *deliveries += 1;
        *delivered += i32::from(action.status == "completed");
    }
    let count = |id| found.get(id).copied().unwrap_or_default();
    let wrong =
        ledger.occurrences.iter().filter(|one| count(&one.id) != (one.deliveries, one.delivered));
    let wrong = wrong.map(|one| format!("{one:?}, but there are {:?}", count(&one.id))).collect();
    let seen = ledger.occurrences.len();
    Check::of(
        "the counters of each occurrence are those of its deliveries",
        seen,
        "occurrences",
        wrong,
    )
}

fn rules(evidence: &Evidence) -> Vec<Check> {
    let accepted: BTreeSet<_> = evidence
        .calls
        .iter()
        .filter(|call| call.what.ends_with("/events") && call.outcome == Outcome::Accepted)
        .map(|call| call.about.as_str())
        .collect();
    let stored: BTreeMap<_, _> =
        evidence.ledger.events.iter().map(|event| (event.event_id.as_str(), event)).collect();
    let mut wrong: Vec<_> = accepted
        .iter()
        .filter(|id| stored.get(*id).is_none_or(|event| event.status != "processed"))
        .map(|id| format!("{id}: {:?}", stored.get(id).map(|event| &event.status)))
        .collect();
    let unknown = stored.keys().filter(|id| !accepted.contains(*id));
    wrong.extend(unknown.map(|id| format!("{id} is stored and was never accepted")));
    wrong.extend(evaluated_twice(evidence));
    let count = accepted.len();
    vec![
        Check::of("each accepted event was evaluated once", count, "events", wrong),
        plain(evidence, &accepted),
        once(evidence),
        cooldown(evidence),
        retry_keys(evidence),
    ]
}

/// What a rule said twice of an event: queued, held back or failed.
fn evaluated_twice(evidence: &Evidence) -> Vec<String> {
    let mut said = BTreeMap::<_, usize>::new();
    let logs = evidence.ledger.logs.iter().filter(|log| log.attempt.is_none());
    for log in logs.filter(|log| matches!(log.status.as_str(), "queued" | "held_back" | "failed")) {
        *said.entry((log.event_id, log.trigger_rule_id)).or_default() += 1;
    }
    let twice = said.into_iter().filter(|((event, _), count)| event.is_some() && *count > 1);
    twice.map(|(key, count)| format!("{key:?} was evaluated {count} times")).collect()
}

fn text(message: &Accepted) -> &str {
    message.messages[0]["text"].as_str().unwrap_or_default()
}

/// Messages of a rule, by their text.
fn messages<'a>(
    evidence: &'a Evidence,
    rule: &'a str,
) -> impl Iterator<Item = (&'a Accepted, &'a str)> {
    evidence.messages.iter().filter_map(move |message| {
        let (name, about) = text(message).split_once(' ')?;
        (name == rule).then_some((message, about))
    })
}

fn plain(evidence: &Evidence, accepted: &BTreeSet<&str>) -> Check {
    let mut sent = BTreeMap::<_, usize>::new();
    for (_, about) in messages(evidence, "plain") {
        *sent.entry(about).or_default() += 1;
    }
    let wanted: Vec<_> = accepted.iter().filter(|id| id.starts_with("plain-")).collect();
    let mut wrong: Vec<_> = sent
        .iter()
        .filter(|(id, count)| **count > 1 || !accepted.contains(*id))
        .map(|(id, count)| format!("{id}: {count} messages"))
        .collect();
    wrong.extend(
        wanted.iter().filter(|id| !sent.contains_key(**id)).map(|id| format!("{id}: none")),
    );
    Check::of("each event of a plain rule is one message", wanted.len(), "events", wrong)
}

fn once(evidence: &Evidence) -> Check {
    let mut users = BTreeMap::<_, Vec<_>>::new();
    for (message, about) in messages(evidence, "once") {
        users.entry(message.to.as_str()).or_default().push(about);
    }
    let events = evidence.ledger.events.iter().filter(|event| event.event_id.starts_with("once-"));
    let met: BTreeSet<_> = events.filter_map(|event| event.user_id.as_deref()).collect();
    let mut wrong: Vec<_> = users
        .iter()
        .filter(|(_, messages)| messages.len() > 1)
        .map(|(user, messages)| format!("{user}: {messages:?}"))
        .collect();
    wrong.extend(
        met.iter().filter(|user| !users.contains_key(**user)).map(|u| format!("{u}: none")),
    );
    Check::of("a rule that fires once a user sent one message a user", met.len(), "users", wrong)
}

fn cooldown(evidence: &Evidence) -> Check {
    let pause = Duration::from_std(evidence.form.cooldown).unwrap_or_default();
    let mut fired = BTreeMap::<_, Vec<DateTime<Utc>>>::new();
    let queued = evidence.ledger.logs.iter().filter(|log| log.status == "queued");
    for log in queued.filter(|log| log.trigger_rule_id == Some(evidence.rules[1])) {
        fired.entry(log.user_id.clone()).or_default().push(log.created_date);
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (user, times) in &mut fired {
        times.sort();
        count += times.len();
        let early = times.windows(2).filter(|pair| pair[1] - pair[0] < pause);
        wrong.extend(early.map(|pair| format!("{user:?}: {} and {}", pair[0], pair[1])));
    }
    let sent = messages(evidence, "cool").count();
    if sent != count {
        wrong.push(format!("{count} firings, but {sent} messages"));
    }
    Check::of("a cooldown is kept, and each firing is one message", count, "firings", wrong)
}

fn retry_keys(evidence: &Evidence) -> Check {
    let mut keys = BTreeMap::<_, usize>::new();
    for message in &evidence.messages {
        *keys.entry(&message.retry_key).or_default() += 1;
    }
    let wrong = keys.iter().filter(|(key, count)| key.is_none() || **count > 1);
    let wrong = wrong.map(|(key, count)| format!("{key:?}: {count}")).collect();
    Check::of("no message was sent twice", evidence.messages.len(), "messages", wrong)
}

fn audit(evidence: &Evidence) -> Vec<Check> {
    let audits = &evidence.ledger.audits;
    let mut rows = BTreeMap::<_, usize>::new();
    for row in audits {
        *rows.entry(row.request_id.as_deref()).or_default() += 1;
    }
    let (mut wrong, mut seen) = (Vec::new(), 0);
    // A heartbeat changes something only when it brings a backend back.
    for call in evidence.calls.iter().filter(|call| !call.what.ends_with("/heartbeat")) {
        seen += 1;
        let found = rows.get(&Some(call.request_id.as_str())).copied().unwrap_or_default();
        let fits = match call.outcome {
            Outcome::Accepted => found == usize::from(call.changes),
            Outcome::Refused(_) => found == 0,
            Outcome::Unknown(_) => found <= 1,
        };
        if !fits {
            wrong.push(format!("{} {}: {:?}, {found} rows", call.what, call.about, call.outcome));
        }
    }
    let count = |action: &str| audits.iter().filter(|row| row.action == action).count();
    let (created, deleted) = (count("trigger.create"), count("trigger.delete"));
    let there = evidence.ledger.triggers.len();
    if created != there + deleted {
        wrong.push(format!("{created} triggers created, {deleted} deleted, {there} there"));
    }
    let received = audits.iter().filter(|row| row.action == "event.receive");
    let received = received.filter_map(|row| row.after.as_ref()?["count"].as_u64());
    let (received, stored) = (received.sum::<u64>(), evidence.ledger.events.len());
    if usize::try_from(received).ok() != Some(stored) {
        wrong.push(format!("{received} events received by the audit log, {stored} stored"));
    }
    vec![Check::of(
        "each change has its row in the audit log, and each row its change",
        seen,
        "calls",
        wrong,
    )]
}

fn processes(evidence: &Evidence) -> Vec<Check> {
    let lines =
        || evidence.output.iter().flat_map(|(name, lines)| lines.iter().map(move |l| (name, l)));
    let sql = ["SELECT ", "INSERT INTO", "DELETE FROM", " SET "];
    let bad = |line: &str| line.contains("panicked") || sql.iter().any(|word| line.contains(word));
    let mut wrong: Vec<_> = lines()
        .filter(|(_, line)| bad(line))
        .map(|(name, line)| format!("{name}: {line}"))
        .collect();
    wrong.extend(evidence.calls.iter().filter_map(|call| match &call.outcome {
        Outcome::Unknown(text) | Outcome::Refused(text) if bad(text) => Some(text.clone()),
        _ => None,
    }));
    let heavy = evidence.memory.iter().filter(|(_, _, end)| end.is_none_or(|end| end > MEMORY));
    let heavy = heavy.map(|(name, early, end)| format!("{name}: {early:?} to {end:?} KiB"));
    let mut unasked = evidence.unasked.clone();
    unasked.extend(evidence.broken.iter().cloned());
    let (faults, missed) = (evidence.past.faults.len(), evidence.past.missed.clone());
    let count = evidence.memory.len();
    vec![
        Check::of("no process panicked or showed SQL", lines().count(), "lines", wrong),
        Check::of("no process ended unasked, no caller gave up", count, "processes", unasked),
        Check::of("no process takes more than 128 MiB", count, "processes", heavy.collect()),
        Check::of("every fault came about", faults, "faults", missed),
    ]
}
