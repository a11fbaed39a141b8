//! What conditions and templates may speak of: `event`, `user` and `now`.
//!
//! `event` has `id` (the sender's), `type`, `userId`, `occurredAt` and `payload`; `user` has `id`,
//! `following` (true, false, or null while the platform said nothing) and `attributes`. An event
//! without a user, or of a user who is not known yet, has a `user` without attributes. Conditions
//! see instants as timestamps, templates see them as RFC 3339 texts. To a template null is as if it
//! were not set.

use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use super::template_values::{fields, list};
use crate::domain::event::Event;
use crate::domain::line::{FollowState, LineUser};

/// The longest text that a template is given, in characters; longer ones are cut to one more, so
/// that printing them whole fails as too long.
pub(super) const TEXT_MAX: usize = 5_000;

/// How much there is, for what a loop may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Values, and bytes in texts.
    pub(super) weight: usize,
    /// The most elements of one list or object.
    pub(super) longest: usize,
}

/// The facts of one event. Built once an event; what needs them makes its own form of them at the
/// first use.
pub struct Facts<'a> {
    event: &'a Event,
    payload: &'a Value,
    user: Option<&'a LineUser>,
    now: DateTime<Utc>,
    size: OnceCell<Size>,
    cel: OnceCell<cel::Context<'static, 'static>>,
    template: OnceCell<minijinja::Value>,
}

/// What there is, and what it has; below payload and attributes there may be anything.
const NAMES: [(&str, &[&str]); 3] = [
    ("event", &["id", "type", "userId", "occurredAt", "payload"]),
    ("user", &["id", "following", "attributes"]),
    ("now", &[]),
];

/// Whether there is something of that name.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// What a known name has, if it has no such part.
pub(super) fn lacks(name: &str, part: &str) -> Option<String> {
    let (_, known) = NAMES.iter().find(|(known, _)| *known == name)?;
    match known {
        [] => Some(format!("{name} has no parts")),
        known if known.contains(&part) => None,
        known => Some(format!("{name} has {}", known.join(", "))),
    }
}

static ENV: LazyLock<Arc<cel::Env>> = LazyLock::new(|| Arc::new(cel::Env::stdlib()));

impl<'a> Facts<'a> {
    /// The facts of an event. `payload` is the event's payload with its keys in camelCase.
    pub fn new(
        event: &'a Event,
        payload: &'a Value,
        user: Option<&'a LineUser>,
        now: DateTime<Utc>,
    ) -> Self {
        let (size, cel, template) = Default::default();
        Self { event, payload, user, now, size, cel, template }
    }

