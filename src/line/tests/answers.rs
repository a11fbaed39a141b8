//! What an answer means, whatever it is.

use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::egress::Sent;
use crate::line::Outcome;

fn answered(status: u16, body: &[u8]) -> Sent {
    Sent::Answered {
        status,
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body),
        complete: true,
        elapsed: Duration::from_millis(30),
    }
}

fn of(call: &LineCall, status: u16, body: &[u8]) -> LineAnswer {
    LineAnswer::of(call, answered(status, body), Duration::from_millis(5))
}

#[test]
fn each_status_has_one_meaning() {
    for (status, outcome) in [
        (200, Outcome::Done),
        (202, Outcome::Done),
        (401, Outcome::Unauthorized),
        (409, Outcome::AlreadyDone),
        (429, Outcome::RateLimited),
        (101, Outcome::Retry { reason: "http_status" }),
        (302, Outcome::Retry { reason: "http_status" }),
        (500, Outcome::Retry { reason: "http_status" }),
        (503, Outcome::Retry { reason: "http_status" }),
        (599, Outcome::Retry { reason: "http_status" }),
    ] {
        assert_eq!(of(&hello(), status, b"").outcome, outcome, "{status}");
    }
    for status in [400, 403, 404, 410, 413, 415, 499] {
        assert!(matches!(of(&hello(), status, b"").outcome, Outcome::Refused { .. }), "{status}");
    }
}

#[test]
fn a_conflict_without_a_retry_key_is_no_success() {
    for call in [link("richmenu-a"), unlink()] {
        assert!(matches!(of(&call, 409, b"").outcome, Outcome::Refused { .. }));
    }
}

#[test]
fn a_limit_whose_text_is_unknown_is_a_rate_limit() {
    let limit =
        |text: &str| of(&hello(), 429, json!({ "message": text }).to_string().as_bytes()).outcome;
    for monthly in [
        "You have reached your monthly limit.",
        "you have reached your MONTHLY LIMIT",
        "You have exceeded the target limit for additional messages.",
    ] {
        assert_eq!(limit(monthly), Outcome::MonthlyLimit, "{monthly}");
    }
    for rate in ["The API rate limit has been exceeded. Try again later.", "Too many", ""] {
        assert_eq!(limit(rate), Outcome::RateLimited, "{rate}");
    }
    assert_eq!(of(&hello(), 429, b"<html>").outcome, Outcome::RateLimited);
}

#[test]
fn the_wait_for_the_turn_counts() {
    assert_eq!(of(&hello(), 200, b"{}").elapsed, Duration::from_millis(35));
}

#[test]
fn a_text_that_is_no_json_is_kept_on_one_short_line() {
    let page = format!("<html>\r\n\t<b>Bad\0 gateway</b>{}", "é".repeat(2000));
    let message = of(&hello(), 502, page.as_bytes()).message.unwrap();
    assert!(message.starts_with("<html> <b>Bad gateway</b>éé"), "{message}");
    assert_eq!(message.chars().count(), 501);
    assert!(message.ends_with('…'));
    assert_eq!(of(&hello(), 500, b" \n ").message, None);
}

#[test]
fn of_many_details_the_first_are_kept() {
    let details: Vec<_> = (0..50).map(|at| json!({ "message": format!("no {at}") })).collect();
    let body = json!({ "message": "Bad", "details": details }).to_string();
    let message = of(&hello(), 400, body.as_bytes()).message.unwrap();
    assert_eq!(message, "Bad (no 0; no 1; no 2; no 3; no 4)");
}

proptest! {
    #[test]
    fn any_answer_is_judged_and_cut(status in 100u16..=999, body: Vec<u8>, id: Vec<u8>) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = http::HeaderValue::from_bytes(&id) {
            headers.insert("x-line-request-id", value);
        }
        let (body, elapsed) = (Bytes::from(body), Duration::ZERO);
        let sent = Sent::Answered { status, headers, body, complete: false, elapsed };
        let answer = LineAnswer::of(&hello(), sent, elapsed);
        prop_assert_eq!(answer.outcome == Outcome::Done, (200..300).contains(&status));
        let clean = |text: &String| text.chars().count() <= 501 && !text.contains(char::is_control);
        prop_assert!(answer.message.iter().chain(&answer.request_id).all(clean));
    }
}
