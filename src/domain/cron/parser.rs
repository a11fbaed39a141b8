//! From text to a schedule. Strict: what other cron dialects add is refused with a
//! message that names it, never guessed at.

use super::Schedule;
use super::calendar::{Calendar, DayRule};
use super::error::CronError;
use super::field::{HOUR, MINUTE, MONTH, MONTH_DAY, SECOND, WEEK_DAY, shown};

const MAX_CHARS: usize = 256;

const SHORTHANDS: [(&str, &str); 7] = [
    ("@hourly", "0 0 * * * *"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@weekly", "0 0 0 * * 0"),
    ("@monthly", "0 0 0 1 * *"),
    ("@yearly", "0 0 0 1 1 *"),
    ("@annually", "0 0 0 1 1 *"),
];

/// [`Schedule::parse`].
pub(super) fn parse(expression: &str) -> Result<Schedule, CronError> {
    let length = expression.chars().count();
    if length > MAX_CHARS {
        return Err(CronError::expression(
            "CRON_TOO_LONG",
            format!("a cron expression has at most {MAX_CHARS} characters, this one has {length}"),
        ));
    }
    if let Some(character) = expression.chars().find(|character| !character.is_ascii()) {
        return Err(CronError::expression(
            "CRON_SYNTAX",
            format!(
                "`{}` is not an ASCII character; a cron expression has none other",
                character.escape_debug()
            ),
        ));
    }
    let text = expand(expression.trim_ascii())?;
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    match <[&str; 6]>::try_from(parts) {
        Ok(parts) => from_fields(parts),
        Err(parts) => Err(wrong_count(&parts)),
    }
}

/// Replaces a shorthand by its six fields, and refuses what only looks like one.
fn expand(text: &str) -> Result<&str, CronError> {
    if text.starts_with('@') {
        if let Some((_, fields)) = SHORTHANDS.iter().find(|(name, _)| *name == text) {
            return Ok(fields);
        }
        let names = SHORTHANDS.map(|(name, _)| name).join(", ");
        return Err(CronError::expression(
            "CRON_UNSUPPORTED",
            format!("`{}` is not a shorthand; there are {names}", shown(text)),
        ));
    }
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Err(CronError::expression(
            "CRON_UNSUPPORTED",
            "a time zone has no place in the expression; give it in the field timeZone",
        ));
    }
    Ok(text)
}

fn wrong_count(parts: &[&str]) -> CronError {
    if parts.iter().any(|part| part.starts_with('#')) {
        return CronError::expression(
            "CRON_UNSUPPORTED",
            "comments (`#`) are not supported; a cron expression is six fields and nothing else",
        );
    }
    let hint = match parts.len() {
        5 => "; put `0 ` in front to fire at second 0",
        7 => "; a year is not supported",
        _ => "",
    };
    CronError::expression(
        "CRON_FIELD_COUNT",
        format!(
            "a cron expression has six fields, seconds first: second, minute, hour, day of month, \
             month, day of week; got {}{hint}",
            parts.len()
        ),
    )
}

fn from_fields(parts: [&str; 6]) -> Result<Schedule, CronError> {
    let (second, minute) = (SECOND.parse(parts[0])?, MINUTE.parse(parts[1])?);
    let (hour, month_day) = (HOUR.parse(parts[2])?, MONTH_DAY.parse(parts[3])?);
    let (month, week_day) = (MONTH.parse(parts[4])?, WEEK_DAY.parse(parts[5])?);
    let day_rule = match (month_day.unrestricted, week_day.unrestricted) {
        (true, true) => DayRule::Every,
        (false, true) => DayRule::OfMonth,
        (true, false) => DayRule::OfWeek,
        (false, false) => DayRule::Either,
    };
    let calendar = Calendar {
        seconds: second.set,
        minutes: minute.set,
        hours: hour.set,
        month_days: month_day.set,
        months: month.set,
        week_days: week_day.set,
        day_rule,
    };
    if !calendar.ever_matches() {
        return Err(CronError::expression(
            "CRON_NEVER_FIRES",
            format!(
                "day of month: none of the months `{}` has a day `{}`, so this never fires; choose \
                 a day that exists",
                parts[4], parts[3]
            ),
        ));
    }
    let fixed_time = !(second.wildcard || minute.wildcard || hour.wildcard);
    Ok(Schedule { calendar, fixed_time })
}
