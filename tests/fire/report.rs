//! The figures, as a table for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Duration, Utc};
use serde::Serialize;

use crate::backends::Request;
use crate::calls::{cause, deliveries, duplicates};
use crate::checks::Evidence;
use crate::faults::{Fault, Kind};

/// A distribution, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Lateness {
    count: usize,
    p50_ms: i64,
    p99_ms: i64,
    max_ms: i64,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    form: &'static str,
    settings: String,
    seconds_of_faults: i64,
    faults: BTreeMap<Kind, usize>,
    due_seconds: usize,
    lost: usize,
    occurrences: BTreeMap<String, usize>,
    left_at_switching_off: usize,
    deliveries: usize,
    requests: usize,
    /// Requests after a success, by what made its outcome unknown.
    duplicates: BTreeMap<String, usize>,
    lateness_without_faults: Option<Lateness>,
    lateness_with_faults: Option<Lateness>,
    /// The longest time from a fault to the next attempt of work that its victim held, at healthy
    /// backends.
    take_over_ms: BTreeMap<Kind, i64>,
    /// From when the database answered again to the next call.
    recovery_ms: Vec<i64>,
    events: usize,
    messages: usize,
    messages_twice: usize,
    memory_kib: Vec<(String, Option<u64>, Option<u64>)>,
    checks: Vec<(&'static str, bool)>,
}

/// When what began: the load, the faults, and when everything was healed.
#[derive(Debug, Clone, Copy)]
pub struct Phases {
    pub calm: DateTime<Utc>,
    pub faults: DateTime<Utc>,
    pub healed: DateTime<Utc>,
}

impl Report {
    pub fn of(
        evidence: &Evidence,
        checks: &[crate::checks::Check],
        phases: Phases,
        healthy: &[&str],
    ) -> Self {
        let mut faults = BTreeMap::<Kind, usize>::new();
        for fault in &evidence.past.faults {
            *faults.entry(fault.kind).or_default() += 1;
        }
        let mut occurrences = BTreeMap::<String, usize>::new();
        for row in &evidence.ledger.occurrences {
            *occurrences.entry(row.status.clone()).or_default() += 1;
        }
        let by_delivery = deliveries(&evidence.requests);
        let mut causes = BTreeMap::<String, usize>::new();
        for (_, cause) in duplicates(&by_delivery, evidence) {
            *causes.entry(cause.unwrap_or("none".to_owned())).or_default() += 1;
        }
        let wrong = |name: &str| {
            checks.iter().find(|check| check.name.starts_with(name)).map_or(0, |c| c.wrong.len())
        };
        Self {
            form: evidence.form.name,
            settings: evidence.form.own(),
            seconds_of_faults: (phases.healed - phases.faults).num_seconds(),
            faults,
            due_seconds: evidence.calendar.iter().map(|span| span.due().count()).sum(),
            lost: wrong("each due second"),
            occurrences,
            left_at_switching_off: evidence.calendar.iter().map(|span| span.left()).sum(),
            deliveries: by_delivery.len(),
            requests: evidence.requests.len(),
            duplicates: causes,
            lateness_without_faults: lateness(evidence, (phases.calm, phases.faults), healthy),
            lateness_with_faults: lateness(evidence, (phases.faults, phases.healed), healthy),
            take_over_ms: take_over(evidence, healthy),
            recovery_ms: recovery(evidence),
            events: evidence.ledger.events.len(),
            messages: evidence.messages.len(),
            messages_twice: wrong("no message was sent twice"),
            memory_kib: evidence.memory.clone(),
            checks: checks.iter().map(|check| (check.name, check.passed())).collect(),
        }
    }
}

/// From when a due second was due until its first call came, at healthy backends.
fn lateness(
    evidence: &Evidence,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    healthy: &[&str],
) -> Option<Lateness> {
    let by_delivery = deliveries(&evidence.requests);
    let firsts = by_delivery.values().map(|requests| requests[0]);
    let mut late: Vec<_> = firsts
        .filter(|request| healthy.contains(&request.backend))
        .filter_map(|request| Some((request.due?, request.at)))
        // What a person runs has a fraction of a second.
        .filter(|(due, _)| due.timestamp_subsec_millis() == 0 && *due >= from && *due < until)
        .map(|(due, at)| (at - due).num_milliseconds())
        .collect();
    late.sort_unstable();
    let at = |part: usize| late[(late.len() - 1) * part / 100];
    let max_ms = *late.last()?;
    Some(Lateness { count: late.len(), p50_ms: at(50), p99_ms: at(99), max_ms })
}

