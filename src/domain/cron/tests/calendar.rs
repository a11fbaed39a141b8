//! Which dates and times match, on a clock without daylight saving.

use super::{at, fires, schedule};
use crate::domain::cron::Zone;

/// The dates of the first `count` occurrences after the start of 2026.
fn dates(expression: &str, count: usize) -> Vec<String> {
    let zone = Zone::utc();
    let until = at("2130-01-01T00:00:00Z");
    schedule(expression)
        .between(&zone, at("2025-12-31T23:59:59Z"), until)
        .take(count)
        .map(|instant| instant.format("%a %Y-%m-%d").to_string())
        .collect()
}

#[test]
fn one_to_five_are_monday_to_friday() {
    assert_eq!(
        dates("0 0 9 * * 1-5", 5),
        ["Thu 2026-01-01", "Fri 2026-01-02", "Mon 2026-01-05", "Tue 2026-01-06", "Wed 2026-01-07"]
    );
}

#[test]
fn zero_is_sunday_and_six_is_saturday() {
    assert_eq!(dates("0 0 0 * * 0", 2), ["Sun 2026-01-04", "Sun 2026-01-11"]);
    assert_eq!(dates("0 0 0 * * 6", 1), ["Sat 2026-01-03"]);
    assert_eq!(dates("@weekly", 1), ["Sun 2026-01-04"]);
}

#[test]
fn two_restricted_day_fields_match_when_either_does() {
    let thirteenth_or_friday =
        ["Fri 2026-01-02", "Fri 2026-01-09", "Tue 2026-01-13", "Fri 2026-01-16"];
    assert_eq!(dates("0 0 0 13 * 5", 4), thirteenth_or_friday);
    assert_eq!(dates("0 0 0 30 2 1", 2), ["Mon 2026-02-02", "Mon 2026-02-09"]);
}

#[test]
fn a_stepped_star_restricts_and_a_full_range_does_too() {
    assert_eq!(dates("0 0 0 */10 * 5", 3), ["Thu 2026-01-01", "Fri 2026-01-02", "Fri 2026-01-09"]);
    assert_eq!(dates("0 0 0 1-31 * 5", 3), ["Thu 2026-01-01", "Fri 2026-01-02", "Sat 2026-01-03"]);
    assert_eq!(dates("0 0 0 5,* * 5", 2), ["Fri 2026-01-02", "Fri 2026-01-09"]);
}

#[test]
fn months_without_the_day_are_passed_over() {
    assert_eq!(dates("0 0 0 31 * *", 3), ["Sat 2026-01-31", "Tue 2026-03-31", "Sun 2026-05-31"]);
    assert_eq!(dates("0 0 0 30 2,3 *", 2), ["Mon 2026-03-30", "Tue 2027-03-30"]);
}

#[test]
fn leap_days_come_every_four_years_and_not_in_2100() {
    let zone = Zone::utc();
    let leap = schedule("0 0 0 29 2 *");
    let next = |after: &str| leap.next(&zone, at(after)).map(|found| found.to_rfc3339());
    assert_eq!(next("2026-01-01T00:00:00Z").as_deref(), Some("2028-02-29T00:00:00+00:00"));
    assert_eq!(next("2096-02-29T00:00:00Z").as_deref(), Some("2104-02-29T00:00:00+00:00"));
    assert_eq!(next("1996-02-29T00:00:00Z").as_deref(), Some("2000-02-29T00:00:00+00:00"));
}

#[test]
fn each_time_field_carries_into_the_one_above() {
    let next = |expression: &str, after: &str| {
        schedule(expression).next(&Zone::utc(), at(after)).unwrap().format("%F %T").to_string()
    };
    assert_eq!(next("* * * * * *", "2026-12-31T23:59:59Z"), "2027-01-01 00:00:00");
    assert_eq!(next("30 * * * * *", "2026-01-01T00:59:30Z"), "2026-01-01 01:00:30");
    assert_eq!(next("0 */5 * * * *", "2026-01-01T23:55:00Z"), "2026-01-02 00:00:00");
    assert_eq!(next("5 10 8,20 * * *", "2026-01-01T08:10:05Z"), "2026-01-01 20:10:05");
    assert_eq!(next("5 10 8,20 * * *", "2026-01-01T20:10:05Z"), "2026-01-02 08:10:05");
    assert_eq!(next("5 10 8,20 * * *", "2026-01-01T08:10:04.999Z"), "2026-01-01 08:10:05");
}

#[test]
fn an_occurrence_is_strictly_later_even_within_its_own_second() {
    let next = |after: &str| schedule("0 * * * * *").next(&Zone::utc(), at(after)).unwrap();
    assert_eq!(next("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:00Z"));
    assert_eq!(next("2026-01-01T00:00:00.001Z"), at("2026-01-01T00:01:00Z"));
    assert_eq!(next("2025-12-31T23:59:59.999999999Z"), at("2026-01-01T00:00:00Z"));
    assert_eq!(next("1969-12-31T23:59:59.5Z"), at("1970-01-01T00:00:00Z"));
    assert_eq!(next("2016-12-31T23:59:60.5Z"), at("2017-01-01T00:00:00Z"));
}

#[test]
fn between_leaves_out_its_start_and_keeps_its_end() {
    let hours = fires("0 0 * * * *", &Zone::utc(), "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z");
    assert_eq!(hours, ["2026-01-01T01:00:00+00:00", "2026-01-01T02:00:00+00:00"]);
    let none = fires("0 0 * * * *", &Zone::utc(), "2026-01-01T02:00:00Z", "2026-01-01T00:00:00Z");
    assert!(none.is_empty());
}

#[test]
fn the_calendar_ends_with_the_year_9999_and_begins_with_the_year_1() {
    for expression in ["* * * * * *", "0 0 0 * * *", "0 0 0 29 2 *"] {
        let schedule = schedule(expression);
        for name in ["UTC", "Europe/Amsterdam", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
            let zone = super::zone(name);
            assert_eq!(schedule.next(&zone, chrono::DateTime::<chrono::Utc>::MAX_UTC), None);
            assert_eq!(schedule.next(&zone, at("9999-12-31T23:59:59Z")), None);
            assert!(schedule.next(&zone, at("9990-01-01T00:00:00Z")).is_some());
            let first = schedule.next(&zone, chrono::DateTime::<chrono::Utc>::MIN_UTC).unwrap();
            assert!(first > at("0001-01-01T00:00:00Z"), "{expression} in {name}: {first}");
        }
    }
}
