//! What an attempt's end means for the work: done, tried again, or given up.

use bytes::Bytes;
use chrono::{DateTime, Duration, Utc};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::domain::delivery::ActionStatus;
use crate::domain::fan_out::RetryPolicy;
use crate::domain::rule::misfit::cut;
use crate::domain::scheduled_action::ScheduledAction;
use crate::egress::{FailureKind, Sent, retry_after};
use crate::line::{LineAnswer, Outcome};
use crate::store::executor::{Claimed, Finished};

/// How much of a backend's answer is kept, in characters.
const EXCERPT_MAX: usize = 200;
/// How long before the end of its budget the last attempt of work is due.
const LAST_ATTEMPT: Duration = Duration::seconds(1);

/// What an attempt showed, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempted {
    pub number: i32,
    pub success: bool,
    pub response_status: Option<u16>,
    pub duration: std::time::Duration,
    /// A code for what went wrong.
    pub reason: Option<&'static str>,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// How long the backend asked to be left alone.
    pub retry_after: Option<Duration>,
    /// The backend says that it is gone for good.
    pub gone: bool,
    /// Another attempt would end the same way.
    pub hopeless: bool,
    /// Whether the other side answered at all; none: it was not asked.
    pub answered: Option<bool>,
    /// What the LINE platform calls the request.
    pub platform_request_id: Option<String>,
}

impl Attempted {
    /// Reads what was sent and what came back.
    pub fn of(number: i32, sent: &Sent, now: DateTime<Utc>) -> Self {
        match sent {
            Sent::Answered { status, headers, body, elapsed, .. } => {
                let success = (200..300).contains(status);
                Self {
                    number,
                    success,
                    response_status: Some(*status),
                    duration: *elapsed,
                    reason: (!success).then_some("http_status"),
                    error: (!success).then(|| match excerpt(headers, body) {
                        said if said.is_empty() => {
                            format!("the backend answered {status}, not 2xx")
                        }
                        said => format!("the backend answered {status}, not 2xx: {said}"),
                    }),
                    retry_after: retry_after(headers, now)
                        .and_then(|pause| Duration::from_std(pause).ok())
                        .filter(|_| !success),
                    gone: *status == 410,
                    hopeless: false,
                    answered: Some(true),
                    platform_request_id: None,
                }
            }
            Sent::Failed { kind, detail, elapsed, .. } => Self {
                number,
                success: false,
                response_status: None,
                duration: *elapsed,
                reason: Some(kind.as_str()),
                error: Some(detail.clone()),
                retry_after: None,
                gone: false,
                hopeless: false,
                answered: (!matches!(kind, FailureKind::Refused(_))).then_some(false),
                platform_request_id: None,
            },
        }
    }

    /// Reads what the LINE platform answered. `pause`: how long the channel sends nothing after an
    /// answer that concerns all of it.
    pub fn of_line(number: i32, answer: LineAnswer, pause: Option<Duration>) -> Self {
        let (success, reason) = match answer.outcome {
            Outcome::Done | Outcome::AlreadyDone => (true, None),
            Outcome::Retry { reason } => (false, Some(reason)),
            Outcome::RateLimited => (false, Some("rate_limited")),
            Outcome::MonthlyLimit => (false, Some("monthly_limit")),
            Outcome::Unauthorized => (false, Some("unauthorized")),
            Outcome::Refused { .. } => (false, Some("refused_by_platform")),
        };
        let said = answer.message.unwrap_or_else(|| "without a word".to_owned());
        let error = match answer.status {
            Some(status) => format!("the LINE platform answered {status}: {said}"),
            None => said,
        };
        Self {
            number,
            success,
            response_status: answer.status,
            duration: answer.elapsed,
            reason,
            error: (!success).then_some(error),
            retry_after: pause,
            gone: false,
            hopeless: matches!(answer.outcome, Outcome::Refused { .. }),
            answered: match answer.outcome {
                Outcome::Retry { .. } => Some(answer.status.is_some()),
                _ => answer.status.map(|_| true),
            },
            platform_request_id: answer.accepted_request_id.or(answer.request_id),
        }
    }
}

/// How a body begins, in one line, if it is text: at most 200 characters, for who looks for the reason.
fn excerpt(headers: &HeaderMap, body: &Bytes) -> String {
    let start = &body[..body.len().min(4 * EXCERPT_MAX)];
    let start = match std::str::from_utf8(start) {
        Ok(text) => text,
        // A character may be cut in two.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return String::new(),
    };
    if headers.contains_key(CONTENT_ENCODING) {
        return String::new();
    }
    let words = start.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    cut(&line, EXCERPT_MAX)
}