/// Work that was taken back is attributed to the fault since which its lease has run. Only that of
/// healthy backends: others are waited for by more work than they have slots for.
fn take_over(evidence: &Evidence, healthy: &[&str]) -> BTreeMap<Kind, i64> {
    let by_delivery = deliveries(&evidence.requests);
    let lease = Duration::from_std(evidence.form.lease).unwrap_or_default();
    let expired = |reason: &Option<String>| reason.as_deref() == Some("lease_expired");
    let mut worst = BTreeMap::<Kind, i64>::new();
    for log in evidence.ledger.logs.iter().filter(|log| expired(&log.reason)) {
        let requests = log.scheduled_action_id.and_then(|id| by_delivery.get(&id));
        let again = |request: &&&Request| {
            healthy.contains(&request.backend)
                && request.at >= log.created_date - Duration::seconds(1)
        };
        let Some(next) = requests.and_then(|all| all.iter().find(again)) else {
            continue;
        };
        let far = |fault: &&Fault| (log.created_date - lease - fault.start).abs();
        let faults = evidence.past.faults.iter().filter(|fault| fault.kind != Kind::KillApi);
        if let Some(fault) = faults.filter(|fault| fault.start <= log.created_date).min_by_key(far)
        {
            let took = (next.at - fault.start).num_milliseconds();
            let entry = worst.entry(fault.kind).or_default();
            *entry = took.max(*entry);
        }
    }
    worst
}

fn recovery(evidence: &Evidence) -> Vec<i64> {
    let outages = evidence.past.faults.iter().filter(|fault| fault.kind == Kind::DatabaseDown);
    outages
        .filter_map(|outage| {
            let next = evidence.requests.iter().find(|request| request.at >= outage.end)?;
            Some((next.at - outage.end).num_milliseconds())
        })
        .collect()
}

/// Explains what came of each request, for a look at a run that failed.
pub fn trace(evidence: &Evidence) -> String {
    let mut lines = Vec::new();
    for fault in &evidence.past.faults {
        lines
            .push(format!("{} {:?} {:?} until {}", fault.start, fault.kind, fault.slot, fault.end));
    }
    for requests in deliveries(&evidence.requests).values().filter(|all| all.len() > 1) {
        for request in requests {
            let cause = cause(evidence, request, Utc::now());
            lines.push(format!(
                "{} {} {} attempt {} from {:?}: {:?} at {:?}, {cause:?}",
                request.webhook_id,
                request.at,
                request.backend,
                request.attempt,
                request.sender,
                request.answered,
                request.ended
            ));
        }
    }
    lines.join("\n")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |map: &BTreeMap<Kind, usize>| {
            let all: Vec<_> = map.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
            all.join(", ")
        };
        let mut row = |what: &str, found: String| writeln!(f, "| {what} | {found} |");
        row("", format!("{} s of faults", self.seconds_of_faults))?;
        row("---", "---".to_owned())?;
        row("faults", list(&self.faults))?;
        row("due seconds; lost", format!("{}; {}", self.due_seconds, self.lost))?;
        row("occurrences", format!("{:?}", self.occurrences))?;
        row("deliveries; requests", format!("{}; {}", self.deliveries, self.requests))?;
        let sum: usize = self.duplicates.values().sum();
        row("duplicates, by cause", format!("{sum} {:?}", self.duplicates))?;
        row("lateness without faults", show(self.lateness_without_faults))?;
        row("lateness with faults", show(self.lateness_with_faults))?;
        for (kind, took) in &self.take_over_ms {
            row(
                &format!("worst take-over after {kind:?}, healthy backends"),
                format!("{took} ms"),
            )?;
        }
        row("first call after the database is back", format!("{:?} ms", self.recovery_ms))?;
        let twice = self.messages_twice;
        let found = format!("{}; {}; {twice}", self.events, self.messages);
        row("events; messages; messages sent twice", found)?;
        for (name, early, end) in &self.memory_kib {
            let mb = |kib: &Option<u64>| kib.map_or("-".to_owned(), |kib| (kib / 1024).to_string());
            row(&format!("{name}: MiB early, at the end"), format!("{}, {}", mb(early), mb(end)))?;
        }
        Ok(())
    }
}

fn show(lateness: Option<Lateness>) -> String {
    lateness.map_or("-".to_owned(), |late| {
        let Lateness { count, p50_ms, p99_ms, max_ms } = late;
        format!("p50 {p50_ms} ms, p99 {p99_ms} ms, max {max_ms} ms of {count}")
    })
}
