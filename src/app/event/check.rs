//! What an event must look like, whoever tells of it: the one way from words to an [`Event`].

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};

use crate::domain::event::{
    EVENT_ID_MAX, Event, EventOrigin, EventStatus, PAYLOAD_DEPTH_MAX, PAYLOAD_MAX,
};
use crate::domain::id::EventId;
use crate::domain::line::{LineOa, user_id};
use crate::domain::rule::misfit::{Misfit, cut, join, text};
use crate::error::{Error, Result};
use crate::sources::{self, SourceType};

/// How far in the future an event may have happened: clocks differ.
const AHEAD_MAX: Duration = Duration::hours(24);

/// An event as its sender tells of it. Nothing is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewEvent {
    /// Required: 1 to [`EVENT_ID_MAX`] characters, unique in the LINE OA.
    pub event_id: Option<String>,
    /// Required: a source type that takes events.
    pub event_type: Option<String>,
    /// Required: the LINE OA's id.
    pub line_oa_id: Option<String>,
    /// LINE's id of the user.
    pub user_id: Option<String>,
    /// RFC 3339, from 1970 to 24 hours from now; now if it is left out.
    pub occurred_at: Option<String>,
    /// An object as the type asks for; empty if it is left out.
    pub payload: Option<Value>,
}

/// What a sender calls the parts of an event: errors use its words.
#[derive(Debug, PartialEq, Eq)]
pub struct EventWords {
    /// Of [`NewEvent::event_id`].
    pub event_id: &'static str,
    /// Of [`NewEvent::event_type`].
    pub event_type: &'static str,
    /// Of [`NewEvent::line_oa_id`].
    pub line_oa_id: &'static str,
    /// Of [`NewEvent::user_id`].
    pub user_id: &'static str,
    /// Of [`NewEvent::occurred_at`].
    pub occurred_at: &'static str,
    /// Of [`NewEvent::payload`].
    pub payload: &'static str,
}

impl EventWords {
    /// Of our own API.
    pub const OURS: Self = Self {
        event_id: "eventId",
        event_type: "type",
        line_oa_id: "lineOaId",
        user_id: "userId",
        occurred_at: "occurredAt",
        payload: "payload",
    };
    /// Of CloudEvents 1.0.
    pub const CLOUD_EVENTS: Self = Self {
        event_id: "id",
        event_type: "type",
        line_oa_id: "lineoaid",
        user_id: "subject",
        occurred_at: "time",
        payload: "data",
    };
    /// Of the outbox.
    pub const OUTBOX: Self = Self {
        event_id: "event_id",
        event_type: "type",
        line_oa_id: "line_oa_id",
        user_id: "user_id",
        occurred_at: "occurred_at",
        payload: "payload",
    };
}

/// Who tells of events, and when.
pub(in crate::app) struct Sender {
    pub words: &'static EventWords,
    pub origin: EventOrigin,
    pub now: DateTime<Utc>,
}

/// The event, ready to be stored. `line_oa` is the one that it names.
///
/// # Errors
/// `UNKNOWN_EVENT_TYPE`, or `INVALID` with the path in the sender's words.
pub(in crate::app) fn event(new: NewEvent, line_oa: &LineOa, sender: &Sender) -> Result<Event> {
    let words = sender.words;
    let event_id = given(words.event_id, new.event_id)?;
    text(words.event_id, &event_id, EVENT_ID_MAX)?;
    let kind = event_type(words.event_type, &given(words.event_type, new.event_type)?)?;
    let user = new.user_id.map(|id| user_id(words.user_id, &id)).transpose()?;
    let occurred_at = match new.occurred_at {
        Some(text) => happened(words.occurred_at, &text, sender.now)?,
        None => sender.now,
    };
    let payload = payload(words.payload, new.payload)?;
    let parsed = kind.parse_payload(&payload).map_err(|misfit| {
        let below = misfit.path.strip_prefix("payload").unwrap_or(&misfit.path);
        let path = join(words.payload, below.trim_start_matches('.'));
        Error::from(Misfit { path, ..misfit })
    })?;
    Ok(Event {
        id: EventId::new(),
        event_id,
        event_type: kind.name.to_owned(),
        line_oa_id: line_oa.id,
        organization_id: line_oa.organization_id,
        user_id: user,
        occurred_at,
        payload: parsed.normal(&payload).clone(),
        subject: parsed.subject,
        origin: sender.origin,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: sender.now,
        processed_at: None,
    })
}

