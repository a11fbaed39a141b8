//! Turns raw values into typed ones, and says in a sentence what would be right.
//!
//! A value that does not fit is noted and the default is read instead, so that
//! one start shows every problem.

use std::{collections::BTreeSet, fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use secrecy::SecretString;

use super::{
    error::{ConfigError, Problem},
    layers::{Layers, Origin, Raw},
};

/// What a parser says about a value: the value, or why it does not fit.
pub(super) type Parsed<T> = Result<T, String>;

/// Reads keys from the joined layers.
pub(super) struct Reader {
    layers: Layers,
    read: BTreeSet<String>,
}

impl Reader {
    pub fn new(layers: Layers) -> Self {
        Self { layers, read: BTreeSet::new() }
    }

    /// Reads a key. An error is a defect of the program: the key has no default that fits.
    pub fn get<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&Raw) -> Parsed<T>,
    ) -> Result<T, ConfigError> {
        self.read.insert(key.to_owned());
        let no_default = || ConfigError::one(key, &Origin::Default, "has no default");
        let setting = self.layers.settings.get(key).ok_or_else(no_default)?;
        match parse(&setting.raw) {
            Ok(value) => Ok(value),
            Err(reason) => {
                self.layers.problems.push(Problem::new(key, &setting.origin, reason));
                let default = self.layers.defaults.get(key).ok_or_else(no_default)?;
                parse(default).map_err(|reason| ConfigError::one(key, &Origin::Default, reason))
            }
        }
    }

    /// Notes that a key's value does not fit together with another's. A key that has a problem
    /// of its own is left alone: its default, which was read instead, is not what was meant.
    pub fn refuse(&mut self, key: &str, reason: impl Into<String>) {
        if self.layers.problems.iter().any(|problem| problem.key == key) {
            return;
        }
        let origin = self.layers.settings.get(key).map_or(&Origin::Default, |set| &set.origin);
        let problem = Problem::new(key, origin, reason);
        self.layers.problems.push(problem);
    }

    /// Fails with all problems, if there are any.
    pub fn finish(self) -> Result<(), ConfigError> {
        let unread = self.layers.defaults.keys().filter(|key| !self.read.contains(*key));
        let unread = unread.map(|key| Problem::new(key, &Origin::Default, "is never read"));
        let problems: Vec<_> = self.layers.problems.iter().cloned().chain(unread).collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::many(problems)) }
    }

    pub fn duration(
        &mut self,
        key: &str,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, ConfigError> {
        self.get(key, |raw| {
            let (low, high) = (range.start(), range.end());
            let right = format!(
                "write a duration with its unit, such as 30s, 1m30s or 500ms, from {} to {}",
                humantime::format_duration(*low),
                humantime::format_duration(*high)
            );
            let text = scalar(raw).map_err(|what| format!("{what}; {right}"))?;
            let value = humantime::parse_duration(&text)
                .map_err(|_| format!("\"{text}\" is not a duration; {right}"))?;
            if range.contains(&value) {
                Ok(value)
            } else {
                Err(format!("\"{text}\" is out of range; {right}"))
            }
        })
    }

    pub fn number<T>(&mut self, key: &str, range: RangeInclusive<T>) -> Result<T, ConfigError>
    where
        T: FromStr + PartialOrd + Display,
    {
        self.get(key, |raw| {
            let right = format!("write a number from {} to {}", range.start(), range.end());
            let text = scalar(raw).map_err(|what| format!("{what}; {right}"))?;
            match text.parse() {
                Ok(value) if range.contains(&value) => Ok(value),
                Ok(_) => Err(format!("{text} is out of range; {right}")),
                Err(_) => Err(format!("\"{text}\" does not fit; {right}")),
            }
        })
    }

    pub fn flag(&mut self, key: &str) -> Result<bool, ConfigError> {
        self.get(key, |raw| match scalar(raw).as_deref() {
            Ok("true") => Ok(true),
            Ok("false") => Ok(false),
            Ok(text) => Err(format!("\"{text}\" is neither; write true or false")),
            Err(what) => Err(format!("{what}; write true or false")),
        })
    }

    /// Text that may be empty, which reads as `None`.
    pub fn optional<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.get(key, |raw| match raw {
            Raw::Empty => Ok(None),
            Raw::Text(text) if text.is_empty() => Ok(None),
            raw => parse(&scalar(raw)?).map(Some),
        })
    }

    /// Text that must be there.
    pub fn text<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Result<T, ConfigError> {
        self.get(key, |raw| match raw {
            Raw::List(_) => Err("is a list; write one value".to_owned()),
            raw => parse(&scalar(raw).unwrap_or_default()),
        })
    }

    /// A secret that may be empty. Its value never stands in an error.
    pub fn secret(
        &mut self,
        key: &str,
        check: impl Fn(&str) -> Parsed<()>,
    ) -> Result<Option<SecretString>, ConfigError> {
        self.get(key, |raw| match raw {
            Raw::Empty => Ok(None),
            Raw::Text(text) if text.is_empty() => Ok(None),
            Raw::Text(text) => check(text).map(|()| Some(SecretString::from(text.as_str()))),
            // A bare number would lose leading zeros on its way.
            _ => Err("is not text; put it in quotes".to_owned()),
        })
    }

    /// A list of the file, or comma-separated text, which may be empty.
    pub fn list<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Result<Vec<T>, ConfigError> {
        self.get(key, |raw| match raw {
            Raw::Empty => Ok(Vec::new()),
            Raw::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
            Raw::List(items) => items.iter().map(|item| parse(&scalar(item)?)).collect(),
            raw => {
                let text = scalar(raw)?;
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(&parse).collect()
            }
        })
    }
}

fn scalar(raw: &Raw) -> Parsed<String> {
    match raw {
        Raw::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Raw::Number(number) => Ok(number.clone()),
        Raw::Flag(flag) => Ok(flag.to_string()),
        Raw::Text(_) | Raw::Empty => Err("is empty".to_owned()),
        Raw::List(_) => Err("is a list where one value belongs".to_owned()),
    }
}
