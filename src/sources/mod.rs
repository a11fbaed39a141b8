//! Sources: what a rule can wait for.
//!
//! A source type is typed inside and text outside: a file with a configuration, a payload and an
//! `impl Source`, and one line in [`ALL`]. Whoever looks one up by its name gets a [`SourceType`],
//! which knows no types. Nothing here stores, sends or asks for the time.

mod attribute_changed;
mod booking_event;
mod campaign_click;
mod form_submitted;
mod friend_track;
mod kind;
mod schedule;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::attribute_changed::{AttributeChanged, Operator};
pub use self::booking_event::BookingEvent;
pub use self::campaign_click::CampaignClick;
pub use self::form_submitted::FormSubmitted;
pub use self::friend_track::FriendTrack;
pub use self::kind::{ParsedPayload, ParsedSource, SourceType};
pub use self::schedule::{Scheduled, Timetable, due_payload};
use crate::domain::rule::misfit::{Misfit, cut};
use crate::error::{Error, Result as Answer};

/// Each of the source types, in the order in which they are shown.
pub static ALL: &[SourceType] = &[
    SourceType::of::<AttributeChanged>(),
    SourceType::of::<FormSubmitted>(),
    SourceType::of::<CampaignClick>(),
    SourceType::of::<FriendTrack>(),
    SourceType::of::<BookingEvent>(),
    SourceType::of::<Scheduled>(),
];

/// The source type of that name.
///
/// # Errors
/// `UNKNOWN_SOURCE_TYPE` on `sourceType`, with the names that are known.
pub fn find(name: &str) -> Answer<&'static SourceType> {
    ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|kind| kind.name).collect();
        let reason =
            format!("sourceType must be one of {}; `{}` is not", known.join(", "), cut(name, 50));
        Error::invalid_code("UNKNOWN_SOURCE_TYPE", "sourceType", reason)
    })
}

/// A type of source: its value is a rule's configuration. Configuration and payload are written in
/// camelCase; a configuration refuses keys that it does not know, a payload ignores them.
pub trait Source: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The name, which is also the type of its events.
    const TYPE: &'static str;
    /// What it waits for, in a sentence.
    const DESCRIPTION: &'static str;
    /// Whether events of this type come in; the schedule's are made here.
    const EVENTS: bool = true;

    /// What an event brings.
    type Payload: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Checks what the types do not say. Paths begin below the configuration.
    fn check(&self) -> Result<(), Misfit> {
        Ok(())
    }

    /// What of an event must be equal; an empty text: nothing.
    fn key(&self) -> String {
        String::new()
    }

    /// All keys under which a rule could wait for this event; none: no rule can.
    fn keys(_payload: &Self::Payload) -> Vec<String> {
        vec![String::new()]
    }

    /// Whether the event is one that the rule waits for.
    ///
    /// # Errors
    /// Why not, in words, with the values that were seen.
    fn matches(&self, _payload: &Self::Payload) -> Result<(), String> {
        Ok(())
    }

    /// The moment that the event is about, if the action is due at one other than now.
    fn due_at(&self, _payload: &Self::Payload) -> Option<DateTime<Utc>> {
        None
    }

    /// What the event is about: work that was queued for an earlier state of it is replaced.
    fn subject(_payload: &Self::Payload) -> Option<String> {
        None
    }

    /// Of a time-based rule: when, and for whom.
    fn timetable(&self) -> Option<Timetable> {
        None
    }
}

/// Several parts of a key as one: each either given or open. Unambiguous whatever they contain.
fn compose(parts: &[Option<&str>]) -> String {
    if parts.iter().all(Option::is_none) {
        return String::new();
    }
    serde_json::to_string(parts).unwrap_or_default()
}
