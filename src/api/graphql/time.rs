//! The scalar for instants.

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use chrono::{SecondsFormat, SubsecRound, Utc};

/// An instant, as in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime(pub chrono::DateTime<Utc>);

/// An instant as in RFC 3339, for example `2026-03-01T09:00:00Z`. Answers are in UTC, with
/// milliseconds where there are any. In arguments any offset is allowed, and what is finer than a
/// millisecond is cut.
#[Scalar(specified_by_url = "https://www.rfc-editor.org/rfc/rfc3339")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(text) = &value else {
            return Err(InputValueError::expected_type(value));
        };
        let at = chrono::DateTime::parse_from_rfc3339(text).map_err(|error| {
            InputValueError::custom(format!(
                "{error}; write an instant as in RFC 3339, for example 2026-03-01T09:00:00Z"
            ))
        })?;
        Ok(Self(at.with_timezone(&Utc).trunc_subsecs(3)))
    }

    fn is_valid(value: &Value) -> bool {
        Self::parse(value.clone()).is_ok()
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.trunc_subsecs(3).to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

impl From<chrono::DateTime<Utc>> for DateTime {
    fn from(at: chrono::DateTime<Utc>) -> Self {
        Self(at)
    }
}

impl From<DateTime> for chrono::DateTime<Utc> {
    fn from(at: DateTime) -> Self {
        at.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_with_milliseconds_at_the_most() {
        for (at, written) in [
            ("2026-03-02T11:00:00.123456Z", "2026-03-02T11:00:00.123Z"),
            ("2026-03-02T11:00:00.120Z", "2026-03-02T11:00:00.120Z"),
            ("2026-03-02T11:00:00.000999Z", "2026-03-02T11:00:00Z"),
            ("2026-03-02T11:00:00Z", "2026-03-02T11:00:00Z"),
        ] {
            let at: chrono::DateTime<Utc> = at.parse().unwrap();
            assert_eq!(DateTime(at).to_value(), Value::String(written.to_owned()));
        }
    }
}
