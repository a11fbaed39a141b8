//! A time of day on a wall clock: `09:00`.

use std::fmt;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::domain::cron::{Schedule, Zone};

/// Hours and minutes, `00:00` to `23:59`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay {
    hour: u8,
    minute: u8,
}

const SAYS: &str = "must be a time of day from 00:00 to 23:59 such as 09:00";

impl TimeOfDay {
    /// The first instant at or after `from` at which the clock of `zone` comes to this time.
    ///
    /// What daylight saving does is the rule of [`cron`](crate::domain::cron): a time that is
    /// skipped comes right after the gap, one that is shown twice counts the first time. Past the
    /// year 9999 it is `from` itself.
    pub fn at_or_after(self, zone: &Zone, from: DateTime<Utc>) -> DateTime<Utc> {
        let whole = from.trunc_subsecs(0);
        let after = if whole == from { from - TimeDelta::seconds(1) } else { from };
        let daily = Schedule::parse(&format!("0 {} {} * * *", self.minute, self.hour));
        daily.ok().and_then(|daily| daily.next(zone, after)).unwrap_or(from)
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let part = |text: &str, max: u8| {
            let fits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u8>().ok().filter(|number| fits && *number <= max)
        };
        let (hour, minute) = text.split_once(':').ok_or(SAYS)?;
        Ok(Self { hour: part(hour, 23).ok_or(SAYS)?, minute: part(minute, 59).ok_or(SAYS)? })
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> String {
        time.to_string()
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour, self.minute)
    }
}

impl JsonSchema for TimeOfDay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeOfDay".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
        json_schema!({ "type": "string", "pattern": pattern, "description": SAYS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> TimeOfDay {
        text.to_owned().try_into().unwrap()
    }

    fn next(text: &str, zone: &str, from: &str) -> String {
        let from: DateTime<Utc> = from.parse().unwrap();
        let next = time(text).at_or_after(&Zone::parse(zone).unwrap(), from);
        next.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
    }

    #[test]
    fn a_time_of_day_has_two_digits_each() {
        assert_eq!(time("09:05").to_string(), "09:05");
        for bad in ["9:00", "24:00", "09:60", "0900", "", "09:00:00", "+9:00", "09:0a"] {
            assert!(TimeOfDay::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn it_is_today_if_it_is_still_to_come_and_now_counts() {
        let zone = "Asia/Bangkok";
        assert_eq!(next("09:00", zone, "2026-05-01T01:59:59Z"), "2026-05-01T02:00:00Z");
        assert_eq!(next("09:00", zone, "2026-05-01T02:00:00Z"), "2026-05-01T02:00:00Z");
        assert_eq!(next("09:00", zone, "2026-05-01T02:00:00.001Z"), "2026-05-02T02:00:00Z");
        assert_eq!(next("09:00", zone, "2026-05-01T01:59:59.999Z"), "2026-05-01T02:00:00Z");
    }

    #[test]
    fn daylight_saving_neither_loses_nor_doubles_it() {
        let zone = "Europe/Amsterdam";
        assert_eq!(next("02:30", zone, "2026-03-28T12:00:00Z"), "2026-03-29T01:00:00Z");
        assert_eq!(next("02:30", zone, "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z");
        assert_eq!(next("02:30", zone, "2026-10-25T00:30:01Z"), "2026-10-26T01:30:00Z");
    }
}
