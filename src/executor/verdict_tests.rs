use chrono::TimeZone;
use http::HeaderMap;
use uuid::Uuid;

use super::*;
use crate::domain::delivery::Delivery;
use crate::domain::id::{ApplicationId, BackendId, OccurrenceId, ScheduledActionId, TriggerId};
use crate::domain::trigger::Payload;
use crate::store::executor::Lease;

const POLICY: RetryPolicy = RetryPolicy {
    initial: Duration::seconds(10),
    max: Duration::seconds(100),
    multiplier: 2.0,
    max_attempts: 4,
    max_age: Duration::hours(1),
};

fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

fn claimed(attempts: i32) -> Claimed {
    let trigger_id = TriggerId::new();
    let delivery = Delivery {
        id: ScheduledActionId::new(),
        trigger_id,
        occurrence_id: OccurrenceId::new(),
        application_id: ApplicationId::new(),
        backend_id: BackendId::new(),
        status: ActionStatus::Processing,
        payload: Payload {
            trigger_id,
            trigger_name: "n".into(),
            cron_expression: "@daily".into(),
            run_key: "k".into(),
            executed_at: "2026-03-01T12:00:00Z".into(),
        },
        retry_count: attempts,
        attempts_before: 0,
        execute_at: now(),
        expires_at: Some(now() + POLICY.max_age),
        executed_at: None,
        last_error: None,
        created_at: now(),
        updated_at: now(),
    };
    Claimed { action: delivery.into(), lease: Lease { token: Uuid::new_v4(), until: now() } }
}

fn answer(status: u16, retry_after: Option<&str>) -> Sent {
    let mut headers = HeaderMap::new();
    if let Some(value) = retry_after {
        headers.insert("retry-after", value.parse().unwrap());
    }
    let elapsed = std::time::Duration::from_millis(3);
    Sent::Answered { status, headers, body: bytes::Bytes::new(), complete: true, elapsed }
}

fn verdict(attempts: i32, sent: &Sent) -> Finished {
    let attempted = Attempted::of(attempts + 1, sent, now());
    after_attempt(&claimed(attempts), &attempted, now(), (&POLICY, 0.0))
}

#[test]
fn any_2xx_is_delivered_and_nothing_else_is() {
    for status in [200, 201, 204, 299] {
        let finished = verdict(0, &answer(status, None));
        assert_eq!(finished.status, ActionStatus::Completed, "{status}");
        assert_eq!(finished.executed_at, Some(now()));
        assert_eq!(finished.last_error, None);
    }
    for status in [101, 300, 302, 304, 400, 404, 410, 429, 500, 503, 599] {
        assert_eq!(verdict(0, &answer(status, None)).status, ActionStatus::Pending, "{status}");
    }
}

#[test]
fn a_failed_attempt_is_tried_again_ever_later() {
    let waits: Vec<_> = [0, 1, 2]
        .map(|attempts| {
            let finished = verdict(attempts, &answer(500, None));
            assert_eq!(finished.retry_count, attempts + 1);
            (finished.execute_at - now()).num_seconds()
        })
        .into();
    assert_eq!(waits, [10, 20, 40]);
}

#[test]
fn the_last_attempt_that_fails_ends_the_delivery() {
    let finished = verdict(3, &answer(500, None));
    assert_eq!(finished.status, ActionStatus::Failed);
    assert_eq!(finished.last_error.as_deref(), Some("the backend answered 500, not 2xx"));
}

#[test]
fn retry_after_is_honoured_up_to_the_longest_pause() {
    let wait = |value| (verdict(0, &answer(429, Some(value))).execute_at - now()).num_seconds();
    assert_eq!(wait("30"), 30);
    assert_eq!(wait("1"), 10, "it does not shorten our own pause");
    assert_eq!(wait("999999"), 100);
    assert_eq!(wait("soon"), 10, "what can't be read counts for nothing");
    assert_eq!(wait("-5"), 10);
}

/// When a call is due that failed for the second time, so many seconds before its end.
fn due_before_the_end(seconds: i64, retry_after: Option<&str>) -> (ActionStatus, i64) {
    let mut old = claimed(1);
    old.action.expires_at = Some(now() + Duration::seconds(seconds));
    let attempted = Attempted::of(2, &answer(500, retry_after), now());
    let finished = after_attempt(&old, &attempted, now(), (&POLICY, 0.0));
    (finished.status, (finished.execute_at - now()).num_seconds())
}

