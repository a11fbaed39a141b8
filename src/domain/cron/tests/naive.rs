//! A second, slow and plain understanding of the rules, to compare with: it tries
//! every value, every second, every day. It shares no code with what it checks.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use chrono::{DateTime, Datelike};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use regex::Regex;

const LIMITS: [(u32, u32); 6] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const WEEK_DAYS: &str = "SUN MON TUE WED THU FRI SAT";
const SPACE: [char; 5] = [' ', '\t', '\n', '\r', '\x0c'];

/// An item of a list.
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:(\*|\?)|([0-9]+|[A-Za-z]{3})(?:-([0-9]+|[A-Za-z]{3}))?)(?:/([0-9]+))?$")
        .unwrap()
});

/// One item of a field's list.
#[derive(Debug, Clone)]
pub(super) struct Item {
    range: Range,
    step: Option<u32>,
    named: bool,
}

#[derive(Debug, Clone, Copy)]
enum Range {
    Star,
    One(u32),
    Span(u32, u32),
}

impl Item {
    /// None for what is no item of the field.
    fn read(field: usize, text: &str) -> Option<Self> {
        let parts = ITEM.captures(text)?;
        let range = match (parts.get(1), parts.get(2), parts.get(3)) {
            (Some(star), ..) if star.as_str() == "?" && !matches!(field, 3 | 5) => return None,
            (Some(_), ..) => Range::Star,
            (None, start, None) => Range::One(value(field, start?.as_str())?),
            (None, start, Some(end)) => {
                let (start, end) = (value(field, start?.as_str())?, value(field, end.as_str())?);
                (start <= end).then_some(Range::Span(start, end))?
            }
        };
        let step = parts.get(4).map(|step| number(step.as_str()));
        (step != Some(0)).then_some(Self { range, step, named: false })
    }

    fn matches(&self, field: usize, value: u32) -> bool {
        let (start, end) = match (self.range, self.step) {
            (Range::Star, _) => LIMITS[field],
            (Range::One(start), Some(_)) => (start, LIMITS[field].1),
            (Range::One(only), None) => (only, only),
            (Range::Span(start, end), _) => (start, end),
        };
        (start..=end).step_by(self.step.unwrap_or(1) as usize).any(|each| each == value)
    }

    fn text(&self, field: usize) -> String {
        let word = |value: u32| match (field, self.named) {
            (4, true) => MONTHS.split(' ').nth(value as usize - 1).unwrap().to_owned(),
            (5, true) => WEEK_DAYS.split(' ').nth(value as usize).unwrap().to_owned(),
            _ => value.to_string(),
        };
        let range = match self.range {
            Range::Star if self.named && matches!(field, 3 | 5) => "?".to_owned(),
            Range::Star => "*".to_owned(),
            Range::One(value) => word(value),
            Range::Span(start, end) => format!("{}-{}", word(start), word(end)),
        };
        self.step.map_or(range.clone(), |step| format!("{range}/{step}"))
    }

    fn is_unrestricted(&self) -> bool {
        matches!((self.range, self.step), (Range::Star, None | Some(1)))
    }
}

fn number(digits: &str) -> u32 {
    digits.trim_start_matches('0').parse().unwrap_or(if digits.trim_matches('0').is_empty() {
        0
    } else {
        u32::MAX
    })
}

fn value(field: usize, text: &str) -> Option<u32> {
    let named = |names: &str, first: usize| {
        names.split(' ').position(|name| name.eq_ignore_ascii_case(text)).map(|at| at + first)
    };
    let value = match (field, text.as_bytes()[0].is_ascii_digit()) {
        (_, true) => number(text),
        (4, false) => named(MONTHS, 1)? as u32,
        (5, false) => named(WEEK_DAYS, 0)? as u32,
        _ => return None,
    };
    let (min, max) = LIMITS[field];
    (min <= value && value <= max).then_some(value)
}

/// A cron expression as a list of items for each field.
#[derive(Debug, Clone)]
pub(super) struct Model {
    fields: Vec<Vec<Item>>,
    allowed: Vec<Vec<bool>>,
}

impl Model {
    fn new(fields: Vec<Vec<Item>>) -> Self {
        let allowed = |field: usize| {
            let matches = |value| fields[field].iter().any(|item| item.matches(field, value));
            (0..64).map(matches).collect()
        };
        Self { allowed: (0..6).map(allowed).collect(), fields }
    }