/// What becomes of work after an attempt.
pub(super) fn after_attempt(
    claimed: &Claimed,
    attempted: &Attempted,
    now: DateTime<Utc>,
    (policy, jitter): (&RetryPolicy, f64),
) -> Finished {
    let action = &claimed.action;
    let mut finished = as_it_is(claimed);
    finished.retry_count = attempted.number;
    finished.last_error.clone_from(&attempted.error);
    if attempted.success {
        return ended(finished, ActionStatus::Completed, now);
    }
    let over = attempted.hopeless
        || attempts_are_used_up(action, attempted.number, policy)
        || is_over(action, now);
    if over {
        return ended(finished, ActionStatus::Failed, now);
    }
    let pause = policy.pause(attempted.number - action.attempts_before, jitter);
    let asked = attempted.retry_after.unwrap_or_default().min(policy.max);
    let next = now + pause.max(asked);
    let earliest = now + asked.max(policy.initial);
    finished.execute_at = action.expires_at.map_or(next, |end| within(end, next, earliest));
    finished
}

/// When work that fails is due that was to be due at `next`, if its budget ends at `end`: a pause that
/// reaches beyond the end becomes a last attempt shortly before it, unless that came before `earliest`.
/// Then it waits for its end, and for what may wake it.
fn within(end: DateTime<Utc>, next: DateTime<Utc>, earliest: DateTime<Utc>) -> DateTime<Utc> {
    let last = end - LAST_ATTEMPT;
    match next <= last {
        true => next,
        false if earliest <= last => last,
        false => end,
    }
}

/// What becomes of work that was not attempted because nothing may be sent for now: it comes back
/// soon after `not_before`; if that is not known, ever later.
pub(super) fn postponed(
    claimed: &Claimed,
    (reason, not_before): (&str, DateTime<Utc>),
    now: DateTime<Utc>,
    (policy, jitter): (&RetryPolicy, f64),
) -> Finished {
    let mut finished = as_it_is(claimed);
    finished.last_error = Some(reason.to_owned());
    let first = policy.pause(1, jitter);
    let waited = now - claimed.action.created_at;
    let next = match not_before > now {
        true => not_before + first,
        false => now + first.max(waited / 2).min(policy.max),
    };
    finished.execute_at = claimed.action.expires_at.map_or(next, |end| end.min(next));
    finished
}

/// What becomes of work that was done where it is recorded.
pub(super) fn done(claimed: &Claimed, number: i32, now: DateTime<Utc>) -> Finished {
    let mut finished = as_it_is(claimed);
    finished.retry_count = number;
    finished.last_error = None;
    ended(finished, ActionStatus::Completed, now)
}

/// What becomes of work whose budget has ended before an attempt could start. What a rule or a
/// workflow service queued and nobody ever attempted has expired.
pub(super) fn given_up(claimed: &Claimed, now: DateTime<Utc>) -> Finished {
    let mut finished = as_it_is(claimed);
    let action = &claimed.action;
    let attempted = action.retry_count > action.attempts_before;
    if action.cause.trigger_id.is_none() && !attempted {
        let last = finished.last_error.take();
        finished.last_error = Some(last.unwrap_or_else(|| "its time had passed".to_owned()));
        return ended(finished, ActionStatus::Expired, now);
    }
    let last = finished.last_error.take();
    finished.last_error = Some(last.unwrap_or_else(|| "no attempt could start in time".to_owned()));
    ended(finished, ActionStatus::Failed, now)
}

/// What becomes of work whose backend, application or LINE OA was deleted.
pub(super) fn gone(claimed: &Claimed, now: DateTime<Utc>) -> Finished {
    let what = match claimed.action.concern {
        ref concern if concern.backend_id.is_some() => "backend_deleted",
        ref concern if concern.application_id.is_some() => "application_deleted",
        _ => "line_oa_deleted",
    };
    cancelled(claimed, what, now)
}

/// What becomes of work that leads to something that was deleted.
pub(super) fn cancelled(claimed: &Claimed, what: &str, now: DateTime<Utc>) -> Finished {
    let mut finished = as_it_is(claimed);
    finished.last_error = Some(what.to_owned());
    ended(finished, ActionStatus::Cancelled, now)
}

/// What becomes of work that is given back untouched.
pub(super) fn given_back(claimed: &Claimed) -> Finished {
    as_it_is(claimed)
}

/// What becomes of work that is given back until `at`.
pub(super) fn given_back_for(claimed: &Claimed, at: DateTime<Utc>) -> Finished {
    let finished = as_it_is(claimed);
    Finished { execute_at: finished.execute_at.max(at), ..finished }
}

/// Whether the budget allows no attempt after the one with this number.
pub(super) fn attempts_are_used_up(
    action: &ScheduledAction,
    number: i32,
    policy: &RetryPolicy,
) -> bool {
    number - action.attempts_before >= policy.max_attempts
}

/// Whether the budget has ended at `now`.
pub(super) fn is_over(action: &ScheduledAction, now: DateTime<Utc>) -> bool {
    action.expires_at.is_some_and(|end| end <= now)
}

fn as_it_is(claimed: &Claimed) -> Finished {
    let action = &claimed.action;
    Finished {
        id: action.id,
        lease_token: claimed.lease.token,
        status: ActionStatus::Pending,
        execute_at: action.execute_at,
        executed_at: None,
        retry_count: action.retry_count,
        last_error: action.last_error.clone(),
    }
}

fn ended(mut finished: Finished, status: ActionStatus, now: DateTime<Utc>) -> Finished {
    finished.status = status;
    finished.executed_at = Some(now);
    finished
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
