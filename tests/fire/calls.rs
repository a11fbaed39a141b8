//! What the backends' own logs must say.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::backends::Request;
use crate::checks::{Check, Evidence};
use crate::faults::{Fault, Kind};
use crate::load::Outcome;
use crate::world::DISABLE;

/// Differences of this size are the machine's.
const MOMENT: Duration = Duration::seconds(1);

/// The requests of each delivery, in the order in which they came.
pub type Deliveries<'a> = BTreeMap<Uuid, Vec<&'a Request>>;

pub fn deliveries(requests: &[Request]) -> Deliveries<'_> {
    let mut deliveries = Deliveries::new();
    for request in requests {
        deliveries.entry(request.webhook_id).or_default().push(request);
    }
    deliveries
}

/// Why the outcome of a request that was sent may have stayed unknown until `later`.
pub fn cause(evidence: &Evidence, request: &Request, later: DateTime<Utc>) -> Option<Kind> {
    let faults = &evidence.past.faults;
    let lease = Duration::from_std(evidence.form.lease).unwrap_or_default();
    // What was sent longer before a fault than work is held had been recorded, or given to another.
    let is_near = |fault: &&Fault| request.at >= fault.start - lease;
    let hit = |fault: &&Fault| match fault.kind {
        Kind::KillApi => false,
        // What a transaction has locked, the others wait for as well.
        Kind::DatabaseDown | Kind::StopInTransaction => {
            fault.start <= later && request.at <= fault.end + MOMENT
        }
        Kind::Stop => {
            is_of(fault, request) && fault.start <= later && request.at <= fault.end + MOMENT
        }
        _ => is_of(fault, request) && fault.start <= later && request.at <= fault.start + MOMENT,
    };
    let own = |fault: &&Fault| is_of(fault, request);
    let hits = || faults.iter().filter(is_near).filter(hit);
    hits().find(own).or_else(|| hits().next()).map(|fault| fault.kind)
}

/// Whether it hit the executor that sent the request; one whose sender is not known may be anyone's.
fn is_of(fault: &Fault, request: &Request) -> bool {
    fault.slot.is_some() && request.sender.is_none_or(|(slot, _)| Some(slot) == fault.slot)
}

/// Requests after a success of the same delivery, each with why there was one: the fault that hit
/// the executor that had succeeded, or the one that called again, or that the executor had stopped
/// waiting when the answer came, as its log says.
pub fn duplicates<'a>(
    deliveries: &Deliveries<'a>,
    evidence: &Evidence,
) -> Vec<(&'a Request, Option<String>)> {
    let logs = evidence.ledger.logs.iter();
    let missed: BTreeSet<_> = logs
        .filter(|log| log.status == "error" && log.reason.as_deref() == Some("timeout"))
        .map(|log| (log.scheduled_action_id, log.attempt))
        .collect();
    let mut found = Vec::new();
    for requests in deliveries.values() {
        let Some(first) = requests.iter().position(|request| request.succeeded()) else { continue };
        let request = requests[first];
        for again in &requests[first + 1..] {
            let faults = &evidence.past.faults;
            let fault = cause(evidence, request, again.at).or_else(|| woken(faults, again));
            let late = missed.contains(&(Some(request.webhook_id), Some(request.attempt)));
            let why = fault.map(|kind| format!("{kind:?}"));
            found.push((*again, why.or_else(|| late.then(|| "AnswerTooLate".to_owned()))));
        }
    }
    found
}

/// Whether the executor was stopped between its last look at the clock and the request, which it made
/// when it was woken: others had taken the work over meanwhile.
fn woken(faults: &[Fault], request: &Request) -> Option<Kind> {
    let stops = faults.iter().filter(|fault| {
        matches!(fault.kind, Kind::Stop | Kind::StopInTransaction)
            && is_of(fault, request)
            && fault.start <= request.at
            && request.at <= fault.end + MOMENT
    });
    stops.map(|fault| fault.kind).next()
}

pub fn all(evidence: &Evidence) -> Vec<Check> {
    let deliveries = deliveries(&evidence.requests);
    vec![
        twice(evidence),
        ledger(evidence, &deliveries),
        done(evidence),
        same(&deliveries),
        order(evidence, &deliveries),
        apart(evidence, &deliveries),
        explained(evidence, &deliveries),
        off(evidence),
        logged(evidence),
    ]
}

