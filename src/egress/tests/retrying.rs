//! What a backend asks for with `Retry-After`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue};

use crate::egress::retry_after;

fn asked(value: &[u8]) -> Option<u64> {
    let now: DateTime<Utc> = "2025-12-01T00:00:00.500Z".parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_bytes(value).unwrap());
    retry_after(&headers, now).map(|wait| wait.as_millis() as u64)
}

#[test]
fn seconds_are_understood() {
    assert_eq!(asked(b"0"), Some(0));
    assert_eq!(asked(b"120"), Some(120_000));
    assert_eq!(asked(b" 7 "), Some(7_000));
}

#[test]
fn a_date_counts_from_now_in_all_three_forms() {
    assert_eq!(asked(b"Mon, 01 Dec 2025 00:01:00 GMT"), Some(59_500));
    assert_eq!(asked(b"Monday, 01-Dec-25 00:01:00 GMT"), Some(59_500));
    assert_eq!(asked(b"Mon Dec  1 00:01:00 2025"), Some(59_500));
}

#[test]
fn a_date_that_has_passed_is_zero() {
    assert_eq!(asked(b"Mon, 01 Dec 2025 00:00:00 GMT"), Some(0));
    assert_eq!(asked(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
}

#[test]
fn an_absurd_wait_is_bounded() {
    let longest = u64::from(u32::MAX) * 1000;
    assert_eq!(asked(b"4294967296"), Some(longest));
    assert_eq!(asked(b"99999999999999999999999999"), Some(longest));
    assert_eq!(asked(b"Fri, 31 Dec 9999 23:59:59 GMT"), Some(longest));
}

#[test]
fn anything_else_is_no_request() {
    let values: [&[u8]; 9] = [
        b"",
        b"-1",
        b"1.5",
        b"+5",
        b"soon",
        b"10s",
        b"2025-12-01T00:01:00Z",
        b"\xff\xfe",
        b"Mon, 01 Dec 2025 25:00:00 GMT",
    ];
    for value in values {
        assert_eq!(asked(value), None, "{}", value.escape_ascii());
    }
    assert_eq!(retry_after(&HeaderMap::new(), DateTime::UNIX_EPOCH), None);
}

#[test]
fn of_several_the_first_counts() {
    let mut headers = HeaderMap::new();
    headers.append("retry-after", HeaderValue::from_static("5"));
    headers.append("retry-after", HeaderValue::from_static("9"));
    assert_eq!(retry_after(&headers, DateTime::UNIX_EPOCH), Some(Duration::from_secs(5)));
}
