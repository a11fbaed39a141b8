//! Until when a message may be tried again: the platform remembers its retry key for 24 hours after it
//! was first used, and what it may have sent before that must not be sent again. Pure.

use std::collections::HashSet;

use chrono::{DateTime, Utc};

use crate::domain::delivery::Attempt;
use crate::domain::line::CALL_BUDGET;
use crate::domain::scheduled_action::ScheduledAction;
use crate::egress::FailureKind;

/// When the platform may have forgotten the key of a message of which the log holds these `attempts`.
/// None when no attempt can have sent it.
///
/// An attempt may have no row: its executor was killed after a person had taken the message back, or
/// `retention.log` has ended. It began at the earliest with the message's last budget, since no budget
/// reaches further than [`CALL_BUDGET`] after the first attempt that may have sent it.
pub(super) fn forgotten_at(
    action: &ScheduledAction,
    attempts: &[Attempt],
) -> Option<DateTime<Utc>> {
    let logged: HashSet<_> = attempts.iter().map(|attempt| attempt.number).collect();
    let unlogged = (1..=action.retry_count).any(|number| !logged.contains(&number));
    let budget_began = action.expires_at.map(|end| end - CALL_BUDGET);
    let earliest = budget_began.map_or(action.created_at, |began| began.max(action.created_at));
    let sent = attempts.iter().filter(|attempt| may_have_sent(attempt));
    let first = sent.map(|attempt| attempt.created_at).chain(unlogged.then_some(earliest)).min();
    first.map(|first| first + CALL_BUDGET)
}

/// The reasons of attempts that ended here, before a request was made.
const NOT_TRIED: [&str; 5] =
    ["rate_limited", "unauthorized", "refused_by_platform", "unreadable", "unsendable"];

/// A refusal of the platform says that nothing was sent, and so does an attempt that did not get as far
/// as sending. A success counts: it may be that of an attempt that was under way when the message was
/// taken back.
fn may_have_sent(attempt: &Attempt) -> bool {
    let not_sent = match (attempt.response_status, attempt.reason.as_deref()) {
        (Some(status), _) => (400..500).contains(&status),
        (None, Some(reason)) => {
            FailureKind::NOT_SENT.contains(&reason) || NOT_TRIED.contains(&reason)
        }
        (None, None) => false,
    };
    attempt.status == "success" || !not_sent
}

#[cfg(test)]
mod tests {
    use chrono::{Duration, TimeZone};
    use serde_json::Value;

    use super::*;
    use crate::domain::delivery::ActionStatus;
    use crate::domain::id::ScheduledActionId;
    use crate::domain::scheduled_action::{ActionConfig, Cause, Concern};

    fn start() -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
    }

    /// A message that was queued at the start, with so many attempts.
    fn message(retry_count: i32) -> ScheduledAction {
        ScheduledAction {
            id: ScheduledActionId::new(),
            parent_id: None,
            action_type: "send_message".into(),
            config: ActionConfig::Rendered(Value::Null),
            cause: Cause::default(),
            concern: Concern::default(),
            lane: uuid::Uuid::nil(),
            status: ActionStatus::Cancelled,
            retry_count,
            attempts_before: 0,
            execute_at: start(),
            expires_at: Some(start() + CALL_BUDGET),
            executed_at: None,
            last_error: None,
            created_at: start(),
            updated_at: start(),
        }
    }

    /// An attempt so many minutes after the start.
    fn attempt(number: i32, status: &str, answer: Option<i16>, minutes: i64) -> Attempt {
        Attempt {
            id: i64::from(number),
            delivery_id: ScheduledActionId::new(),
            number,
            status: status.into(),
            response_status: answer,
            duration_ms: None,
            reason: None,
            error_message: None,
            created_at: start() + Duration::minutes(minutes),
        }
    }

    #[test]
    fn an_attempt_may_have_sent_a_message_unless_the_platform_refused_it() {
        let until = |status, answer| {
            forgotten_at(&message(1), &[attempt(1, status, answer, 5)])
                .map(|until| until - CALL_BUDGET - start())
        };
        for answer in [None, Some(101), Some(302), Some(399), Some(500), Some(503)] {
            assert_eq!(until("error", answer), Some(Duration::minutes(5)), "{answer:?}");
        }
        for answer in [400, 401, 404, 429, 499] {
            assert_eq!(until("error", Some(answer)), None, "{answer}");
        }
        for answer in [Some(200), Some(409), None] {
            assert_eq!(until("success", answer), Some(Duration::minutes(5)), "{answer:?}");
        }
        assert_eq!(forgotten_at(&message(0), &[]), None);
    }

    #[test]
    fn an_attempt_that_got_no_connection_or_was_held_back_here_sent_nothing() {
        let until = |reason: &str| {
            let attempt = Attempt { reason: Some(reason.into()), ..attempt(1, "error", None, 5) };
            forgotten_at(&message(1), &[attempt])
        };
        for reason in FailureKind::NOT_SENT.into_iter().chain(NOT_TRIED) {
            assert_eq!(until(reason), None, "{reason}");
        }
        for reason in ["timeout", "closed", "protocol", "http_status", "broken_off"] {
            assert!(until(reason).is_some(), "{reason}");
        }
    }

    #[test]
    fn the_first_attempt_that_may_have_sent_a_message_counts() {
        let attempts = [
            attempt(1, "error", Some(429), 1),
            attempt(2, "error", Some(500), 2),
            attempt(3, "error", None, 3),
        ];
        let until = start() + Duration::minutes(2) + CALL_BUDGET;
        assert_eq!(forgotten_at(&message(3), &attempts), Some(until));
    }

    #[test]
    fn an_attempt_without_a_row_may_have_sent_the_message_since_its_budget_began() {
        let refused = attempt(1, "error", Some(429), 1);
        // An attempt that was taken for lost has a row of its own when it ends all the same.
        let twice = [refused.clone(), refused];
        assert_eq!(forgotten_at(&message(1), &twice), None);
        assert_eq!(forgotten_at(&message(2), &twice), Some(start() + CALL_BUDGET));
        let second = attempt(2, "error", Some(429), 1);
        assert_eq!(forgotten_at(&message(2), &[second]), Some(start() + CALL_BUDGET), "the first");
        let mut delayed = message(2);
        let end = start() + Duration::days(3) + CALL_BUDGET;
        delayed.expires_at = Some(end);
        assert_eq!(forgotten_at(&delayed, &twice), Some(end));
        delayed.expires_at = Some(start() + Duration::minutes(10));
        assert_eq!(forgotten_at(&delayed, &twice), Some(start() + CALL_BUDGET));
    }
}