#[test]
fn a_pause_that_reaches_beyond_the_end_of_the_budget_becomes_a_last_attempt_before_it() {
    use ActionStatus::{Failed, Pending};
    assert_eq!(due_before_the_end(60, None), (Pending, 20));
    assert_eq!(due_before_the_end(21, None), (Pending, 20));
    assert_eq!(due_before_the_end(20, None), (Pending, 19));
    assert_eq!(due_before_the_end(11, None), (Pending, 10), "the shortest pause");
    assert_eq!(due_before_the_end(0, None).0, Failed);
}

#[test]
fn a_pause_that_ends_when_the_last_attempt_is_due_is_kept() {
    let mut first = claimed(0);
    first.action.expires_at = Some(now() + Duration::seconds(6));
    let attempted = Attempted::of(1, &answer(500, None), now());
    let finished = after_attempt(&first, &attempted, now(), (&POLICY, 1.0));
    assert_eq!(finished.execute_at, now() + Duration::seconds(5), "half of the first pause");
}

#[test]
fn what_has_no_time_for_a_last_attempt_waits_for_its_end() {
    use ActionStatus::Pending;
    assert_eq!(due_before_the_end(10, None), (Pending, 10));
    assert_eq!(due_before_the_end(50, Some("49")), (Pending, 49));
    assert_eq!(due_before_the_end(50, Some("50")), (Pending, 50), "Retry-After is honoured");
}

#[test]
fn gone_is_an_error_that_is_remembered() {
    assert!(Attempted::of(1, &answer(410, None), now()).gone);
    assert!(!Attempted::of(1, &answer(404, None), now()).gone);
}

#[test]
fn what_is_postponed_uses_no_attempt_and_comes_back_within_its_budget() {
    let mut waiting = claimed(2);
    waiting.action.created_at = now() - Duration::minutes(59);
    waiting.action.expires_at = Some(now() + Duration::seconds(60));
    let finished = postponed(&waiting, ("away", now()), now(), (&POLICY, 0.0));
    assert_eq!(finished.retry_count, 2);
    assert_eq!(finished.status, ActionStatus::Pending);
    assert_eq!(finished.execute_at, now() + Duration::seconds(60));
    assert_eq!(finished.last_error.as_deref(), Some("away"));
}

#[test]
fn what_is_given_up_keeps_the_last_error() {
    let mut tried = claimed(2);
    tried.action.last_error = Some("timeout".into());
    assert_eq!(given_up(&tried, now()).last_error.as_deref(), Some("timeout"));
    assert_eq!(given_up(&tried, now()).status, ActionStatus::Failed);
    assert!(given_up(&claimed(0), now()).last_error.is_some());
}

#[test]
fn only_what_failed_has_a_reason() {
    let good = Attempted::of(1, &answer(204, None), now());
    assert_eq!((good.reason, good.error, good.answered), (None, None, Some(true)));
    let bad = Attempted::of(1, &answer(500, None), now());
    assert_eq!((bad.reason, bad.answered), (Some("http_status"), Some(true)));
}

#[test]
fn what_the_platform_answers_is_read_as_what_it_means() {
    let read = |outcome, status| {
        let answer = LineAnswer {
            outcome,
            status,
            request_id: None,
            accepted_request_id: None,
            elapsed: std::time::Duration::ZERO,
            message: None,
        };
        Attempted::of_line(1, answer, None)
    };
    let done = read(Outcome::Done, Some(200));
    assert_eq!((done.success, done.error, done.answered), (true, None, Some(true)));
    let silent = read(Outcome::Retry { reason: "timeout" }, None);
    assert_eq!((silent.success, silent.answered), (false, Some(false)));
    assert_eq!(silent.error.as_deref(), Some("without a word"));
    let refused = read(Outcome::Refused { reason: "no".into() }, Some(400));
    assert!(refused.hopeless && refused.answered == Some(true));
    assert!(refused.error.unwrap().contains("answered 400"));
    let ours = read(Outcome::RateLimited, None);
    assert_eq!(ours.answered, None, "our own limit says nothing of the platform");
}