/// A text that must be there.
pub(super) fn given(field: &'static str, text: Option<String>) -> Result<String> {
    text.ok_or_else(|| Error::invalid(field, format!("{field} is required")))
}

/// The source type of that name, if events of it come in.
///
/// # Errors
/// `UNKNOWN_EVENT_TYPE` on `field`, with those that there are.
pub(in crate::app) fn event_type(field: &'static str, name: &str) -> Result<&'static SourceType> {
    let known = || sources::ALL.iter().filter(|kind| kind.accepts_events);
    known().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<_> = known().map(|kind| kind.name).collect();
        let reason =
            format!("{field} must be one of {}; `{}` is not", names.join(", "), cut(name, 50));
        Error::invalid_code("UNKNOWN_EVENT_TYPE", field, reason)
    })
}

/// When it happened, to the microsecond, which is what both databases keep.
fn happened(field: &'static str, text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>> {
    within_range(field, instant(field, text)?, now)
}

/// When an event happened, if it may have been then.
pub(in crate::app) fn within_range(
    field: &'static str,
    at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>> {
    if at > now + AHEAD_MAX {
        let reason = format!("{field} must not lie more than 24 hours in the future");
        return Err(Error::invalid(field, reason));
    }
    if at < DateTime::UNIX_EPOCH {
        return Err(Error::invalid(field, format!("{field} must not lie before 1970")));
    }
    Ok(at)
}

/// A time as it is written in RFC 3339, cut to microseconds. A leap second is the next one.
pub(in crate::app) fn instant(field: &'static str, text: &str) -> Result<DateTime<Utc>> {
    let read = DateTime::parse_from_rfc3339(text).ok();
    read.and_then(|at| DateTime::from_timestamp_micros(at.timestamp_micros())).ok_or_else(|| {
        let reason = format!(
            "{field} must be a time as in RFC 3339, with an offset, such as 2026-01-31T12:00:00Z"
        );
        Error::invalid(field, reason)
    })
}

/// A payload that can be stored: at most [`PAYLOAD_MAX`] bytes and [`PAYLOAD_DEPTH_MAX`] levels,
/// without U+0000, which PostgreSQL has no place for. None, and `null`, is an empty object.
pub(in crate::app) fn payload(field: &'static str, given: Option<Value>) -> Result<Value> {
    let payload = given.filter(|value| !value.is_null()).unwrap_or_else(|| json!({}));
    if payload.to_string().len() > PAYLOAD_MAX {
        let reason = format!("{field} must have at most {} KiB of JSON", PAYLOAD_MAX / 1024);
        return Err(Error::invalid(field, reason));
    }
    storable(&payload, 1).map_err(|misfit| misfit.below(field))?;
    Ok(payload)
}

fn storable(value: &Value, level: usize) -> Result<(), Misfit> {
    if level > PAYLOAD_DEPTH_MAX {
        let reason = format!("must be nested at most {PAYLOAD_DEPTH_MAX} levels deep");
        return Err(Misfit::new("", reason));
    }
    let clean = |text: &str| match text.contains('\0') {
        true => Err(Misfit::new("", "must not contain the character U+0000")),
        false => Ok(()),
    };
    match value {
        Value::String(text) => clean(text),
        Value::Array(all) => all.iter().enumerate().try_for_each(|(at, value)| {
            storable(value, level + 1).map_err(|misfit| shown(misfit, &format!("[{at}]"), level))
        }),
        Value::Object(all) => all.iter().try_for_each(|(key, value)| {
            clean(key)?;
            storable(value, level + 1).map_err(|misfit| shown(misfit, key, level))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The misfit with its place, as far as a person can follow it.
fn shown(misfit: Misfit, part: &str, level: usize) -> Misfit {
    if level > 5 { misfit } else { misfit.below(&cut(part, 50)) }
}
