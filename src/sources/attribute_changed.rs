//! `attribute_changed`: an attribute of a user got another value.

use std::cmp::Ordering;
use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::Source;
use crate::domain::rule::config::present;
use crate::domain::rule::label::LABEL_MAX;
use crate::domain::rule::misfit::{Misfit, cut, text};

/// Waits for a change of one attribute.
///
/// Values are compared as JSON: `1` equals `1.0`, and `"1"` equals neither. An attribute that is
/// not set is `null`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttributeChanged {
    /// The attribute's name.
    #[schemars(length(min = 1, max = 200))]
    attribute: String,
    /// How the new value, or the old one, is looked at.
    #[serde(default)]
    operator: Operator,
    /// What it is compared to: required, but not for `changed`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

/// How an attribute is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The value is another one.
    #[default]
    Changed,
    /// The value became this one and was not this one before.
    ChangedTo,
    /// The value was this one and is not any more.
    ChangedFrom,
    /// The new value is this one, whatever the old one was.
    Eq,
    /// The new value is not this one.
    Ne,
    /// The new value is greater. Numbers are compared with numbers, texts with texts: as instants
    /// if both are in RFC 3339, otherwise letter by letter in the order of Unicode.
    Gt,
    /// The new value is greater or equal.
    Gte,
    /// The new value is less.
    Lt,
    /// The new value is less or equal.
    Lte,
    /// The new value is a text with this text in it, or a list with this element.
    Contains,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A change of an attribute.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The attribute's name.
    #[schemars(length(min = 1, max = 200))]
    attribute: String,
    /// The value before; absent or null: there was none.
    #[serde(default)]
    old_value: Value,
    /// The value now; absent or null: there is none.
    #[serde(default)]
    new_value: Value,
}

impl Source for AttributeChanged {
    const TYPE: &'static str = "attribute_changed";
    const DESCRIPTION: &'static str = "An attribute of a user got another value.";
    type Payload = Change;

    fn check(&self) -> Result<(), Misfit> {
        text("attribute", &self.attribute, LABEL_MAX)?;
        let operator = self.operator;
        match (&self.value, operator) {
            (None, Operator::Changed) => Ok(()),
            (Some(_), Operator::Changed) => {
                let reason = "must be left out with the operator changed; changed_to looks at it";
                Err(Misfit::new("value", reason))
            }
            (None, _) => {
                Err(Misfit::new("value", format!("is required with the operator {operator}")))
            }
            (Some(Value::Number(_) | Value::String(_)), _) => Ok(()),
            (Some(_), Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte) => {
                let reason = format!("must be a number or a text with the operator {operator}");
                Err(Misfit::new("value", reason))
            }
            (Some(_), _) => Ok(()),
        }
    }

    fn key(&self) -> String {
        self.attribute.clone()
    }

    fn keys(change: &Change) -> Vec<String> {
        vec![change.attribute.clone()]
    }

    fn matches(&self, change: &Change) -> Result<(), String> {
        if self.attribute != change.attribute {
            return Err(format!("the attribute is {}", cut(&change.attribute, 50)));
        }
        let (old, new) = (&change.old_value, &change.new_value);
        let wanted = self.value.as_ref().unwrap_or(&Value::Null);
        let met = match self.operator {
            Operator::Changed => !same(old, new),
            Operator::ChangedTo => same(new, wanted) && !same(old, wanted),
            Operator::ChangedFrom => same(old, wanted) && !same(new, wanted),
            Operator::Eq => same(new, wanted),
            Operator::Ne => !same(new, wanted),
            Operator::Gt => order(new, wanted).is_some_and(Ordering::is_gt),
            Operator::Gte => order(new, wanted).is_some_and(Ordering::is_ge),
            Operator::Lt => order(new, wanted).is_some_and(Ordering::is_lt),
            Operator::Lte => order(new, wanted).is_some_and(Ordering::is_le),
            Operator::Contains => contains(new, wanted),
        };
        if met {
            return Ok(());
        }
        let show = |value: &Value| cut(&value.to_string(), 60);
        Err(match self.operator {
            Operator::Changed => format!("the value stayed {}", show(new)),
            operator => {
                format!("{} became {}, not {operator} {}", show(old), show(new), show(wanted))
            }
        })
    }
}

/// Whether two values are equal as JSON, with numbers equal by what they count.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(_), Value::Number(_)) => order(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}

fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (integer(one), integer(other)) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
        },
        (Value::String(one), Value::String(other)) => {
            let instant = |text: &str| text.parse::<DateTime<Utc>>().ok();
            match (instant(one), instant(other)) {
                (Some(one), Some(other)) => Some(one.cmp(&other)),
                _ => Some(one.cmp(other)),
            }
        }
        _ => None,
    }
}

/// The number, if it is a whole one as JSON writes it and has at most 64 bits: never rounded, since it
/// may be an id.
fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn contains(new: &Value, wanted: &Value) -> bool {
    match (new, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(list), wanted) => list.iter().any(|element| same(element, wanted)),
        _ => false,
    }
}