#[test]
fn what_is_postponed_again_and_again_comes_back_ever_later() {
    let mut waiting = claimed(0);
    for (waited, pause) in [(0, 10), (40, 20), (150, 75), (500, 100)] {
        waiting.action.created_at = now() - Duration::seconds(waited);
        let finished = postponed(&waiting, ("away", now()), now(), (&POLICY, 0.0));
        assert_eq!((finished.execute_at - now()).num_seconds(), pause, "{waited}");
    }
}

#[test]
fn what_a_pause_held_up_comes_back_soon_after_it_however_old_it_is() {
    let mut waiting = claimed(0);
    waiting.action.created_at = now() - Duration::days(1);
    waiting.action.expires_at = Some(now() + Duration::minutes(30));
    let until = now() + Duration::minutes(5);
    let back = |jitter| postponed(&waiting, ("paused", until), now(), (&POLICY, jitter)).execute_at;
    assert_eq!([back(0.0), back(1.0)].map(|at| (at - until).num_seconds()), [10, 5]);
    waiting.action.expires_at = Some(now() + Duration::minutes(2));
    let back = postponed(&waiting, ("paused", until), now(), (&POLICY, 0.0)).execute_at;
    assert_eq!(back, now() + Duration::minutes(2), "its time ends before");
}

#[test]
fn pauses_begin_anew_with_the_budget_that_a_person_gave() {
    let mut again = claimed(9);
    again.action.attempts_before = 9;
    let attempted = Attempted::of(10, &answer(503, None), now());
    let finished = after_attempt(&again, &attempted, now(), (&POLICY, 0.0));
    assert_eq!((finished.execute_at - now()).num_seconds(), 10);
}

#[test]
fn what_nobody_ever_attempted_has_expired_unless_a_trigger_made_it() {
    let ends = |made_by_a_trigger: bool, attempts: i32, before: i32| {
        let mut given = claimed(attempts);
        given.action.attempts_before = before;
        if !made_by_a_trigger {
            given.action.cause.trigger_id = None;
        }
        given_up(&given, now()).status
    };
    assert_eq!(ends(false, 0, 0), ActionStatus::Expired);
    assert_eq!(ends(false, 3, 3), ActionStatus::Expired, "attempts of before do not count");
    assert_eq!(ends(false, 4, 3), ActionStatus::Failed);
    assert_eq!(ends(true, 0, 0), ActionStatus::Failed);
    assert_eq!(ends(true, 1, 0), ActionStatus::Failed);
}

#[test]
fn a_cancelled_one_says_what_was_deleted() {
    let mut one = claimed(0);
    let told = |one: &Claimed| gone(one, now()).last_error.unwrap();
    assert_eq!(told(&one), "backend_deleted");
    one.action.concern.backend_id = None;
    assert_eq!(told(&one), "application_deleted");
    one.action.concern.application_id = None;
    assert_eq!(told(&one), "line_oa_deleted");
}

#[test]
fn attempts_before_a_new_budget_do_not_count_against_it() {
    let mut again = claimed(4);
    again.action.attempts_before = 4;
    assert!(!attempts_are_used_up(&again.action, 7, &POLICY));
    assert!(attempts_are_used_up(&again.action, 8, &POLICY));
}

#[test]
fn how_a_refusal_s_body_begins_is_kept_if_it_is_text() {
    let said = |body: &[u8], encoding: Option<&str>| {
        let Sent::Answered { status, mut headers, complete, elapsed, .. } = answer(500, None)
        else {
            panic!()
        };
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, encoding.parse().unwrap());
        }
        let body = Bytes::copy_from_slice(body);
        let sent = Sent::Answered { status, headers, body, complete, elapsed };
        let error = Attempted::of(1, &sent, now()).error.unwrap();
        error.strip_prefix("the backend answered 500, not 2xx").unwrap().to_owned()
    };
    assert_eq!(said(b"boom: out of\r\n  memory\0", None), ": boom: out of memory");
    assert_eq!(said(b" \n", None), "");
    assert_eq!(said(&[0x1f, 0x8b, 0xff, 0xfe], None), "");
    assert_eq!(said(b"plain", Some("gzip")), "");
    assert_eq!(
        said("\u{e9}".repeat(300).as_bytes(), None),
        format!(": {}\u{2026}", "\u{e9}".repeat(199))
    );
    // The last character is cut in two where the excerpt is taken.
    let long = format!("a{}", "\u{e9}".repeat(400));
    assert!(said(long.as_bytes(), None).starts_with(": a\u{e9}"));
}
