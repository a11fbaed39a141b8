//! A schedule in plain English, made from its sets and not from its text.

use super::calendar::{Calendar, DayRule, Set};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEK_DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Up to this many times a day are told one by one.
const TIMES_TOLD: u32 = 4;

/// [`Schedule::describe`](super::Schedule::describe).
pub(super) fn describe(calendar: &Calendar) -> String {
    let told = calendar.hours.len() * calendar.minutes.len() * calendar.seconds.len() <= TIMES_TOLD;
    let mut parts = if told { vec![times(calendar)] } else { rhythm(calendar) };
    match days(calendar) {
        Some(days) => parts.push(days),
        None if told => parts.push("every day".to_owned()),
        None => {}
    }
    if calendar.months.len() < 12 {
        let months = list(calendar.months, |month| named(&MONTHS, month - 1));
        let preposition = if is_run(calendar.months) { "from" } else { "in" };
        parts.push(format!("{preposition} {months}"));
    }
    parts.join(", ")
}

/// The times of a day, each by itself.
fn times(calendar: &Calendar) -> String {
    let mut times = Vec::new();
    for hour in calendar.hours.iter() {
        for minute in calendar.minutes.iter() {
            for second in calendar.seconds.iter() {
                times.push(format!("{hour:02}:{minute:02}:{second:02}"));
            }
        }
    }
    format!("At {}", joined(&times))
}

/// The times of a day by a rule: the smallest unit that is not simply 0 leads.
fn rhythm(calendar: &Calendar) -> Vec<String> {
    let Calendar { seconds, minutes, hours, .. } = *calendar;
    let mut parts = Vec::new();
    if seconds != Set(1) {
        parts.push(lead(seconds, "second", 60, (minutes.len() == 60).then_some("minute")));
        if minutes.len() < 60 {
            parts.push(format!("in {}", values(minutes, "minute")));
        }
    } else if minutes != Set(1) {
        parts.push(lead(minutes, "minute", 60, (hours.len() == 24).then_some("hour")));
    } else if let Some(step) = divisor(hours, 24) {
        parts.push(format!("{}, on the hour", every(step, "hour")));
        return parts;
    } else {
        parts.push("On the hour".to_owned());
        if is_run(hours) {
            parts.push(format!("from {:02}:00 to {:02}:00", hours.first(), last(hours)));
            return parts;
        }
    }
    if hours.len() < 24 {
        parts.push(if is_run(hours) || hours.len() == 1 {
            format!("from {:02}:00 to {:02}:59", hours.first(), last(hours))
        } else {
            format!("in {}", values(hours, "hour"))
        });
    }
    parts
}

/// "Every 5 minutes", or "At minute 15" with the unit around it if that is not told
/// otherwise.
fn lead(set: Set, unit: &str, size: u32, around: Option<&str>) -> String {
    match (divisor(set, size), around) {
        (Some(step), _) => every(step, unit),
        (None, Some(around)) => format!("At {} of every {around}", values(set, unit)),
        (None, None) => format!("At {}", values(set, unit)),
    }
}

fn every(step: u32, unit: &str) -> String {
    if step == 1 { format!("Every {unit}") } else { format!("Every {step} {unit}s") }
}

/// The days, or nothing if every day matches.
fn days(calendar: &Calendar) -> Option<String> {
    let all_of_month = calendar.month_days.len() == 31;
    let all_of_week = calendar.week_days.len() == 7;
    let of_month = || format!("on {} of the month", values(calendar.month_days, "day"));
    let of_week = || list(calendar.week_days, |day| named(&WEEK_DAYS, day));
    match calendar.day_rule {
        DayRule::OfMonth if !all_of_month => Some(of_month()),
        DayRule::OfWeek if is_run(calendar.week_days) && !all_of_week => Some(of_week()),
        DayRule::OfWeek if !all_of_week => Some(format!("on {}", of_week())),
        DayRule::Either if !all_of_month && !all_of_week => {
            Some(format!("{} or on {}", of_month(), of_week()))
        }
        _ => None,
    }
}

/// "minute 5", "minutes 0, 5 and 10 to 20", "every 7th minute from 0 to 56".
fn values(set: Set, unit: &str) -> String {
    match step(set) {
        _ if set.len() == 1 => format!("{unit} {}", set.first()),
        Some(step) if step > 1 && set.len() > 3 => {
            format!("every {} {unit} from {} to {}", ordinal(step), set.first(), last(set))
        }
        _ => format!("{unit}s {}", list(set, |value| value.to_string())),
    }
}

/// The members in words, runs of three and more as "a to b".
fn list(set: Set, name: impl Fn(u32) -> String) -> String {
    let mut words = Vec::new();
    let mut next = set.at_or_after(0);
    while let Some(start) = next {
        let mut end = start;
        while set.contains(end + 1) {
            end += 1;
        }
        match end - start {
            0 => words.push(name(start)),
            1 => words.extend([name(start), name(end)]),
            _ => words.push(format!("{} to {}", name(start), name(end))),
        }
        next = set.at_or_after(end + 1);
    }
    joined(&words)
}

fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [word] => word.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn last(set: Set) -> u32 {
    set.iter().last().unwrap_or_default()
}

/// Three members or more without a hole.
fn is_run(set: Set) -> bool {
    set.len() > 2 && last(set) - set.first() + 1 == set.len()
}

/// The distance between members, if it is the same everywhere.
fn step(set: Set) -> Option<u32> {
    let members: Vec<u32> = set.iter().collect();
    let step = members.get(1)? - members.first()?;
    members.windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step)
}

/// The step of a set that starts at 0 and goes round `size` evenly.
fn divisor(set: Set, size: u32) -> Option<u32> {
    let step = step(set)?;
    (set.first() == 0 && step * set.len() == size).then_some(step)
}

fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn named(names: &[&str], index: u32) -> String {
    usize::try_from(index).ok().and_then(|index| names.get(index)).unwrap_or(&"").to_string()
}
