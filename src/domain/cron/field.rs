//! The fields of a cron expression: one comma list each.

use super::calendar::Set;
use super::error::CronError;

/// What a field allows.
#[derive(Debug)]
pub(super) struct Field {
    /// The field's name in messages.
    name: &'static str,
    min: u32,
    max: u32,
    /// Names for the values from `min` on.
    names: &'static [&'static str],
    /// Whether `?` stands for `*`.
    is_day: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEK_DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub(super) const SECOND: Field =
    Field { name: "second", min: 0, max: 59, names: &[], is_day: false };
pub(super) const MINUTE: Field =
    Field { name: "minute", min: 0, max: 59, names: &[], is_day: false };
pub(super) const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[], is_day: false };
pub(super) const MONTH_DAY: Field =
    Field { name: "day of month", min: 1, max: 31, names: &[], is_day: true };
pub(super) const MONTH: Field =
    Field { name: "month", min: 1, max: 12, names: &MONTHS, is_day: false };
pub(super) const WEEK_DAY: Field =
    Field { name: "day of week", min: 0, max: 6, names: &WEEK_DAYS, is_day: true };

/// What the text of a field says.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) set: Set,
    /// `*` or `?` occurs.
    pub(super) wildcard: bool,
    /// An item is `*`, `?`, `*/1` or `?/1`.
    pub(super) unrestricted: bool,
}

impl Field {
    /// Reads the field's text, which holds no white space.
    pub(super) fn parse(&self, text: &str) -> Result<Values, CronError> {
        let mut values = Values::default();
        for item in text.split(',') {
            self.parse_item(item, &mut values)?;
        }
        Ok(values)
    }

    fn parse_item(&self, item: &str, values: &mut Values) -> Result<(), CronError> {
        if item.is_empty() {
            return Err(self.syntax("an item of the list is empty; write values between commas"));
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.parse_step(item, step)?)),
            None => (item, None),
        };
        if range == "*" || (range == "?" && self.is_day) {
            values.wildcard = true;
            values.unrestricted |= matches!(step, None | Some(1));
            values.set.insert(self.min, self.max, step.unwrap_or(1));
            return Ok(());
        }
        let (start, end) = match range.split_once('-') {
            Some((start, end)) if !start.is_empty() => (self.value(start)?, self.value(end)?),
            _ => {
                let value = self.value(range)?;
                (value, if step.is_some() { self.max } else { value })
            }
        };
        if start > end {
            return Err(self.reversed(range, start, end));
        }
        values.set.insert(start, end, step.unwrap_or(1));
        Ok(())
    }

    fn parse_step(&self, item: &str, step: &str) -> Result<u32, CronError> {
        match number(step) {
            Some(0) => Err(self.error(
                "CRON_OUT_OF_RANGE",
                format!("the step of `{}` is 0; a step is 1 or more", shown(item)),
            )),
            Some(step) => Ok(step),
            None => Err(self.syntax(format!(
                "the step of `{}` is not a whole number; a step is written `/n`, once, at the end",
                shown(item)
            ))),
        }
    }

    fn value(&self, text: &str) -> Result<u32, CronError> {
        if let Some(value) = number(text) {
            return if (self.min..=self.max).contains(&value) {
                Ok(value)
            } else {
                Err(self.out_of_range(text, value))
            };
        }
        let position = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        match position.and_then(|position| u32::try_from(position).ok()) {
            Some(position) => Ok(self.min + position),
            None => Err(self.not_a_value(text)),
        }
    }

    fn out_of_range(&self, text: &str, value: u32) -> CronError {
        let hint = match (self.name, value) {
            ("day of week", 7) => "Sunday is written 0; ",
            ("hour", 24) => "midnight is written 0; ",
            ("second" | "minute", 60) => "the full turn is written 0; ",
            _ => "",
        };
        self.error(
            "CRON_OUT_OF_RANGE",
            format!("`{text}` is out of range; {hint}allowed is {}", self.allowed()),
        )
    }

    fn reversed(&self, range: &str, start: u32, end: u32) -> CronError {
        let span = |start: u32, end: u32| {
            if start == end { start.to_string() } else { format!("{start}-{end}") }
        };
        self.error(
            "CRON_REVERSED_RANGE",
            format!(
                "the range `{range}` runs backwards; to wrap around write `{},{}`",
                span(start, self.max),
                span(self.min, end)
            ),
        )
    }

    /// Says why a text that is neither a number nor one of the field's names is no
    /// value, as closely as it can be guessed.
    fn not_a_value(&self, text: &str) -> CronError {
        let lower = text.to_ascii_lowercase();
        let begins_with = |name: &&&str| lower.starts_with(**name);
        if text.is_empty() {
            return self.syntax("a value is missing before or after `-` or `/`");
        }
        if text.starts_with(['-', '+']) {
            return self.syntax(format!(
                "`{}` has a sign; values are whole numbers without one",
                shown(text)
            ));
        }
        if text.contains('*') {
            return self.syntax(format!(
                "`{}` mixes `*` with something else; `*` stands alone or before `/n`",
                shown(text)
            ));
        }
        if text == "?" {
            return self.unsupported("`?` has a meaning in the two day fields only; write `*`");
        }
        if text.contains('#') {
            return self.unsupported(format!(
                "`{}`: neither comments nor the nth weekday of a month (`#`) are supported",
                shown(text)
            ));
        }
        let letters = lower.trim_matches(|c: char| c.is_ascii_digit());
        if matches!(letters, "l" | "w" | "lw" | "h") || letters.starts_with("h(") {
            return self.unsupported(format!(
                "`{}`: the marks L, W and H of other cron dialects are not supported",
                shown(text)
            ));
        }
        if let Some(name) = self.names.iter().find(begins_with) {
            return self.syntax(format!("`{}` is not a name; write `{name}`", shown(text)));
        }
        if MONTHS.iter().chain(&WEEK_DAYS).any(|name| begins_with(&name)) {
            return self.syntax(format!(
                "`{}` is a name; names of months belong in the month field, names of weekdays in \
                 the day of week field",
                shown(text)
            ));
        }
        self.syntax(format!("`{}` is not a value; allowed is {}", shown(text), self.allowed()))
    }

    fn allowed(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("{}-{} or {first}-{last}", self.min, self.max),
            _ => format!("{}-{}", self.min, self.max),
        }
    }

    fn syntax(&self, reason: impl AsRef<str>) -> CronError {
        self.error("CRON_SYNTAX", reason)
    }

    fn unsupported(&self, reason: impl AsRef<str>) -> CronError {
        self.error("CRON_UNSUPPORTED", reason)
    }

    fn error(&self, code: &'static str, reason: impl AsRef<str>) -> CronError {
        CronError::expression(code, format!("{}: {}", self.name, reason.as_ref()))
    }
}

/// A number of digits only. What does not fit is as good as the greatest number.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Text of the caller's, fit for a message.
pub(super) fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}
