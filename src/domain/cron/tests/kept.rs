//! Texts of the corpus, texts made of them, and texts that nobody would write.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::naive::Model;
use super::properties::{WINDOWS, ZONES, any_instant, has_a_date, instant};
use super::zone;
use crate::corpus::{cases, entries, mutated, texts};
use crate::domain::cron::calendar::{Calendar, DayRule, Set};
use crate::domain::cron::{CronError, Schedule};

const CODES: [&str; 7] = [
    "CRON_FIELD_COUNT",
    "CRON_NEVER_FIRES",
    "CRON_OUT_OF_RANGE",
    "CRON_REVERSED_RANGE",
    "CRON_SYNTAX",
    "CRON_TOO_LONG",
    "CRON_UNSUPPORTED",
];

/// What is put into texts of the corpus.
const PIECES: &[&str] = &[
    " ",
    "  ",
    "\t",
    ",",
    "-",
    "/",
    "*",
    "?",
    "#",
    "@",
    "+",
    ".",
    "0",
    "1",
    "5",
    "7",
    "9",
    "00",
    "59",
    "60",
    "31",
    "/1",
    "*/1",
    "*/2",
    "/0",
    "1-5",
    "5-1",
    ",,",
    "L",
    "W",
    "H",
    "mon",
    "SUN",
    "jan",
    "Dec",
    "TZ=",
    "@daily",
    "«",
    "\u{0}",
    "\n",
    "é",
    "１",
    "18446744073709551616",
];

/// No gap between two occurrences is longer: from 29 February 2096 to that of 2104. A gap bounds
/// the work that finds its end: a step a month, and one for each change of the zone's offset.
const LONGEST_GAP: TimeDelta = TimeDelta::days(8 * 366);

fn any_text() -> impl Strategy<Value = String> {
    let item = "(\\*|\\?|[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}|[a-z]{3}(-[A-Z]{3})?)(/[0-9]{1,2})?";
    let day = "(mon|SUN|tue-FRI|[0-7](-[0-7])?|\\*|\\?)(/[0-9])?";
    let shaped = format!("({item}(,{item})? ){{5}}{day}(,{day})?");
    prop_oneof![
        1 => any::<String>(),
        1 => "[-0-9*,/?#@LWHa-z+ ]{0,40}",
        1 => "([-0-9*,/]{1,4} ){5}[-0-9*,/]{1,4}",
        1 => "([0-9*]{1,2}(/[0-9])?[ ,]){5,6}([0-9*]|[A-Za-z]{3})",
        1 => proptest::string::string_regex(&shaped).unwrap(),
        5 => mutated(texts("cron"), PIECES),
    ]
}

/// What a refusal must hold, whatever was refused.
fn check_refusal(text: &str, error: &CronError) -> Result<(), TestCaseError> {
    prop_assert!(CODES.contains(&error.code), "{}", error.code);
    prop_assert_eq!(error.field, "cronExpression");
    prop_assert!(error.message.len() > 20, "{}", error.message);
    prop_assert!(error.message.len() < 1000 + 10 * text.len().min(256));
    prop_assert!(!error.message.chars().any(char::is_control), "{}", error.message);
    Ok(())
}

/// The schedule as a text that says no more than its sets.
fn printed(schedule: &Schedule) -> String {
    let Calendar { seconds, minutes, hours, month_days, months, week_days, day_rule } =
        schedule.calendar;
    let day = |set: Set, free: DayRule| match day_rule == DayRule::Every || day_rule == free {
        true => "*".to_owned(),
        false => list(set),
    };
    let mut time = [list(seconds), list(minutes), list(hours)];
    if !schedule.fixed_time {
        // A star that adds nothing to a set with 0 in it, which each one with a star is.
        let sets = [seconds, minutes, hours];
        time[sets.iter().position(|set| set.contains(0)).unwrap()] += ",*/99";
    }
    let (of_month, of_week) = (day(month_days, DayRule::OfWeek), day(week_days, DayRule::OfMonth));
    format!("{} {of_month} {} {of_week}", time.join(" "), list(months))
}

/// The members as runs.
fn list(set: Set) -> String {
    let mut items = Vec::new();
    let mut next = set.at_or_after(0);
    while let Some(start) = next {
        let end = (start..63).find(|value| !set.contains(value + 1)).unwrap();
        items.push(if end == start { start.to_string() } else { format!("{start}-{end}") });
        next = set.at_or_after(end + 1);
    }
    items.join(",")
}

