//! Names that other systems gave: of a form, a campaign, a booking.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest label, in characters.
pub const LABEL_MAX: usize = 200;

/// Another system's id or word. It may come as a whole number and is a text from then on, so that
/// `42` and `"42"` name the same form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Label(pub String);

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a whole number")]
enum Written {
    /// As a text.
    Text(#[schemars(length(min = 1, max = 200))] String),
    /// As a number.
    Number(i64),
}

impl TryFrom<Written> for Label {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(text) if (1..=LABEL_MAX).contains(&text.chars().count()) => {
                Ok(Self(text))
            }
            Written::Text(_) => Err(format!("must have 1 to {LABEL_MAX} characters")),
            Written::Number(number) => Ok(Self(number.to_string())),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_number_and_its_text_are_the_same_label() {
        let read = |value| from_value::<Label>(value);
        assert_eq!(read(json!(42)).unwrap(), read(json!("42")).unwrap());
        let error = read(json!(1.5)).unwrap_err();
        assert_eq!(error.to_string(), "must be a text or a whole number");
        assert_eq!(read(json!("")).unwrap_err().to_string(), "must have 1 to 200 characters");
    }
}
