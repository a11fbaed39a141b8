//! Tests of the schedule rules: examples by rule, and properties against naive models.

use chrono::{DateTime, Utc};

use super::{Schedule, Zone};

mod calendar;
mod daylight;
mod describe;
mod kept;
mod naive;
mod parser;
mod properties;
mod zone;

fn schedule(expression: &str) -> Schedule {
    Schedule::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// The occurrences in (`after`, `until`] as local times with their offsets.
fn fires(expression: &str, zone: &Zone, after: &str, until: &str) -> Vec<String> {
    schedule(expression)
        .between(zone, at(after), at(until))
        .map(|instant| {
            let (local, offset) = zone.to_local(instant);
            format!("{local}{offset}")
        })
        .collect()
}