/// A due second must not reach a backend as two deliveries.
fn twice(evidence: &Evidence) -> Check {
    let mut ids = BTreeMap::<_, BTreeSet<Uuid>>::new();
    for request in &evidence.requests {
        let key = (request.trigger_id, request.due, request.backend);
        ids.entry(key).or_default().insert(request.webhook_id);
    }
    let wrong = ids.iter().filter(|(_, ids)| ids.len() > 1);
    let wrong = wrong.map(|(key, ids)| format!("{key:?}: {ids:?}")).collect();
    Check::of("no backend got a due time as two deliveries", ids.len(), "due times", wrong)
}

fn ledger(evidence: &Evidence, deliveries: &Deliveries<'_>) -> Check {
    let calls = evidence.ledger.actions.iter().filter(|action| action.trigger_id.is_some());
    let states: BTreeMap<_, _> = calls.map(|action| (action.id, action.status.as_str())).collect();
    let succeeded = |requests: &Vec<&Request>| requests.iter().any(|request| request.succeeded());
    let mut wrong = Vec::new();
    for (id, requests) in deliveries {
        match states.get(id) {
            None => wrong.push(format!("{id} was called and is not in the ledger")),
            // What was under way when its trigger was switched off is recorded as cancelled.
            Some(&("completed" | "cancelled")) => {}
            Some(state) if succeeded(requests) => {
                wrong.push(format!("{id} succeeded, and is {state}"))
            }
            Some(_) => {}
        }
    }
    for (id, _) in states.iter().filter(|(_, state)| **state == "completed") {
        if !deliveries.get(id).is_some_and(succeeded) {
            wrong.push(format!("{id} is completed, and no backend answered 2xx"));
        }
    }
    Check::of(
        "the ledger and the backends agree on what was delivered",
        states.len(),
        "deliveries",
        wrong,
    )
}

/// The budget outlasts the run: nothing is given up.
fn done(evidence: &Evidence) -> Check {
    let calls = evidence.ledger.actions.iter().filter(|action| action.trigger_id.is_some());
    let is_done = |status: &str| matches!(status, "completed" | "cancelled");
    let wrong = calls.clone().filter(|action| !is_done(&action.status));
    let wrong = wrong.map(|action| format!("{} is {}", action.id, action.status)).collect();
    let name = "each delivery was made, or taken back by who switched its trigger off";
    Check::of(name, calls.count(), "deliveries", wrong)
}

fn same(deliveries: &Deliveries<'_>) -> Check {
    let differs = |requests: &&Vec<&Request>| {
        requests.iter().any(|request| {
            let first = requests[0];
            request.body != first.body || request.backend != first.backend || !request.token_fits
        })
    };
    let wrong = deliveries.values().filter(differs);
    let wrong = wrong.map(|requests| requests[0].webhook_id.to_string()).collect();
    let again = deliveries.values().filter(|requests| requests.len() > 1).count();
    Check::of(
        "attempts of a delivery carry the same body, to the same backend, with its token",
        again,
        "repeated deliveries",
        wrong,
    )
}

/// Attempts that follow each other.
fn pairs<'a>(deliveries: &'a Deliveries<'a>) -> impl Iterator<Item = (&'a Request, &'a Request)> {
    deliveries.values().flat_map(|requests| requests.windows(2).map(|pair| (pair[0], pair[1])))
}

fn order(evidence: &Evidence, deliveries: &Deliveries<'_>) -> Check {
    let wrong = pairs(deliveries)
        // A process that was stopped between its claim and its call calls with an old number.
        .filter(|(one, next)| next.attempt <= one.attempt && !was_stopped(evidence, next, next.at))
        .map(|(one, next)| format!("{}: {} then {}", one.webhook_id, one.attempt, next.attempt));
    let wrong = wrong.collect();
    Check::of("attempt numbers rise", pairs(deliveries).count(), "repetitions", wrong)
}

