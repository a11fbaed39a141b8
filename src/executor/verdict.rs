//! What an attempt's end means for its delivery: done, tried again, or given up.

use chrono::{DateTime, Duration, Utc};

use crate::domain::delivery::{ActionStatus, Delivery};
use crate::domain::fan_out::RetryPolicy;
use crate::egress::{FailureKind, Sent, retry_after};
use crate::store::executor::{Claimed, Finished};

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
    /// Whether the backend answered at all.
    pub answered: bool,
}

impl Attempted {
    /// Reads what was sent and what came back.
    pub fn of(number: i32, sent: &Sent, now: DateTime<Utc>) -> Self {
        match sent {
            Sent::Answered { status, headers, elapsed, .. } => {
                let success = (200..300).contains(status);
                Self {
                    number,
                    success,
                    response_status: Some(*status),
                    duration: *elapsed,
                    reason: (!success).then_some("http_status"),
                    error: (!success).then(|| format!("the backend answered {status}, not 2xx")),
                    retry_after: retry_after(headers, now)
                        .and_then(|pause| Duration::from_std(pause).ok())
                        .filter(|_| !success),
                    gone: *status == 410,
                    answered: true,
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
                answered: matches!(kind, FailureKind::Refused(_)),
            },
        }
    }
}

/// What becomes of a delivery after an attempt.
pub(super) fn after_attempt(
    claimed: &Claimed,
    attempted: &Attempted,
    now: DateTime<Utc>,
    (policy, jitter): (&RetryPolicy, f64),
) -> Finished {
    let delivery = &claimed.delivery;
    let mut finished = as_it_is(claimed);
    finished.retry_count = attempted.number;
    finished.last_error.clone_from(&attempted.error);
    if attempted.success {
        return ended(finished, ActionStatus::Completed, now);
    }
    let pause = policy.pause(attempted.number, jitter);
    let asked = attempted.retry_after.unwrap_or_default().min(policy.max);
    let next = now + pause.max(asked);
    if attempted.number >= policy.max_attempts || is_over(delivery, next) {
        return ended(finished, ActionStatus::Failed, now);
    }
    finished.execute_at = next;
    finished
}

/// What becomes of a delivery that was not attempted because its backend gets nothing for now.
pub(super) fn postponed(
    claimed: &Claimed,
    reason: &str,
    now: DateTime<Utc>,
    (policy, jitter): (&RetryPolicy, f64),
) -> Finished {
    let mut finished = as_it_is(claimed);
    finished.last_error = Some(reason.to_owned());
    let waited = now - claimed.delivery.created_at;
    let pause = policy.pause(1, jitter).max(waited / 2).min(policy.max);
    let next = claimed.delivery.expires_at.map_or(now + pause, |end| end.min(now + pause));
    finished.execute_at = next;
    finished
}

/// What becomes of a delivery whose budget has ended before an attempt could start.
pub(super) fn given_up(claimed: &Claimed, now: DateTime<Utc>) -> Finished {
    let mut finished = as_it_is(claimed);
    let last = finished.last_error.take();
    finished.last_error = Some(last.unwrap_or_else(|| "no attempt could start in time".to_owned()));
    ended(finished, ActionStatus::Failed, now)
}

/// What becomes of a delivery whose backend was deleted.
pub(super) fn cancelled(claimed: &Claimed, now: DateTime<Utc>) -> Finished {
    let mut finished = as_it_is(claimed);
    finished.last_error = Some("the backend was deleted".to_owned());
    ended(finished, ActionStatus::Cancelled, now)
}

/// What becomes of a delivery that is given back untouched.
pub(super) fn given_back(claimed: &Claimed) -> Finished {
    as_it_is(claimed)
}

/// Whether the delivery's budget has ended at `now`.
pub(super) fn is_over(delivery: &Delivery, now: DateTime<Utc>) -> bool {
    delivery.expires_at.is_some_and(|end| end <= now)
}

fn as_it_is(claimed: &Claimed) -> Finished {
    let delivery = &claimed.delivery;
    Finished {
        id: delivery.id,
        lease_token: claimed.lease.token,
        status: ActionStatus::Pending,
        execute_at: delivery.execute_at,
        executed_at: None,
        retry_count: delivery.retry_count,
        last_error: delivery.last_error.clone(),
    }
}

fn ended(mut finished: Finished, status: ActionStatus, now: DateTime<Utc>) -> Finished {
    finished.status = status;
    finished.executed_at = Some(now);
    finished
}
