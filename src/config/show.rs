//! Shows the effective settings without their secrets.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use crate::domain::cron::Zone;
use secrecy::SecretString;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::Config;

/// Every key with its effective value; secrets that are set read `***`.
pub(super) fn flat(config: &Config) -> BTreeMap<String, Value> {
    let mut keys = BTreeMap::new();
    // A structure of text, numbers and lists always serialises.
    flatten("", serde_json::to_value(config).unwrap_or_default(), &mut keys);
    keys
}

fn flatten(prefix: &str, value: Value, into: &mut BTreeMap<String, Value>) {
    let Value::Object(fields) = value else {
        into.insert(prefix.to_owned(), value);
        return;
    };
    for (name, value) in fields {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        flatten(&key, value, into);
    }
}

/// The template with each key's value replaced by the effective one.
pub(super) fn as_yaml(template: &str, values: &BTreeMap<String, Value>) -> String {
    let mut shown = String::new();
    for (line, key) in lines(template) {
        match key.and_then(|key| values.get(&key)) {
            Some(value) => {
                let name = line.split_once(':').map_or(line, |(name, _)| name);
                // Every JSON value is a YAML value.
                shown.push_str(&format!("{name}: {}\n", value_text(value)));
            }
            None => shown.push_str(&format!("{line}\n")),
        }
    }
    shown
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        value => value.to_string(),
    }
}

/// The template's lines, each with the full key it sets or opens. Two blanks a level.
pub(super) fn lines(template: &str) -> impl Iterator<Item = (&str, Option<String>)> {
    let mut path: Vec<&str> = Vec::new();
    template.lines().map(move |line| {
        let name = line.trim_start();
        if name.is_empty() || name.starts_with('#') {
            return (line, None);
        }
        path.truncate((line.len() - name.len()) / 2);
        path.push(name.split_once(':').map_or(name, |(name, _)| name));
        (line, Some(path.join(".")))
    })
}

pub(super) fn text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(super) fn optional<S: Serializer, T: Display>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

pub(super) fn secret<S: Serializer>(
    value: &Option<SecretString>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|_| "***").serialize(to)
}

pub(super) fn duration<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_duration(*value))
}

pub(super) fn forever<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration(&value.unwrap_or_default(), to)
}

pub(super) fn zone<S: Serializer>(value: &Option<Zone>, to: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Zone::name).serialize(to)
}

pub(super) fn list<S: Serializer, T: Display>(value: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(value.iter().map(ToString::to_string))
}