fn was_stopped(evidence: &Evidence, request: &Request, at: DateTime<Utc>) -> bool {
    evidence.past.faults.iter().any(|fault| {
        matches!(fault.kind, Kind::Stop | Kind::StopInTransaction)
            && is_of(fault, request)
            && fault.start <= at
            && at <= fault.end + Duration::seconds(10)
    })
}

/// An attempt has ended when its connection has, or when the executor says so: whoever notices that a
/// connection was closed may do so late.
fn apart(evidence: &Evidence, deliveries: &Deliveries<'_>) -> Check {
    let own = evidence.ledger.logs.iter();
    let own = own.filter(|log| log.reason.as_deref() != Some("lease_expired"));
    let said: BTreeMap<_, _> =
        own.map(|log| ((log.scheduled_action_id, log.attempt), log.created_date)).collect();
    let end = |one: &Request| {
        let said = said.get(&(Some(one.webhook_id), Some(one.attempt))).copied();
        one.ended.into_iter().chain(said).min()
    };
    let wrong = pairs(deliveries)
        .filter(|(one, next)| end(one).is_none_or(|ended| next.at + MOMENT / 2 < ended))
        .filter(|(one, next)| cause(evidence, one, next.at).is_none())
        .filter(|(one, _)| !was_stopped(evidence, one, one.at))
        .map(|(one, next)| format!("{}, then {}", told(one), told(next)));
    let wrong = wrong.collect();
    Check::of(
        "attempts of a delivery do not overlap without a cause",
        pairs(deliveries).count(),
        "repetitions",
        wrong,
    )
}

fn told(request: &Request) -> String {
    let Request { webhook_id, attempt, backend, sender, at, ended, .. } = request;
    format!("attempt {attempt} of {webhook_id} at {backend} by {sender:?} from {at} to {ended:?}")
}

fn explained(evidence: &Evidence, deliveries: &Deliveries<'_>) -> Check {
    let duplicates = duplicates(deliveries, evidence);
    let wrong = duplicates.iter().filter(|(_, cause)| cause.is_none());
    let wrong = wrong.map(|(again, _)| format!("{} at {}", again.webhook_id, again.at)).collect();
    let mut check = Check::of("each duplicate has a cause", deliveries.len(), "deliveries", wrong);
    check.seen = format!("{}, {} duplicates", check.seen, duplicates.len());
    check
}

/// What was due before a trigger was switched off is not called later than one pass and an attempt.
fn off(evidence: &Evidence) -> Check {
    let form = &evidence.form;
    let bound = Duration::from_std(form.pass + form.timeout).unwrap_or_default() + MOMENT;
    let mut switched = BTreeMap::<Uuid, Vec<DateTime<Utc>>>::new();
    for call in evidence.calls.iter().filter(|call| call.outcome == Outcome::Accepted) {
        if matches!(call.what, DISABLE | "deleteTrigger")
            && let Ok(id) = call.about.parse()
        {
            switched.entry(id).or_default().push(call.ended);
        }
    }
    let late = |request: &&Request| {
        let times = request.trigger_id.and_then(|id| switched.get(&id));
        times
            .into_iter()
            .flatten()
            .any(|off| request.due.is_some_and(|due| due <= *off) && request.at > *off + bound)
    };
    let late = evidence.requests.iter().filter(late);
    let late = late.filter(|request| !was_stopped(evidence, request, request.at));
    let wrong = late.map(|request| format!("{:?} at {}", request.trigger_id, request.at)).collect();
    Check::of("nothing is called long after its trigger is off", switched.len(), "triggers", wrong)
}

fn logged(evidence: &Evidence) -> Check {
    let mut rows = BTreeMap::<_, usize>::new();
    let attempts = evidence.ledger.logs.iter().filter(|log| log.attempt.is_some());
    for log in attempts {
        let key = (log.scheduled_action_id, log.attempt, &log.status, &log.reason);
        *rows.entry(key).or_default() += 1;
    }
    let wrong = rows.iter().filter(|(_, count)| **count > 1);
    let wrong = wrong.map(|(key, count)| format!("{key:?}: {count} rows")).collect();
    Check::of("no attempt is logged twice", rows.len(), "attempts", wrong)
}
