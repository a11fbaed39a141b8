//! What the platform tells by webhook, read into typed events.
//!
//! The platform adds event types and fields without notice, so nothing here insists on more than
//! it needs: an event that can't be read is counted and the others are read all the same. Order is
//! not promised, and an event may come twice: tell them apart by [`WebhookEvent::id`].

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::domain::line::user_id;
use crate::error::{Error, Result};

/// A webhook's body.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// The user id of the account that the events are of.
    pub destination: Option<String>,
    /// The events, in the order given. Empty when the platform's console checks the address.
    pub events: Vec<WebhookEvent>,
    /// How many entries of the list were no events: no object, or without a type.
    pub unreadable: usize,
}

/// Something that happened at the platform.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookEvent {
    /// The platform's id of the event, the same when it is delivered again. Never empty; none if
    /// the platform gave none.
    pub id: Option<String>,
    /// What happened.
    pub kind: EventKind,
    /// Whether it is ours to act on.
    pub mode: Mode,
    /// When it happened, to the millisecond.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The user it is about. Only of an event in a chat with one user: what happens in a group or
    /// a room is not about a friend of the account. Always a LINE user id.
    pub user_id: Option<String>,
    /// Whether the platform says that it delivers it again.
    pub is_redelivery: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The user became a friend.
    Follow {
        /// Whether it is an old friend who had blocked the account.
        is_unblocked: bool,
    },
    /// The user blocked the account.
    Unfollow,
    /// The user wrote.
    Message {
        /// LINE's message object, empty if it was none.
        message: Map<String, Value>,
    },
    /// The user took an action that carries data, such as a button.
    Postback {
        /// The data, empty if there was none.
        data: String,
        /// What a date picker or a rich menu switch adds.
        params: Map<String, Value>,
    },
    /// Anything else.
    Other {
        /// The platform's name of it.
        name: String,
    },
}

/// Whether this server is the one to act on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is; also when the platform does not say.
    Active,
    /// Another one is (`standby`, or a mode that is unknown): nothing is done.
    Standby,
}

/// Reads a webhook's body, which must have been found genuine before.
///
/// # Errors
/// `INVALID` on `body` if it is no JSON object. Everything inside it is taken as far as it goes.
pub fn parse(body: &[u8]) -> Result<Webhook> {
    let refused = |what: String| Error::invalid("body", format!("the body must be {what}"));
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| refused(format!("JSON, as the platform sends it: {error}")))?;
    let Value::Object(mut envelope) = value else {
        return Err(refused("a JSON object with destination and events".to_owned()));
    };
    let entries = match envelope.remove("events") {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let total = entries.len();
    let events: Vec<_> = entries.into_iter().filter_map(event).collect();
    let destination = envelope.get("destination").and_then(Value::as_str).map(str::to_owned);
    Ok(Webhook { destination, unreadable: total - events.len(), events })
}

fn event(entry: Value) -> Option<WebhookEvent> {
    let Value::Object(mut fields) = entry else { return None };
    let name = text(&fields, "type")?.to_owned();
    let mode = match fields.get("mode").map(Value::as_str) {
        None | Some(Some("active")) => Mode::Active,
        _ => Mode::Standby,
    };
    let source = fields.get("source").and_then(Value::as_object);
    let user = source
        .filter(|source| text(source, "type") == Some("user"))
        .and_then(|source| text(source, "userId"))
        .and_then(|id| user_id("userId", id).ok());
    let delivery = fields.get("deliveryContext").and_then(Value::as_object);
    Some(WebhookEvent {
        id: text(&fields, "webhookEventId").map(str::to_owned),
        mode,
        occurred_at: fields
            .get("timestamp")
            .and_then(Value::as_i64)
            .and_then(DateTime::from_timestamp_millis),
        user_id: user,
        is_redelivery: delivery.is_some_and(|context| flag(context, "isRedelivery")),
        kind: kind(name, &mut fields),
    })
}

fn kind(name: String, fields: &mut Map<String, Value>) -> EventKind {
    match name.as_str() {
        "follow" => {
            let is_unblocked = flag(&object(fields, "follow"), "isUnblocked");
            EventKind::Follow { is_unblocked }
        }
        "unfollow" => EventKind::Unfollow,
        "message" => EventKind::Message { message: object(fields, "message") },
        "postback" => {
            let mut postback = object(fields, "postback");
            let data = text(&postback, "data").unwrap_or_default().to_owned();
            EventKind::Postback { data, params: object(&mut postback, "params") }
        }
        _ => EventKind::Other { name },
    }
}

/// A text that is there and not empty.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn flag(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn object(fields: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match fields.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
