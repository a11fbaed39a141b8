//! Source types as whoever looks them up by name sees them: without their Rust types.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Source, Timetable};
use crate::domain::keys;
use crate::domain::rule::condition::Condition;
use crate::domain::rule::config;
use crate::domain::rule::misfit::Misfit;

const CONFIG: &str = "sourceConfig";
const PAYLOAD: &str = "payload";

/// What every source may have beside its own configuration.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Common {
    /// A CEL expression over event, user and now that must be true for the rule to fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    condition: Option<String>,
}

/// A source type.
pub struct SourceType {
    /// The name, which is also the type of its events.
    pub name: &'static str,
    /// What it waits for, in a sentence.
    pub description: &'static str,
    /// Whether events of this type come in; if not, posting one is to be refused.
    pub accepts_events: bool,
    config_schema: fn() -> Value,
    payload_schema: fn() -> Value,
    parse_config: fn(&Value) -> Result<ParsedSource, Misfit>,
    parse_payload: fn(&Value) -> Result<ParsedPayload, Misfit>,
}

impl SourceType {
    pub(super) const fn of<S: Source>() -> Self {
        Self {
            name: S::TYPE,
            description: S::DESCRIPTION,
            accepts_events: S::EVENTS,
            config_schema: config::schema::<S, Common>,
            payload_schema: config::schema_of::<S::Payload>,
            parse_config: parse::<S>,
            parse_payload: payload::<S>,
        }
    }

    /// The JSON Schema of a rule's `sourceConfig`.
    pub fn config_schema(&self) -> Value {
        (self.config_schema)()
    }

    /// The JSON Schema of an event's payload.
    pub fn payload_schema(&self) -> Value {
        (self.payload_schema)()
    }

    /// Reads a rule's configuration.
    ///
    /// # Errors
    /// The path, such as `sourceConfig.operator`, of what does not fit, and what would.
    pub fn parse_config(&self, config: &Value) -> Result<ParsedSource, Misfit> {
        (self.parse_config)(config)
    }

    /// Reads an event's payload. Keys that are not known stay in it for conditions and templates.
    ///
    /// # Errors
    /// The path, such as `payload.formId`, of what does not fit.
    pub fn parse_payload(&self, payload: &Value) -> Result<ParsedPayload, Misfit> {
        (self.parse_payload)(payload)
    }
}

impl fmt::Debug for SourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceType").field(&self.name).finish()
    }
}

fn parse<S: Source>(value: &Value) -> Result<ParsedSource, Misfit> {
    let (source, common) = config::read::<S, Common>(CONFIG, value)?;
    source.check().map_err(|misfit| misfit.below(CONFIG))?;
    let condition = common.condition.as_deref().map(Condition::compile).transpose();
    let condition = condition.map_err(|misfit| misfit.below("condition").below(CONFIG))?;
    let config = config::write(&source, &common).map_err(|misfit| misfit.below(CONFIG))?;
    Ok(ParsedSource {
        source_type: S::TYPE,
        key: source.key(),
        config,
        condition,
        timetable: source.timetable(),
        source: Arc::new(source),
    })
}

fn payload<S: Source>(value: &Value) -> Result<ParsedPayload, Misfit> {
    let (typed, normal) = match keys::camel(PAYLOAD, value)? {
        Cow::Borrowed(_) => (config::typed::<S::Payload>(PAYLOAD, value)?, None),
        Cow::Owned(map) => {
            let map = Value::Object(map);
            (config::typed::<S::Payload>(PAYLOAD, &map)?, Some(map))
        }
    };
    Ok(ParsedPayload {
        source_type: S::TYPE,
        keys: S::keys(&typed),
        subject: S::subject(&typed),
        normal,
        typed: Box::new(typed),
    })
}

/// A rule's source configuration, understood.
pub struct ParsedSource {
    /// The source type.
    pub source_type: &'static str,
    /// What of an event must be equal: `trigger_rule.source_key`.
    pub key: String,
    /// The configuration as it is stored: camelCase, complete.
    pub config: Value,
    /// The condition.
    pub condition: Option<Condition>,
    /// Of a time-based rule: when, and for whom.
    pub timetable: Option<Timetable>,
    source: Arc<dyn Match>,
}

impl ParsedSource {
    /// Whether an event is one that the rule waits for.
    ///
    /// # Errors
    /// Why not, in words, with the values that were seen.
    pub fn matches(&self, payload: &ParsedPayload) -> Result<(), String> {
        self.source.matches(payload)
    }

    /// The moment that the event is about, if the action is due at one other than now.
    pub fn due_at(&self, payload: &ParsedPayload) -> Option<DateTime<Utc>> {
        self.source.due_at(payload)
    }
}

impl fmt::Debug for ParsedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (self.source_type, &self.config);
        f.debug_tuple("ParsedSource").field(&shown).finish()
    }
}

/// An event's payload, understood.
pub struct ParsedPayload {
    /// The source type.
    pub source_type: &'static str,
    /// All keys under which a rule could wait for the event; none: no rule can.
    pub keys: Vec<String>,
    /// What the event is about: work that was queued for an earlier state of it is replaced.
    pub subject: Option<String>,
    normal: Option<Value>,
    typed: Box<dyn Any + Send + Sync>,
}

impl ParsedPayload {
    /// The payload with its keys in camelCase: as it is to be stored, and as conditions and
    /// templates see it. `given` is what was parsed.
    pub fn normal<'a>(&'a self, given: &'a Value) -> &'a Value {
        self.normal.as_ref().unwrap_or(given)
    }
}

impl fmt::Debug for ParsedPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (self.source_type, &self.keys, &self.subject);
        f.debug_tuple("ParsedPayload").field(&shown).finish()
    }
}

/// [`Source`] without its type.
trait Match: Send + Sync {
    fn matches(&self, payload: &ParsedPayload) -> Result<(), String>;
    fn due_at(&self, payload: &ParsedPayload) -> Option<DateTime<Utc>>;
}

impl<S: Source> Match for S {
    fn matches(&self, payload: &ParsedPayload) -> Result<(), String> {
        match payload.typed.downcast_ref::<S::Payload>() {
            Some(typed) => Source::matches(self, typed),
            None => Err(format!("the event is a {}, not a {}", payload.source_type, S::TYPE)),
        }
    }

    fn due_at(&self, payload: &ParsedPayload) -> Option<DateTime<Utc>> {
        payload.typed.downcast_ref::<S::Payload>().and_then(|typed| Source::due_at(self, typed))
    }
}