    /// Reads an expression. None for what is none; one that never fires is one.
    pub(super) fn read(text: &str) -> Option<Self> {
        if !text.is_ascii() || text.len() > 256 {
            return None;
        }
        let text = match text.trim_matches(SPACE) {
            "@hourly" => "0 0 * * * *",
            "@daily" | "@midnight" => "0 0 0 * * *",
            "@weekly" => "0 0 0 * * 0",
            "@monthly" => "0 0 0 1 * *",
            "@yearly" | "@annually" => "0 0 0 1 1 *",
            other => other,
        };
        let words: Vec<_> = text.split(SPACE).filter(|word| !word.is_empty()).collect();
        let items = |(field, word): (usize, &&str)| -> Option<Vec<_>> {
            word.split(',').map(|item| Item::read(field, item)).collect()
        };
        let fields: Vec<_> = words.iter().enumerate().take(6).map(items).collect::<Option<_>>()?;
        (words.len() == 6).then(|| Self::new(fields))
    }

    pub(super) fn text(&self) -> String {
        let field = |field: usize| {
            let items: Vec<_> = self.fields[field].iter().map(|item| item.text(field)).collect();
            items.join(",")
        };
        (0..6).map(field).collect::<Vec<_>>().join(" ")
    }

    /// The allowed values of a field.
    pub(super) fn values(&self, field: usize) -> Vec<u32> {
        (0..64).filter(|value| self.allowed[field][*value as usize]).collect()
    }

    pub(super) fn restricts(&self, field: usize) -> bool {
        !self.fields[field].iter().any(Item::is_unrestricted)
    }

    pub(super) fn is_fixed_time(&self) -> bool {
        !self.fields[..3].iter().flatten().any(|item| matches!(item.range, Range::Star))
    }

    /// Whether the date matches, given in days since 1970-01-01.
    pub(super) fn matches_day(&self, day: i64) -> bool {
        let date = DateTime::from_timestamp(day * 86_400, 0).unwrap();
        let of_month = self.allowed[3][date.day() as usize];
        let of_week = self.allowed[5][date.weekday().num_days_from_sunday() as usize];
        let day_matches = match (self.restricts(3), self.restricts(5)) {
            (true, true) => of_month || of_week,
            _ => of_month && of_week,
        };
        day_matches && self.allowed[4][date.month() as usize]
    }

    fn matches_time(&self, second: i64) -> bool {
        self.allowed[0][(second % 60) as usize]
            && self.allowed[1][(second / 60 % 60) as usize]
            && self.allowed[2][(second / 3600) as usize]
    }

    pub(super) fn matches(&self, civil: i64) -> bool {
        self.matches_time(civil.rem_euclid(86_400)) && self.matches_day(civil.div_euclid(86_400))
    }
}

fn item(field: usize, star: u32) -> impl Strategy<Value = Item> {
    let (min, max) = LIMITS[field];
    let range = prop_oneof![
        star => Just(Range::Star),
        3 => (min..=max).prop_map(Range::One),
        2 => (min..=max, min..=max).prop_map(|(a, b)| Range::Span(a.min(b), a.max(b))),
    ];
    let step = proptest::option::weighted(0.3, 1..=max + 2);
    (range, step, any::<bool>()).prop_map(|(range, step, named)| Item { range, step, named })
}

/// Expressions of every shape; day fields are often left open.
pub(super) fn any_model() -> impl Strategy<Value = Model> {
    let field = |field: usize, star: u32, most: usize| {
        proptest::collection::vec(item(field, star), 1..=most)
    };
    (field(0, 1, 3), field(1, 3, 3), field(2, 5, 3), field(3, 9, 2), field(4, 9, 2), field(5, 9, 2))
        .prop_map(|(a, b, c, d, e, f)| Model::new(vec![a, b, c, d, e, f]))
}

