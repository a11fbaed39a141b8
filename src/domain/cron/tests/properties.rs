//! What holds for every expression, zone and instant.

use std::str::FromStr;
use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::naive::{Model, Window, any_model, next_by_days, sparse_model};
use super::{schedule, zone};
use crate::corpus::cases;
use crate::domain::cron::Schedule;

/// Changes of offset of every kind.
pub(super) static WINDOWS: LazyLock<Vec<Window>> = LazyLock::new(|| {
    [
        ("Europe/Amsterdam", "2026-03-29T01:00:00Z"),
        ("Europe/Amsterdam", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2026-11-01T06:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("Africa/Casablanca", "2025-02-23T02:00:00Z"),
        ("Africa/Casablanca", "2025-04-06T02:00:00Z"),
        ("Europe/Dublin", "2026-10-25T01:00:00Z"),
        ("Asia/Gaza", "2023-04-29T00:00:00Z"),
        ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
        ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
        // A whole day shown twice, with offsets that are not whole minutes.
        ("America/Juneau", "1867-10-19T00:31:13Z"),
    ]
    .map(|(zone, change)| Window::around(zone, change))
    .into()
});

pub(super) const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Amsterdam",
    "Europe/Dublin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "Africa/Monrovia",
];

pub(super) fn instant(second: i64, nanos: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(second, nanos).unwrap()
}

/// Instants of the years 1900 to 2200, half of them with a fraction.
pub(super) fn any_instant() -> impl Strategy<Value = DateTime<Utc>> {
    (-2_208_988_800_i64..7_258_118_400, prop_oneof![Just(0), 1..1_000_000_000_u32])
        .prop_map(|(second, nanos)| instant(second, nanos))
}

/// A place in a window as seconds and nanoseconds after its change of offset: anywhere,
/// within the next hours, or on the very second.
fn any_place() -> impl Strategy<Value = (i64, u32)> {
    let seconds = prop_oneof![-100_000..100_000_i64, -7300..7300_i64, -1..=1_i64];
    (seconds, prop_oneof![Just(0), 1..1_000_000_000_u32])
}

/// The next moment in UTC by the crate `cron`, fed with lists of numbers only.
fn next_by_crate(model: &Model, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let list = |values: Vec<u32>| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let field = |field: usize| list(model.values(field));
    let week_days = list(model.values(5).into_iter().map(|day| day + 1).collect());
    let (time, month) = (format!("{} {} {}", field(0), field(1), field(2)), field(4));
    let next =
        |expression: String| cron::Schedule::from_str(&expression).unwrap().after(&after).next();
    if model.restricts(3) && model.restricts(5) {
        let of_month = next(format!("{time} {} {month} *", field(3)));
        let of_week = next(format!("{time} * {month} {week_days}"));
        return of_month.into_iter().chain(of_week).min();
    }
    next(format!("{time} {} {month} {week_days}", field(3)))
}

/// Whether the model has a date at all, by trying twelve years.
pub(super) fn has_a_date(model: &Model) -> bool {
    (10_957..10_957 + 12 * 366).any(|day| model.matches_day(day))
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn around_a_change_of_offset_a_schedule_fires_as_the_rule_says(
        model in any_model(),
        window in 0..WINDOWS.len(),
        places in proptest::collection::vec(any_place(), 16),
    ) {
        prop_assume!(has_a_date(&model));
        let window = &WINDOWS[window];
        let (schedule, zone) = (schedule(&model.text()), zone(window.zone));
        let fires: Vec<_> = window.fires(&model).into_iter().map(|fire| instant(fire, 0)).collect();
        let places = places.iter().map(|(place, nanos)| instant(window.place(*place), *nanos));
        let sample = fires.iter().copied().step_by(fires.len() / 100 + 1);
        for after in places.chain(sample) {
            let expected = fires.get(fires.partition_point(|fire| *fire <= after)).copied();
            let found = schedule.next(&zone, after);
            prop_assert!(found.is_some());
            let found_here = found.filter(|found| found.timestamp() < window.end());
            prop_assert_eq!(found_here, expected, "{} in {}, {}", model.text(), window.zone, after);
        }
    }

    #[test]
    fn a_rare_schedule_fires_on_the_day_that_a_search_finds(
        model in sparse_model(),
        name in proptest::sample::select(&ZONES[..]),
        after in any_instant(),
    ) {
        prop_assume!(has_a_date(&model));
        let expected = next_by_days(&model, name, after.timestamp());
        let found = schedule(&model.text()).next(&zone(name), after);
        prop_assert_eq!(found.map(|found| found.timestamp()), expected, "{} in {}", model.text(), name);
    }

    #[test]
    fn without_daylight_saving_the_cron_crate_agrees(
        model in any_model(),
        after in 946_684_800_i64..3_400_000_000,
    ) {
        prop_assume!(has_a_date(&model));
        let (schedule, utc) = (schedule(&model.text()), crate::domain::cron::Zone::utc());
        let mut after = instant(after, 0);
        for _ in 0..3 {
            let expected = next_by_crate(&model, after);
            prop_assert_eq!(schedule.next(&utc, after), expected, "{}", model.text());
            after = expected.unwrap();
        }
    }

    #[test]
    fn next_is_later_never_goes_back_and_is_what_between_repeats(
        model in any_model(),
        name in proptest::sample::select(&ZONES[..]),
        after in any_instant(),
        ahead in 0..400_000_000_i64,
    ) {
        prop_assume!(has_a_date(&model));
        let (schedule, zone) = (schedule(&model.text()), zone(name));
        let later = after + chrono::TimeDelta::milliseconds(ahead);
        let next = schedule.next(&zone, after).unwrap();
        prop_assert!(next > after);
        prop_assert_eq!(next.timestamp_subsec_nanos(), 0);
        prop_assert!(next <= schedule.next(&zone, later).unwrap());
        let mut repeated = next;
        for found in schedule.between(&zone, after, later).take(100) {
            prop_assert_eq!(found, repeated);
            prop_assert!(found <= later);
            repeated = schedule.next(&zone, repeated).unwrap();
        }
    }

    #[test]
    fn what_follows_the_grammar_has_the_sets_it_names(model in any_model()) {
        match Schedule::parse(&model.text()) {
            Ok(schedule) => {
                let calendar = schedule.calendar;
                let sets = [
                    calendar.seconds,
                    calendar.minutes,
                    calendar.hours,
                    calendar.month_days,
                    calendar.months,
                    calendar.week_days,
                ];
                for (field, set) in sets.into_iter().enumerate() {
                    prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.values(field));
                }
                prop_assert_eq!(schedule.fixed_time, model.is_fixed_time());
                prop_assert!(has_a_date(&model));
            }
            Err(error) => {
                prop_assert_eq!(error.code, "CRON_NEVER_FIRES", "{}", model.text());
                prop_assert!(!has_a_date(&model), "{}", model.text());
            }
        }
    }
}