/// A text is read as another reader reads it, who knows nothing of the parser.
fn check_reading(text: &str) -> Result<(), TestCaseError> {
    let model = Model::read(text);
    let schedule = match Schedule::parse(text) {
        Ok(schedule) => schedule,
        Err(error) => {
            check_refusal(text, &error)?;
            let never = error.code == "CRON_NEVER_FIRES";
            prop_assert_eq!(model.is_some_and(|model| !has_a_date(&model)), never);
            prop_assert_eq!(Model::read(text).is_some(), never, "{}", error.message);
            return Ok(());
        }
    };
    prop_assert!(model.is_some(), "was taken for: {}", schedule.describe());
    let (model, calendar) = (model.unwrap(), &schedule.calendar);
    let sets = [
        calendar.seconds,
        calendar.minutes,
        calendar.hours,
        calendar.month_days,
        calendar.months,
        calendar.week_days,
    ];
    for (field, set) in sets.into_iter().enumerate() {
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.values(field), "field {}", field);
    }
    prop_assert_eq!(schedule.fixed_time, model.is_fixed_time());
    prop_assert!(has_a_date(&model));
    let printed = printed(&schedule);
    if printed.len() <= 256 {
        prop_assert_eq!(Schedule::parse(&printed), Ok(schedule), "{}", printed);
    }
    Ok(())
}

/// Occurrences rise, are whole seconds, show what the fields say, and are never far away.
fn check_occurrences(text: &str, name: &str, after: DateTime<Utc>) -> Result<(), TestCaseError> {
    let (Ok(schedule), Some(model)) = (Schedule::parse(text), Model::read(text)) else {
        return Ok(());
    };
    prop_assert!(!schedule.describe().is_empty());
    let (zone, mut last) = (zone(name), after);
    for _ in 0..12 {
        let next = schedule.next(&zone, last).unwrap();
        prop_assert!(next > last && next - last <= LONGEST_GAP, "{} to {}", last, next);
        prop_assert_eq!(next.timestamp_subsec_nanos(), 0);
        let (local, offset) = zone.to_local(next);
        let shown: DateTime<Utc> = format!("{local}Z").parse().unwrap();
        if !model.matches(shown.timestamp()) {
            // Only what a gap swallowed is due at a time that the fields do not name.
            let before = zone.to_local(next - TimeDelta::seconds(1)).1;
            prop_assert!(model.is_fixed_time() && before != offset, "{} at {}", local, offset);
        }
        last = next;
    }
    Ok(())
}

#[test]
fn texts_of_the_corpus_have_their_verdicts() {
    let mut wrong = Vec::new();
    for entry in entries("cron") {
        let verdict = Schedule::parse(&entry.text).map_or_else(|error| error.code, |_| "ok");
        if verdict != entry.verdict {
            wrong.push(entry.but(verdict));
        }
        check_reading(&entry.text).unwrap_or_else(|error| panic!("{}: {error}", entry.at));
        for zone in ["UTC", "Europe/Amsterdam", "Australia/Lord_Howe"] {
            let checked = check_occurrences(&entry.text, zone, instant(1_774_746_000, 1));
            checked.unwrap_or_else(|error| panic!("{} in {zone}: {error}", entry.at));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_text_is_read_as_another_reader_reads_it(text in any_text()) {
        check_reading(&text)?;
    }

    #[test]
    fn occurrences_rise_and_show_what_the_fields_say(
        text in any_text(),
        zone in proptest::sample::select(&ZONES[..]),
        after in any_instant(),
    ) {
        check_occurrences(&text, zone, after)?;
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_text_fires_around_a_change_of_offset_as_every_second_tells(
        text in any_text().prop_filter("fires", |text| Schedule::parse(text).is_ok()),
        window in 0..WINDOWS.len(),
    ) {
        let (schedule, window) = (Schedule::parse(&text).unwrap(), &WINDOWS[window]);
        let fires = window.fires(&Model::read(&text).unwrap());
        let (start, end) = (instant(window.place(-7300), 0), instant(window.place(7300), 0));
        let zone = zone(window.zone);
        let found = schedule.between(&zone, start, end);
        let found: Vec<_> = found.map(|found| found.timestamp()).collect();
        let expected = fires.into_iter().filter(|fire| {
            start.timestamp() < *fire && *fire <= end.timestamp()
        });
        prop_assert_eq!(found, expected.collect::<Vec<_>>(), "{} in {}", text, window.zone);
    }
}