/// Expressions with at most 48 times a day, on few days of the year.
pub(super) fn sparse_model() -> impl Strategy<Value = Model> {
    let one = |field: usize| {
        let (min, max) = LIMITS[field];
        (min..=max)
            .prop_map(|value| vec![Item { range: Range::One(value), step: None, named: false }])
    };
    let hour = prop_oneof![one(2), proptest::collection::vec(item(2, 2), 1..=2)];
    let days = proptest::collection::vec(item(3, 3), 1..=1);
    let weekdays = proptest::collection::vec(item(5, 9), 1..=1);
    (one(0), one(1), hour, days, one(4), weekdays)
        .prop_map(|(a, b, c, d, e, f)| Model::new(vec![a, b, c, d, e, f]))
}

fn time_zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn offset(zone: &TimeZone, instant: i64) -> i64 {
    i64::from(zone.to_offset(Timestamp::from_second(instant).unwrap()).seconds())
}

/// What a wall clock shows in each second around a change of its zone's offset.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) zone: &'static str,
    start: i64,
    shown: Vec<i64>,
}

impl Window {
    const HALF: i64 = 30 * 3600;

    /// Thirty hours before and after `change`. No other change lies within.
    pub(super) fn around(zone: &'static str, change: &str) -> Self {
        let change = change.parse::<Timestamp>().unwrap().as_second();
        let time_zone = time_zone(zone);
        assert_ne!(offset(&time_zone, change - 1), offset(&time_zone, change), "{zone} {change}");
        let start = change - Self::HALF;
        let shown = (start..change + Self::HALF).map(|at| at + offset(&time_zone, at)).collect();
        Self { zone, start, shown }
    }

    /// The instant `seconds` after the change, or before it.
    pub(super) fn place(&self, seconds: i64) -> i64 {
        self.start + Self::HALF + seconds
    }

    pub(super) fn end(&self) -> i64 {
        self.start + self.shown.len() as i64
    }

    /// Every instant of the window at which the schedule fires.
    pub(super) fn fires(&self, model: &Model) -> Vec<i64> {
        let instants = self.start..;
        if !model.is_fixed_time() {
            let shown = instants.zip(&self.shown).filter(|(_, civil)| model.matches(**civil));
            return shown.map(|(instant, _)| instant).collect();
        }
        let mut done = BTreeSet::new();
        let mut fires = BTreeSet::new();
        let mut previous = self.shown[0] - 1;
        for (instant, civil) in instants.zip(&self.shown) {
            let skipped = previous + 1..*civil;
            for due in skipped.chain([*civil]) {
                if model.matches(due) && done.insert(due) {
                    fires.insert(instant);
                }
            }
            previous = *civil;
        }
        fires.into_iter().collect()
    }
}

/// The next occurrence, found by trying the days one after the other and asking the
/// zone's database what each matching wall-clock time means.
pub(super) fn next_by_days(model: &Model, zone: &str, after: i64) -> Option<i64> {
    let zone = time_zone(zone);
    let first_day = (after + offset(&zone, after)).div_euclid(86_400) - 2;
    let mut found = Vec::new();
    let mut last_day = first_day + 366 * 9;
    let mut day = first_day;
    while day <= last_day {
        if model.matches_day(day) {
            let times =
                (0..86_400).step_by(60).map(|minute| minute + i64::from(model.values(0)[0]));
            for time in times.filter(|time| model.matches_time(*time)) {
                found.extend(instants(&zone, model, day * 86_400 + time));
            }
            if found.iter().any(|instant| *instant > after) {
                last_day = last_day.min(day + 2);
            }
        }
        day += 1;
    }
    found.into_iter().filter(|instant| *instant > after).min()
}

fn instants(zone: &TimeZone, model: &Model, civil_second: i64) -> Vec<i64> {
    let civil = Offset::UTC.to_datetime(Timestamp::from_second(civil_second).unwrap());
    let under = |offset: Offset| civil_second - i64::from(offset.seconds());
    match (zone.to_ambiguous_timestamp(civil).offset(), model.is_fixed_time()) {
        (AmbiguousOffset::Unambiguous { offset }, _) => vec![under(offset)],
        (AmbiguousOffset::Fold { before, .. }, true) => vec![under(before)],
        (AmbiguousOffset::Fold { before, after }, false) => vec![under(before), under(after)],
        (AmbiguousOffset::Gap { .. }, false) => vec![],
        (AmbiguousOffset::Gap { before, .. }, true) => {
            let beyond = Timestamp::from_second(under(before) + 1).unwrap();
            vec![zone.preceding(beyond).next().unwrap().timestamp().as_second()]
        }
    }
}