    /// When they were gathered.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// The event.
    pub fn event(&self) -> &'a Event {
        self.event
    }

    /// The event's payload, its keys in camelCase.
    pub fn payload(&self) -> &'a Value {
        self.payload
    }

    fn following(&self) -> Option<bool> {
        match self.user.map(|user| user.follow_state) {
            Some(FollowState::Following) => Some(true),
            Some(FollowState::Blocked) => Some(false),
            Some(FollowState::Unknown) | None => None,
        }
    }

    fn attributes(&self) -> Option<&'a Map<String, Value>> {
        self.user.map(|user| &user.attributes)
    }

    pub(super) fn size(&self) -> Size {
        *self.size.get_or_init(|| {
            let mut size = Size::default();
            measure(self.payload, &mut size);
            for value in self.attributes().into_iter().flat_map(Map::values) {
                measure(value, &mut size);
            }
            size.longest = size.longest.max(self.attributes().map_or(0, Map::len));
            size
        })
    }

    pub(super) fn cel(&self) -> &cel::Context<'static, 'static> {
        self.cel.get_or_init(|| {
            let text = |text: &str| cel::Value::String(Arc::new(text.to_owned()));
            let user_id = self.event.user_id.as_deref().map_or(cel::Value::Null, text);
            let instant = |at: DateTime<Utc>| cel::Value::Timestamp(at.fixed_offset());
            let attributes = self.attributes().into_iter().flatten();
            let event = cel_map([
                ("id", text(&self.event.event_id)),
                ("type", text(&self.event.event_type)),
                ("userId", user_id.clone()),
                ("occurredAt", instant(self.event.occurred_at)),
                ("payload", to_cel(self.payload)),
            ]);
            let user = cel_map([
                ("id", user_id),
                ("following", self.following().map_or(cel::Value::Null, cel::Value::Bool)),
                (
                    "attributes",
                    cel_map(attributes.map(|(key, value)| (key.as_str(), to_cel(value)))),
                ),
            ]);
            let mut context = cel::Context::with_env(ENV.clone());
            context.add_variable_from_value("event", event);
            context.add_variable_from_value("user", user);
            context.add_variable_from_value("now", instant(self.now));
            context
        })
    }

    pub(super) fn template(&self) -> minijinja::Value {
        let build = || {
            use minijinja::Value as Jinja;
            let text = |text: &str| Jinja::from(text);
            let user_id = self.event.user_id.as_deref().map_or(Jinja::UNDEFINED, text);
            let attributes = self.attributes().into_iter().flatten();
            let event = fields([
                ("id", text(&self.event.event_id)),
                ("type", text(&self.event.event_type)),
                ("userId", user_id.clone()),
                ("occurredAt", Jinja::from(instant(self.event.occurred_at))),
                ("payload", to_jinja(self.payload)),
            ]);
            let user = fields([
                ("id", user_id),
                ("following", self.following().map_or(Jinja::UNDEFINED, Jinja::from)),
                (
                    "attributes",
                    fields(attributes.map(|(key, value)| (key.as_str(), to_jinja(value)))),
                ),
            ]);
            fields([("event", event), ("user", user), ("now", Jinja::from(instant(self.now)))])
        };
        self.template.get_or_init(build).clone()
    }
}

/// An instant as bodies and templates show it: RFC 3339 in UTC, with as much of a second as it has.
pub fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn measure(value: &Value, size: &mut Size) {
    size.weight += 1;
    match value {
        Value::String(text) => size.weight += text.len(),
        Value::Array(list) => {
            size.longest = size.longest.max(list.len());
            list.iter().for_each(|value| measure(value, size));
        }
        Value::Object(map) => {
            size.longest = size.longest.max(map.len());
            for (key, value) in map {
                size.weight += key.len();
                measure(value, size);
            }
        }
        _ => {}
    }
}

fn cel_map<'k>(entries: impl IntoIterator<Item = (&'k str, cel::Value)>) -> cel::Value {
    let map = entries.into_iter().map(|(key, value)| (cel::objects::Key::from(key), value));
    cel::Value::Map(cel::objects::Map { map: Arc::new(map.collect()) })
}

/// Whole numbers are `int` where they fit, as literals of a condition are.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(bool) => cel::Value::Bool(*bool),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => cel::Value::Int(int),
            (_, Some(uint)) => cel::Value::UInt(uint),
            _ => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(list) => cel::Value::List(Arc::new(list.iter().map(to_cel).collect())),
        Value::Object(map) => cel_map(map.iter().map(|(key, value)| (key.as_str(), to_cel(value)))),
    }
}

fn to_jinja(value: &Value) -> minijinja::Value {
    use minijinja::Value as Jinja;
    match value {
        Value::Null => Jinja::UNDEFINED,
        Value::Bool(bool) => Jinja::from(*bool),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Jinja::from(int),
            (_, Some(uint)) => Jinja::from(uint),
            _ => Jinja::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => match text.char_indices().nth(TEXT_MAX + 1) {
            Some((end, _)) => Jinja::from(&text[..end]),
            None => Jinja::from(text.as_str()),
        },
        Value::Array(elements) => list(elements.iter().map(to_jinja)),
        Value::Object(map) => {
            fields(map.iter().map(|(key, value)| (key.as_str(), to_jinja(value))))
        }
    }
}
