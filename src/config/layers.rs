//! Joins the three layers of settings: compiled-in defaults, a file, the environment.
//!
//! The defaults define which keys exist. Everything else must name one of them.
//! What a value means is not decided here; see `reader`.

use std::{collections::BTreeMap, fmt, path::Path};

use ::config::{File, FileFormat, Map, Source, Value, ValueKind};

use super::error::{ConfigError, Problem};

/// The compiled-in defaults: each key, its value, one comment.
pub(super) const DEFAULTS: &str = include_str!("../../config/default.yml");

const PREFIX: &str = "PFY_";
const CONFIG_VARIABLE: &str = "PFY_CONFIG";
const TEST_PREFIX: &str = "PFY_TEST_";

/// A value before it is understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// `key:` with nothing behind it.
    Empty,
    /// Text; from the environment everything is text.
    Text(String),
    /// A bare number of the file.
    Number(String),
    /// A bare `true` or `false` of the file.
    Flag(bool),
    /// A list of the file.
    List(Vec<Raw>),
}

/// Which layer a value came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    Default,
    File(String),
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => f.write_str(path),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub raw: Raw,
    pub origin: Origin,
}

/// All keys with their effective values, and what did not fit.
pub(super) struct Layers {
    pub settings: BTreeMap<String, Setting>,
    pub defaults: BTreeMap<String, Raw>,
    pub problems: Vec<Problem>,
}

impl Layers {
    /// Only the compiled-in values.
    pub fn defaults() -> Result<Self, ConfigError> {
        let table = parse(DEFAULTS)
            .map_err(|reason| ConfigError::one("config/default.yml", &Origin::Default, reason))?;
        let mut defaults = BTreeMap::new();
        flatten("", table, &mut defaults);
        let settings = defaults
            .iter()
            .map(|(key, raw)| (key.clone(), Setting { raw: raw.clone(), origin: Origin::Default }))
            .collect();
        Ok(Self { settings, defaults, problems: Vec::new() })
    }

    /// Lays a file over what is there. A file that can't be read is an error at once,
    /// unknown keys are collected.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let origin = Origin::File(path.display().to_string());
        let text = std::fs::read_to_string(path).map_err(|error| {
            let reason = format!("can't be read ({error}); name a readable YAML file");
            ConfigError::one("--config or PFY_CONFIG", &origin, reason)
        })?;
        let table = parse(&text).map_err(|error| {
            let reason = format!("is not one YAML document of keys and values: {error}");
            ConfigError::one(path.display().to_string(), &origin, reason)
        })?;
        let mut values = BTreeMap::new();
        flatten("", table, &mut values);
        for (key, raw) in values {
            if self.defaults.contains_key(&key) {
                self.settings.insert(key, Setting { raw, origin: origin.clone() });
            } else if raw != Raw::Empty || !self.is_section(&key) {
                self.problems.push(Problem::new(key.as_str(), &origin, self.unknown(&key)));
            }
        }
        Ok(())
    }

    /// Lays the `PFY_` variables over what is there; other variables are not looked at.
    pub fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let keys: BTreeMap<String, String> =
            self.defaults.keys().map(|key| (variable_of(key), key.clone())).collect();
        for (name, value) in variables.filter(|(name, _)| name.starts_with(PREFIX)) {
            if let Some(key) = keys.get(&name) {
                let setting = Setting { raw: Raw::Text(value), origin: Origin::Variable(name) };
                self.settings.insert(key.clone(), setting);
            } else if name != CONFIG_VARIABLE && !name.starts_with(TEST_PREFIX) {
                let origin = Origin::Variable(name.clone());
                let reason = "is not the variable of any setting; `trigger-manager config` \
                              lists the keys, and a key's variable is PFY_ and the key in upper \
                              case with dots as underscores";
                self.problems.push(Problem::new(name, &origin, reason));
            }
        }
    }

    fn is_section(&self, key: &str) -> bool {
        let start = format!("{key}.");
        self.defaults.keys().any(|known| known.starts_with(&start))
    }

    fn unknown(&self, key: &str) -> String {
        if self.is_section(key) {
            return "is a group of settings and takes no value of its own; indent its keys below it"
                .to_owned();
        }
        let group = key.rsplit_once('.').map_or("", |(group, _)| group);
        let siblings: Vec<&str> = self
            .defaults
            .keys()
            .filter(|known| known.rsplit_once('.').map_or("", |(of, _)| of) == group)
            .map(String::as_str)
            .collect();
        match siblings.is_empty() {
            true => "is no setting; `trigger-manager config` lists them".to_owned(),
            false => format!("is no setting; next to it there are {}", siblings.join(", ")),
        }
    }
}

/// The environment variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    // A file with comments alone is a file without settings, not a broken one.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Map::new());
    }
    File::from_str(text, FileFormat::Yaml).collect().map_err(|error| error.to_string())
}

fn flatten(prefix: &str, table: Map<String, Value>, into: &mut BTreeMap<String, Raw>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value.kind {
            ValueKind::Table(table) if !table.is_empty() => flatten(&key, table, into),
            kind => {
                into.insert(key, raw(kind));
            }
        }
    }
}

fn raw(kind: ValueKind) -> Raw {
    match kind {
        ValueKind::Nil | ValueKind::Table(_) => Raw::Empty,
        ValueKind::Boolean(flag) => Raw::Flag(flag),
        ValueKind::String(text) => Raw::Text(text),
        ValueKind::Array(items) => {
            Raw::List(items.into_iter().map(|item| raw(item.kind)).collect())
        }
        number => Raw::Number(number.to_string()),
    }
}
