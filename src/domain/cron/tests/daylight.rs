//! What happens where a wall clock jumps, zone by zone.

use super::{at, fires, schedule, zone};

#[test]
fn a_fixed_time_in_a_spring_gap_fires_once_right_after_it() {
    // Europe/Amsterdam goes from 02:00 to 03:00 on 29 March 2026.
    let zone = zone("Europe/Amsterdam");
    let day = ("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
    assert_eq!(
        fires("0 30 2 * * *", &zone, day.0, day.1),
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    );
    assert_eq!(
        fires("0 0,15,30 2,3 29 3 *", &zone, day.0, day.1),
        ["2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00", "2026-03-29T03:30:00+02:00"]
    );
}

#[test]
fn a_fixed_time_in_an_autumn_overlap_fires_on_the_first_pass() {
    // Europe/Amsterdam goes from 03:00 back to 02:00 on 25 October 2026.
    let zone = zone("Europe/Amsterdam");
    let day = ("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(
        fires("0 30 2 * * *", &zone, day.0, day.1),
        ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    );
    assert_eq!(
        fires("0 0 2,3 25 10 *", &zone, day.0, day.1),
        ["2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"]
    );
}

#[test]
fn a_fixed_time_asked_for_in_the_second_pass_waits_for_what_was_never_shown() {
    let zone = zone("Europe/Amsterdam");
    let second_pass = "2026-10-25T01:10:00Z";
    let until = "2026-10-26T02:00:00Z";
    for after in ["2026-10-25T01:00:00Z", second_pass] {
        assert_eq!(fires("0 30 2 * * *", &zone, after, until), ["2026-10-26T02:30:00+01:00"]);
    }
    assert_eq!(
        fires("0 0 3 * * *", &zone, second_pass, until),
        ["2026-10-25T03:00:00+01:00", "2026-10-26T03:00:00+01:00"]
    );
}

#[test]
fn a_rhythm_skips_the_gap_and_runs_through_both_passes() {
    let zone = zone("Europe/Amsterdam");
    assert_eq!(
        fires("0 */30 * * * *", &zone, "2026-03-29T00:15:00Z", "2026-03-29T01:30:00Z"),
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]
    );
    assert_eq!(
        fires("0 */30 2 * * *", &zone, "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"),
        [
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
        ]
    );
    assert!(
        fires("* * 2 29 3 *", &zone, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z").is_empty()
    );
}

#[test]
fn a_rhythm_that_lives_in_an_overlap_only_has_its_second_pass() {
    let zone = zone("America/New_York");
    assert_eq!(
        fires("*/30 30 1 1 11 *", &zone, "2026-06-01T00:00:00Z", "2027-06-01T00:00:00Z"),
        [
            "2026-11-01T01:30:00-04:00",
            "2026-11-01T01:30:30-04:00",
            "2026-11-01T01:30:00-05:00",
            "2026-11-01T01:30:30-05:00",
        ]
    );
}

#[test]
fn the_first_and_the_last_second_of_an_overlap_are_told_apart() {
    let zone = zone("America/New_York");
    let night = ("2026-11-01T04:00:00Z", "2026-11-01T08:00:00Z");
    assert_eq!(fires("0 0 1 * * *", &zone, night.0, night.1), ["2026-11-01T01:00:00-04:00"]);
    assert_eq!(fires("59 59 1 * * *", &zone, night.0, night.1), ["2026-11-01T01:59:59-04:00"]);
    assert_eq!(
        fires("59 59 * * * *", &zone, "2026-11-01T05:00:00Z", "2026-11-01T06:59:59Z"),
        ["2026-11-01T01:59:59-04:00", "2026-11-01T01:59:59-05:00"]
    );
}

#[test]
fn midnight_in_a_midnight_gap_moves_to_one_o_clock() {
    // America/Sao_Paulo skipped 00:00 to 01:00 on 4 November 2018.
    let zone = zone("America/Sao_Paulo");
    assert_eq!(
        fires("@daily", &zone, "2018-11-03T12:00:00Z", "2018-11-05T12:00:00Z"),
        ["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"]
    );
    // And showed the last hour of 17 February 2018 twice.
    assert_eq!(
        fires("0 30 23 * * *", &zone, "2018-02-17T12:00:00Z", "2018-02-18T12:00:00Z"),
        ["2018-02-17T23:30:00-02:00"]
    );
    assert_eq!(
        fires("@daily", &zone, "2018-02-17T12:00:00Z", "2018-02-18T12:00:00Z"),
        ["2018-02-18T00:00:00-03:00"]
    );
}

#[test]
fn a_shift_of_half_an_hour_moves_half_an_hour() {
    // Australia/Lord_Howe: 02:00 to 02:30 on 4 October 2026, back on 5 April 2026.
    let zone = zone("Australia/Lord_Howe");
    assert_eq!(
        fires("0 15 2 * * *", &zone, "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z"),
        ["2026-10-04T02:30:00+11:00"]
    );
    assert_eq!(
        fires("0 45 * * * *", &zone, "2026-04-04T14:00:00Z", "2026-04-04T16:30:00Z"),
        ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"]
    );
}

#[test]
fn a_shift_of_two_hours_moves_two_hours() {
    // Antarctica/Troll: 01:00 to 03:00 on 29 March 2026, 03:00 back to 01:00 in October.
    let zone = zone("Antarctica/Troll");
    assert_eq!(
        fires("0 30 1,2 * * *", &zone, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"),
        ["2026-03-29T03:00:00+02:00"]
    );
    assert_eq!(
        fires("0 30 * 25 10 *", &zone, "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"),
        [
            "2026-10-25T01:30:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T01:30:00+00:00",
            "2026-10-25T02:30:00+00:00",
        ]
    );
}

#[test]
fn a_skipped_day_does_not_end_a_schedule() {
    // Pacific/Apia had no 30 December 2011.
    let zone = zone("Pacific/Apia");
    let days = ("2011-12-29T12:00:00Z", "2012-01-01T00:00:00Z");
    assert_eq!(
        fires("0 0 9 * * *", &zone, days.0, days.1),
        [
            "2011-12-29T09:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T09:00:00+14:00",
            "2012-01-01T09:00:00+14:00",
        ]
    );
    assert_eq!(
        fires("@daily", &zone, days.0, days.1),
        ["2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]
    );
    assert_eq!(
        fires("0 0 9,* 30,31 12 *", &zone, "2011-12-30T09:00:00Z", "2011-12-30T11:00:00Z"),
        ["2011-12-31T00:00:00+14:00", "2011-12-31T01:00:00+14:00"]
    );
}

#[test]
fn negative_and_moon_bound_saving_is_nothing_special() {
    let dublin = zone("Europe/Dublin");
    assert_eq!(
        fires("0 30 1 * * *", &dublin, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        ["2026-10-25T01:30:00+01:00"]
    );
    // Africa/Casablanca went back an hour for Ramadan on 23 February 2025.
    let casablanca = zone("Africa/Casablanca");
    assert_eq!(
        fires("0 30 * * * *", &casablanca, "2025-02-23T01:00:00Z", "2025-02-23T03:00:00Z"),
        ["2025-02-23T02:30:00+01:00", "2025-02-23T02:30:00+00:00"]
    );
    assert_eq!(
        fires("0 30 2 * * *", &casablanca, "2025-02-22T12:00:00Z", "2025-02-23T12:00:00Z"),
        ["2025-02-23T02:30:00+01:00"]
    );
}

#[test]
fn a_yearly_schedule_that_names_a_gap_is_not_lost() {
    let zone = zone("Europe/Amsterdam");
    let next = |expression: &str| {
        schedule(expression).next(&zone, at("2020-06-01T00:00:00Z")).map(|found| found.to_rfc3339())
    };
    // 29 March is the day of the change in 2026 only, between 2021 and 2036.
    assert_eq!(next("0 30 2 29 3 *").as_deref(), Some("2021-03-29T00:30:00+00:00"));
    assert_eq!(next("0 30 2 29 2 *").as_deref(), Some("2024-02-29T01:30:00+00:00"));
    assert_eq!(next("0 30 * 29 2 *").as_deref(), Some("2024-02-28T23:30:00+00:00"));
}
