//! Schedules: when a cron expression fires.
//!
//! Three layers, each tested by itself. The parser turns text into sets of
//! allowed values and is strict. The calendar finds the next date and time in
//! those sets and knows no time zones. The last layer turns wall-clock times into
//! instants and owns daylight saving. `docs/decisions/0001-own-calendar.md` says
//! why the sets are our own.
//!
//! # Wall clock and instants
//!
//! A schedule speaks of what a clock on the wall shows, and that clock jumps. In
//! spring it skips times (a *gap*), in autumn it shows times twice (an *overlap*).
//! What a schedule means there depends on what it asks for:
//!
//! * A **fixed-time** schedule has no `*` (or `?`) in seconds, minutes and hours.
//!   It names moments of a day: the report at half past two. It fires exactly once
//!   for each of them: after the gap if the gap swallowed it, on the first pass of
//!   an overlap. Ranges and steps from a number (`1-5`, `0/15`) are shorthand for
//!   lists, so they count as fixed. Moments that meet on one instant fire once.
//! * **Every other** schedule names a rhythm: every five minutes. It fires at each
//!   instant whose wall clock matches: never in a gap, on both passes of an
//!   overlap.
//!
//! This is the rule of Debian's cron. It holds for each change of a zone's offset,
//! also for those that are no daylight saving and for those that skip a day.
//!
//! This module must not ask for the time, and must not be told a zone by anything
//! but a [`Zone`].

mod calendar;
mod describe;
mod error;
mod field;
mod fire;
mod parser;
mod zone;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};

use self::calendar::Calendar;
pub use self::error::CronError;
pub use self::zone::Zone;

/// A cron expression that was understood and that will fire.
///
/// The text is not kept. Two schedules are equal if their sets are and if daylight
/// saving does the same to them: `0 0 9 * * 1-5` equals `0 0 9 * * mon-fri`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    calendar: Calendar,
    fixed_time: bool,
}

impl Schedule {
    /// Reads six fields, seconds first, or one of `@hourly`, `@daily`, `@midnight`,
    /// `@weekly`, `@monthly`, `@yearly`, `@annually`.
    ///
    /// Fields: second 0-59, minute 0-59, hour 0-23, day of month 1-31, month 1-12
    /// or jan-dec, day of week 0-6 or sun-sat with 0 for Sunday. A field is a comma
    /// list of `*`, `v` and `a-b`, each with an optional `/n`; `v/n` runs to the
    /// field's maximum. `?` is `*` in the two day fields. If both day fields are
    /// restricted, a day matches when either does.
    ///
    /// # Errors
    /// The field of each error is `cronExpression`, the code one of
    /// `CRON_FIELD_COUNT`, `CRON_OUT_OF_RANGE`, `CRON_REVERSED_RANGE`,
    /// `CRON_SYNTAX`, `CRON_TOO_LONG` (more than 256 characters),
    /// `CRON_UNSUPPORTED` (what other cron dialects know) and `CRON_NEVER_FIRES`
    /// (30 February).
    pub fn parse(expression: &str) -> Result<Schedule, CronError> {
        parser::parse(expression)
    }

    /// The least occurrence strictly after `after`, on a whole second.
    ///
    /// Depends on nothing but its arguments. `after` may have a fraction and may lie
    /// in either half of an overlap. The calendar covers the years 1 to 9999: `None`
    /// means that nothing is left of it, and an `after` before it counts as its
    /// first instant.
    pub fn next(&self, zone: &Zone, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let after = after.timestamp().max(calendar::FIRST_SECOND);
        let instant = if self.fixed_time {
            fire::next_fixed(&self.calendar, zone, after)
        } else {
            fire::next_shown(&self.calendar, zone, after)
        };
        DateTime::from_timestamp(instant?, 0)
    }

    /// Every occurrence in (`after`, `until`], in order, each once.
    ///
    /// Lazy: a per-second schedule over a year costs what is taken from it.
    pub fn between<'a>(
        &'a self,
        zone: &'a Zone,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> impl Iterator<Item = DateTime<Utc>> + 'a {
        std::iter::successors(self.next(zone, after), |last| self.next(zone, *last))
            .take_while(move |instant| *instant <= until)
    }

    /// What the schedule means, in plain English, without a full stop.
    ///
    /// For people only: the wording may change.
    pub fn describe(&self) -> String {
        describe::describe(&self.calendar)
    }
}
