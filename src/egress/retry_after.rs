//! The `Retry-After` header.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How long the backend asks to be left alone (RFC 9110, section 10.2.3):
/// seconds, or an HTTP date in any of its three forms, measured from `now`. A
/// date that has passed is zero. A missing or malformed header is none; of
/// several, the first counts.
///
/// Bounded by `u32::MAX` seconds only, so that adding it to an instant does not
/// overflow: the caller caps it.
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let longest = Duration::from_secs(u32::MAX.into());
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(longest, Duration::from_secs).min(longest));
    }
    let until: DateTime<Utc> = httpdate::parse_http_date(text).ok()?.into();
    Some((until - now).to_std().unwrap_or(Duration::ZERO).min(longest))
}
