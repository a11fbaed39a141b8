//! Each check must be able to fail: what was found is spoiled, one thing at a time, and the check
//! that is about it must notice.

use std::sync::Arc;

use chrono::Duration;

use crate::calls::deliveries;
use crate::checks::{self, Check, Evidence};
use crate::load::Outcome;
use crate::world::DISABLE;

/// What the name of a check begins with, and what spoils it; false: there is nothing to spoil.
type Spoiled = (&'static str, fn(&mut Evidence) -> bool);

const SPOILED: [Spoiled; 26] = [
    ("no due second has two", |found| {
        let first = found.ledger.occurrences.iter().find(|one| one.origin == "schedule").cloned();
        first.map(|one| found.ledger.occurrences.push(one)).is_some()
    }),
    ("each due second", |found| {
        let at = found.ledger.occurrences.iter().position(|one| one.origin == "schedule");
        at.map(|at| found.ledger.occurrences.remove(at)).is_some()
    }),
    ("each due second", |found| {
        let one = found.ledger.occurrences.iter_mut().find(|one| one.origin == "schedule");
        one.map(|one| one.status = "skipped".to_owned()).is_some()
    }),
    ("nothing is stuck", |found| {
        found.stuck.push("a delivery".to_owned());
        true
    }),
    ("each delivery was made", |found| {
        let one = found.ledger.actions.iter_mut().find(|one| one.trigger_id.is_some());
        one.map(|one| one.status = "failed".to_owned()).is_some()
    }),
    ("no occurrence is beside", |found| {
        let mut all = found.ledger.occurrences.iter_mut();
        let one = all.find(|one| one.origin == "schedule" && one.until_at.is_none());
        one.map(|one| one.scheduled_at += Duration::milliseconds(500)).is_some()
    }),
    ("the counters", |found| {
        found.ledger.occurrences.first_mut().map(|one| one.delivered += 1).is_some()
    }),
    ("no backend got a due time", |found| {
        let Some(mut again) = found.requests.first().cloned() else { return false };
        again.webhook_id = uuid::Uuid::now_v7();
        found.requests.push(again);
        true
    }),
    ("the ledger and the backends", |found| {
        let completed = |one: &&mut crate::ledger::Action| {
            one.trigger_occurrence_id.is_some() && one.status == "completed"
        };
        let one = found.ledger.actions.iter_mut().find(completed);
        one.map(|one| one.status = "failed".to_owned()).is_some()
    }),
    ("attempts of a delivery carry", |found| repeat(found, |again| again.body.push(b' '))),
    ("attempt numbers rise", |found| repeat(found, |again| again.attempt = 0)),
    ("attempts of a delivery do not overlap", |found| {
        repeat(found, |_| ()) && {
            let repeated = found.requests.last().map(|again| again.webhook_id);
            let first = found.requests.iter_mut().find(|one| Some(one.webhook_id) == repeated);
            found.past = Arc::default();
            found.ledger.logs.clear();
            first.map(|one| one.ended = Some(one.at + Duration::seconds(5))).is_some()
        }
    }),
    ("each duplicate", |found| {
        repeat(found, |_| ()) && {
            // With nothing to blame, every duplicate is one too many.
            found.past = Arc::default();
            found.ledger.logs.clear();
            true
        }
    }),
    ("nothing is called long after", |found| {
        let off = found
            .calls
            .iter()
            .find(|call| matches!(call.what, DISABLE) && call.outcome == Outcome::Accepted);
        let Some((off, at)) = off.map(|call| (call.about.clone(), call.ended)) else {
            return false;
        };
        let of_it = |id: uuid::Uuid| id.to_string() == off;
        let called = found.requests.iter_mut().find(|one| one.trigger_id.is_some_and(of_it));
        found.past = Arc::default();
        called.map(|called| called.at = at + Duration::minutes(5)).is_some()
    }),
    ("no attempt is logged twice", |found| {
        let one = found.ledger.logs.iter().find(|log| log.attempt.is_some()).cloned();
        one.map(|one| found.ledger.logs.push(one)).is_some()
    }),
    ("each accepted event", |found| found.ledger.events.pop().is_some()),
    ("each accepted event", |found| {
        let evaluated = |log: &&crate::ledger::Log| {
            log.event_id.is_some() && log.attempt.is_none() && log.status == "queued"
        };
        let one = found.ledger.logs.iter().find(evaluated).cloned();
        one.map(|one| found.ledger.logs.push(one)).is_some()
    }),
    ("each event of a plain rule", |found| lose(found, "plain ")),
    ("a rule that fires once", |found| repeat_message(found, "once ")),
    ("a cooldown is kept", |found| {
        let rule = Some(found.rules[1]);
        let cool =
            |log: &&crate::ledger::Log| log.trigger_rule_id == rule && log.status == "queued";
        let one = found.ledger.logs.iter().find(cool).cloned();
        one.map(|one| found.ledger.logs.push(one)).is_some()
    }),
    ("no process panicked", |found| {
        let said = ("api 1".to_owned(), vec!["thread 'main' panicked at".to_owned()]);
        found.output = Arc::new(vec![said]);
        true
    }),
    ("no process ended unasked", |found| {
        found.unasked.push("api 1".to_owned());
        true
    }),
    ("no process takes more", |found| {
        found.memory.first_mut().map(|one| one.2 = Some(129 * 1024)).is_some()
    }),
    ("every fault", |found| {
        let faults = found.past.faults.clone();
        found.past = Arc::new(crate::faults::Past { faults, missed: vec!["Kill".to_owned()] });
        true
    }),
    ("no message was sent twice", |found| {
        let one = found.messages.first().cloned();
        one.map(|one| found.messages.push(one)).is_some()
    }),
    ("each change has its row", |found| {
        let owed = found.ledger.audits.iter().position(|row| row.action == "trigger.create");
        owed.map(|owed| found.ledger.audits.remove(owed)).is_some()
    }),
];

/// Loses a message whose text begins so.
fn lose(found: &mut Evidence, text: &str) -> bool {
    let at = found.messages.iter().position(|one| says(one, text));
    at.map(|at| found.messages.remove(at)).is_some()
}

/// Has a message whose text begins so arrive once more.
fn repeat_message(found: &mut Evidence, text: &str) -> bool {
    let one = found.messages.iter().find(|one| says(one, text)).cloned();
    one.map(|one| found.messages.push(one)).is_some()
}

fn says(message: &trigger_manager::line::stand_in::Accepted, text: &str) -> bool {
    message.messages[0]["text"].as_str().is_some_and(|said| said.starts_with(text))
}

/// Adds a request to a delivery that succeeded, changed as is wanted.
fn repeat(found: &mut Evidence, change: fn(&mut crate::backends::Request)) -> bool {
    let by_delivery = deliveries(&found.requests);
    let once = by_delivery.values().find(|all| all.len() == 1 && all[0].succeeded());
    let Some(mut again) = once.map(|all| all[0].clone()) else { return false };
    again.at += Duration::seconds(1);
    again.attempt += 1;
    change(&mut again);
    found.requests.push(again);
    true
}

/// The check of the checks.
pub fn of(evidence: &Evidence) -> Check {
    let blind = SPOILED.iter().filter(|(name, spoil)| {
        let mut spoiled = evidence.clone();
        let noticed = spoil(&mut spoiled)
            && checks::all(&spoiled)
                .iter()
                .any(|check| check.name.starts_with(name) && !check.passed());
        !noticed
    });
    let blind = blind.map(|(name, _)| format!("{name}… does not notice")).collect();
    Check::of("each check notices what is spoiled on purpose", SPOILED.len(), "checks", blind)
}
