//! What a person's retry may repeat, and what nobody may.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::backend::Request;
use super::invariants::{Verdict, hold};
use super::seen::{Seen, instant};
use super::world::World;

/// How many attempts a budget has; what the simulation's settings say too.
pub const BUDGET: usize = 6;
/// What can be tried again.
const ENDED: [&str; 3] = ["failed", "cancelled", "expired"];

/// Checks all of them.
pub fn check(world: &World, seen: &Seen) -> Verdict {
    retries_are_of_what_has_ended(seen)?;
    budgets_are_kept(world, seen)?;
    duplicates_have_an_excuse(world, seen)
}

/// What is pending, being worked on or done is not given a new budget, and it keeps its count.
fn retries_are_of_what_has_ended(seen: &Seen) -> Verdict {
    for row in seen.retry_rows() {
        let (before, after) = (row.before.as_ref().unwrap(), row.after.as_ref().unwrap());
        let ended = before["status"].as_str().is_some_and(|status| ENDED.contains(&status));
        hold!(ended, "a retry of what has not ended: {row:?}");
        let counts = before["attempts"] == after["attempts"];
        let waits = after["status"] == "pending" && instant(&after["executeAt"]) >= row.at;
        hold!(counts && waits, "a retry that is none: {row:?}");
    }
    Ok(())
}

/// Nothing is sent more often than its budgets allow. (An executor that dies when it was about to give
/// work up counts as one more attempt, but it sends nothing.)
fn budgets_are_kept(world: &World, seen: &Seen) -> Verdict {
    let pushes = world.p.line.requests().into_iter().filter_map(|request| request.retry_key);
    let calls = seen.requests.iter().map(|request| request.id.clone());
    let mut sent = BTreeMap::<_, usize>::new();
    for id in pushes.chain(calls) {
        *sent.entry(id).or_default() += 1;
    }
    for (id, times) in sent {
        let budgets = 1 + seen.retries(&id).len();
        hold!(times <= BUDGET * budgets, "sent {times} times in {budgets} budgets: {id}");
    }
    Ok(())
}

/// Invariant 6: After a 2xx that its executor could record, nothing is sent again: unless a person had
/// taken the work back while it was claimed, and then had it tried again.
fn duplicates_have_an_excuse(world: &World, seen: &Seen) -> Verdict {
    for (id, requests) in seen.by_delivery() {
        for pair in requests.windows(2).filter(|pair| pair[0].succeeded()) {
            let (from, until) = (claimed(world, pair[0]), claimed(world, pair[1]));
            let retried = seen.retries(id).iter().any(|at| from <= *at && *at <= until);
            let excused = pair[0].excuse.is_some() || retried;
            hold!(excused, "sent again, for no reason: {pair:#?}");
        }
    }
    Ok(())
}

/// When a request was claimed.
fn claimed(world: &World, request: &Request) -> DateTime<Utc> {
    let key = (request.id.parse().unwrap(), request.attempt - 1);
    let claims = world.times.claimed.get(&key).into_iter().flatten();
    claims.filter(|at| **at <= request.at).max().copied().unwrap_or(request.at)
}
