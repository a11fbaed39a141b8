//! The next date and time in a schedule's sets, on a clock that never jumps.
//!
//! A moment here is *civil*: the seconds since 1970-01-01T00:00:00 that a calendar
//! and a clock without a time zone would count. It is no instant; only
//! [`fire`](super::fire) may turn one into the other.

use chrono::{Datelike, NaiveDate};

/// The first instant and the first civil second of the year 1.
pub(super) const FIRST_SECOND: i64 = -62_135_596_800;

const LAST_YEAR: i32 = 9999;
const DAY: i64 = 86_400;

/// Which day field decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Neither is restricted.
    Every,
    /// Only the day of the month is.
    OfMonth,
    /// Only the day of the week is.
    OfWeek,
    /// Both are: either may match.
    Either,
}

/// A set of small numbers, bit n for the number n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(pub(super) u64);

impl Set {
    /// Adds `start`, `start + step` and so on, up to `end`.
    pub(super) fn insert(&mut self, start: u32, end: u32, step: u32) {
        let mut value = start;
        while value <= end {
            self.0 |= 1 << value;
            value = value.saturating_add(step);
        }
    }

    pub(super) fn contains(self, value: u32) -> bool {
        self.0.checked_shr(value).is_some_and(|rest| rest & 1 == 1)
    }

    /// The least member that is not below `start`.
    pub(super) fn at_or_after(self, start: u32) -> Option<u32> {
        let rest = self.0.checked_shr(start)?;
        (rest != 0).then(|| start + rest.trailing_zeros())
    }

    pub(super) fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |value| self.contains(*value))
    }
}

/// The allowed values of each field. None of the sets is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) seconds: Set,
    pub(super) minutes: Set,
    pub(super) hours: Set,
    pub(super) month_days: Set,
    pub(super) months: Set,
    pub(super) week_days: Set,
    pub(super) day_rule: DayRule,
}

impl Calendar {
    /// Whether any date matches. A day of the week always comes round; a day of the
    /// month needs a month that is long enough in some year.
    pub(super) fn ever_matches(&self) -> bool {
        self.day_rule != DayRule::OfMonth
            || self.months.iter().any(|month| self.month_days.first() <= longest(month))
    }

    /// The least civil second of the sets that is not before `start`. `None` past
    /// the year 9999.
    pub(super) fn at_or_after(&self, start: i64) -> Option<i64> {
        let day = start.div_euclid(DAY);
        let second = u32::try_from(start.rem_euclid(DAY)).ok()?;
        let matching = self.day_at_or_after(day)?;
        if matching > day {
            return Some(matching * DAY + self.first_time());
        }
        match self.time_at_or_after(second) {
            Some(time) => Some(day * DAY + time),
            None => Some(self.day_at_or_after(day + 1)? * DAY + self.first_time()),
        }
    }

    fn first_time(&self) -> i64 {
        time(self.hours.first(), self.minutes.first(), self.seconds.first())
    }

    fn time_at_or_after(&self, second: u32) -> Option<i64> {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if self.hours.contains(hour) {
            if self.minutes.contains(minute)
                && let Some(second) = self.seconds.at_or_after(second)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = self.minutes.at_or_after(minute + 1) {
                return Some(time(hour, minute, self.seconds.first()));
            }
        }
        let hour = self.hours.at_or_after(hour + 1)?;
        Some(time(hour, self.minutes.first(), self.seconds.first()))
    }

    /// The least matching day that is not before `day`, in days since 1970-01-01.
    fn day_at_or_after(&self, day: i64) -> Option<i64> {
        let start = NaiveDate::from_epoch_days(i32::try_from(day).ok()?)?;
        let (mut year, mut month, mut day_of_month) = (start.year(), start.month(), start.day());
        while year <= LAST_YEAR {
            let Some(matching) = self.months.at_or_after(month) else {
                (year, month, day_of_month) = (year + 1, 1, 1);
                continue;
            };
            if matching > month {
                day_of_month = 1;
            }
            let first = NaiveDate::from_ymd_opt(year, matching, 1)?;
            if let Some(found) = self.days_of(first).at_or_after(day_of_month) {
                return Some(i64::from(first.to_epoch_days()) + i64::from(found) - 1);
            }
            (month, day_of_month) = (matching + 1, 1);
        }
        None
    }

    /// The matching days of the month that begins on `first`.
    fn days_of(&self, first: NaiveDate) -> Set {
        // The week's seven bits six times over, so that bit n is the weekday n days
        // after a Sunday; then shifted to start on the weekday of the first.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35;
        let of_week = (self.week_days.0 * WEEKS) >> first.weekday().num_days_from_sunday() << 1;
        let of_month = self.month_days.0;
        let matching = match self.day_rule {
            DayRule::Every => u64::MAX,
            DayRule::OfMonth => of_month,
            DayRule::OfWeek => of_week,
            DayRule::Either => of_month | of_week,
        };
        let existing = (2 << first.num_days_in_month()) - 2;
        Set(matching & existing)
    }
}

fn time(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3600 + minute * 60 + second)
}

fn longest(month: u32) -> u32 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
