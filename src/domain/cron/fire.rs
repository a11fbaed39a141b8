//! From wall-clock times to instants: what daylight saving does to a schedule.
//!
//! The module page of [`cron`](super) states the rule. Both functions walk a zone's
//! *spans*, the stretches of time between two changes of its offset, and inside a
//! span wall clock and time run alike. Instants are whole seconds since 1970, UTC.

use super::calendar::Calendar;
use super::zone::{REACH, Zone};

/// The least instant after `after` at which the wall clock shows a member of the
/// calendar.
pub(super) fn next_shown(calendar: &Calendar, zone: &Zone, after: i64) -> Option<i64> {
    let mut start = after + 1;
    loop {
        let span = zone.span_at(start)?;
        let instant = calendar.at_or_after(start + span.offset)? - span.offset;
        if instant < span.end {
            return Some(instant);
        }
        // From the end of the span on, no clock shows less than `end - REACH`, and
        // what it shows is shown at most REACH early. A yearly schedule need not
        // look at the spans before.
        let shown = calendar.at_or_after(span.end - REACH)?;
        start = span.end.max(shown - REACH);
    }
}

/// The least instant after `after` at which one of the calendar's times is due, each
/// of them exactly once.
///
/// A time is due at the first instant at which the wall clock shows it or a later
/// time. That is the time itself on ordinary days, its first pass in an overlap, and
/// the first instant after a gap that swallows it. So what is still to come after
/// `after` is what lies beyond all that the clock has shown until then.
pub(super) fn next_fixed(calendar: &Calendar, zone: &Zone, after: i64) -> Option<i64> {
    let civil = calendar.at_or_after(zone.latest_shown(after)? + 1)?;
    let mut start = (after + 1).max(civil - REACH);
    loop {
        let span = zone.span_at(start)?;
        let instant = start.max(civil - span.offset);
        if instant < span.end {
            return Some(instant);
        }
        start = span.end;
    }
}
