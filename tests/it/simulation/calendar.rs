//! When schedules are due, found out in the simplest way there is: by looking at every second.

use chrono::{DateTime, Duration, SubsecRound, Timelike, Utc};

type IsDue = fn(second: u32, minute: u32) -> bool;

/// The schedules of the simulation. None depends on the hour, so that the zone does not matter.
pub const SCHEDULES: [(&str, IsDue); 6] = [
    ("* * * * * *", |_, _| true),
    ("*/5 * * * * *", |second, _| second % 5 == 0),
    ("*/7 * * * * *", |second, _| second % 7 == 0),
    ("20-40/10 * * * * *", |second, _| matches!(second, 20 | 30 | 40)),
    ("0 * * * * *", |second, _| second == 0),
    ("30 */2 * * * *", |second, minute| second == 30 && minute % 2 == 0),
];

/// That of time-based rules.
pub const OFTEN: (&str, IsDue) = ("*/20 * * * * *", |second, _| second % 20 == 0);

/// Never due while the simulation lasts.
pub const NEVER: &str = "0 0 0 29 2 *";

/// Due times after `after` and up to `until`.
pub fn due(cron: &str, after: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut known = SCHEDULES.iter().chain([&OFTEN]);
    let Some((_, is_due)) = known.find(|(known, _)| *known == cron) else {
        assert_eq!(cron, NEVER);
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut second = after.trunc_subsecs(0) + Duration::seconds(1);
    while second <= until {
        if is_due(second.second(), second.minute()) {
            all.push(second);
        }
        second += Duration::seconds(1);
    }
    all
}
