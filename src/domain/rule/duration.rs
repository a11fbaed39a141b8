//! Durations as people write them: `90s`, `5m`, `2h`, `3d`, `1w`, `1h30m`.
//!
//! A day has 24 hours here and a week 7 of those days, whatever daylight saving does.

use std::fmt;

use chrono::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The longest duration either way, in seconds: 366 days.
pub const MAX_SECONDS: i64 = 366 * 86_400;

const UNITS: [(char, i64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
const PATTERN: &str = "^([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$";

/// A duration of 0 to [`MAX_SECONDS`]. Written as in `1h30m`, largest unit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(i64);

/// A duration to either side, of up to [`MAX_SECONDS`]: `-1d` is a day before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Offset(i64);

macro_rules! texts {
    ($name:ident, $least:expr, $sign:literal, $says:literal) => {
        impl $name {
            /// The duration of that many seconds; none out of bounds.
            pub fn of_seconds(seconds: i64) -> Option<Self> {
                ($least..=MAX_SECONDS).contains(&seconds).then_some(Self(seconds))
            }

            /// In seconds.
            pub fn seconds(self) -> i64 {
                self.0
            }

            /// As a duration that can be added to an instant.
            pub fn duration(self) -> Duration {
                Duration::seconds(self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let (sign, digits) = match text.strip_prefix('-') {
                    Some(rest) => (-1, rest),
                    None => (1, text.as_str()),
                };
                seconds(digits)
                    .and_then(|seconds| Self::of_seconds(sign * seconds))
                    .filter(|_| $sign == "-?" || sign == 1)
                    .ok_or_else(|| $says.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(duration: $name) -> String {
                duration.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let pattern = PATTERN.replacen('^', concat!("^", $sign), 1);
                json_schema!({ "type": "string", "minLength": 2, "pattern": pattern, "description": $says })
            }
        }
    };
}

texts!(Span, 0, "", "must be a duration of at most 366 days such as 90s, 5m, 2h, 3d, 1w or 1h30m");
texts!(
    Offset,
    -MAX_SECONDS,
    "-?",
    "must be a duration of at most 366 days such as 2h or 1h30m, or with a minus for before, such as -1d"
);

/// The seconds that a text without a sign means.
fn seconds(text: &str) -> Option<i64> {
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| (1..=9).contains(end))?;
        let (digits, tail) = rest.split_at(end);
        let unit = tail.chars().next()?;
        let (_, size) = units.find(|(name, _)| *name == unit)?;
        total += digits.parse::<i64>().ok()? * size;
        rest = &tail[1..];
    }
    (!text.is_empty()).then_some(total)
}

fn write(seconds: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if seconds == 0 {
        return f.write_str("0s");
    }
    if seconds < 0 {
        f.write_str("-")?;
    }
    let mut left = seconds.abs();
    // Weeks only where nothing else is left: `1w`, but `8d`.
    for (name, size) in UNITS {
        if name == 'w' && left % size != 0 {
            continue;
        }
        if left >= size {
            write!(f, "{}{name}", left / size)?;
            left %= size;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;

    fn span(text: &str) -> Result<Span, String> {
        text.to_owned().try_into()
    }

    fn offset(text: &str) -> Result<Offset, String> {
        text.to_owned().try_into()
    }

    #[test]
    fn a_duration_is_read_as_people_write_it() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("2h", 7200),
            ("3d", 259_200),
            ("1w", 604_800),
            ("1h30m", 5400),
        ] {
            assert_eq!(span(text).unwrap().seconds(), seconds, "{text}");
        }
        assert_eq!(offset("-1d").unwrap().seconds(), -86_400);
        assert_eq!(span("366d").unwrap().seconds(), MAX_SECONDS);
    }

    #[test]
    fn whatever_is_no_duration_is_refused() {
        for text in ["", "1", "h", "1x", "1m1h", "1h1h", "1.5h", " 1h", "+1h", "-", "367d", "١h"] {
            assert!(span(text).is_err(), "{text:?}");
            assert!(offset(text).is_err(), "{text:?}");
        }
        assert!(span("9999999999s").is_err());
        assert!(span("-1d").is_err() && span("-0s").is_err(), "it cannot lie before");
        let error = from_value::<Span>(json!("soon")).unwrap_err();
        assert!(error.to_string().contains("1h30m"), "{error}");
    }

    proptest! {
        #[test]
        fn a_duration_survives_being_written(seconds in -MAX_SECONDS..=MAX_SECONDS) {
            let there = Offset::of_seconds(seconds).unwrap();
            prop_assert_eq!(offset(&there.to_string()), Ok(there));
        }

        #[test]
        fn no_text_breaks_the_reader(text in "-?([0-9]{0,11}[wdhms ]?){0,6}|.{0,20}") {
            if let Ok(read) = offset(&text) {
                prop_assert!(read.seconds().abs() <= MAX_SECONDS);
            }
        }
    }
}
