//! `booking_event`: a booking was made, changed or cancelled.

use chrono::{DateTime, Datelike, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Source;
use crate::domain::rule::duration::Offset;
use crate::domain::rule::label::{LABEL_MAX, Label};
use crate::domain::rule::misfit::{Misfit, cut, text};

/// Waits for a booking, and acts then or around the time at which it starts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BookingEvent {
    /// The booking's state, as the sender names it; any if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Label>,
    /// When to act, counted from the start of the booking: `-1d` is a day before. Without it: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Offset>,
}

/// A booking in a new state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Booking {
    /// The booking: what is queued for it is replaced by its next state.
    booking_id: Label,
    /// Its state.
    status: Label,
    /// When it starts; in the years 1970 to 8999.
    #[serde(default, deserialize_with = "within_reach")]
    starts_at: Option<DateTime<Utc>>,
}

/// An instant that both databases can hold and order, also with an offset and a delay added.
fn within_reach<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
    // To the microsecond, as both databases keep it.
    let at = DateTime::parse_from_rfc3339(&text).ok();
    let at = at.and_then(|at| DateTime::from_timestamp_micros(at.timestamp_micros()));
    at.filter(|at| (1970..9000).contains(&at.year())).map(Some).ok_or_else(|| {
        serde::de::Error::custom(
            "must be an RFC 3339 instant in the years 1970 to 8999, such as 2026-01-31T09:00:00Z",
        )
    })
}

impl Source for BookingEvent {
    const TYPE: &'static str = "booking_event";
    const DESCRIPTION: &'static str =
        "A booking was made, changed or cancelled; acts then, or before or after it starts.";
    type Payload = Booking;

    fn check(&self) -> Result<(), Misfit> {
        self.status.as_ref().map_or(Ok(()), |status| text("status", &status.0, LABEL_MAX))
    }

    fn key(&self) -> String {
        self.status.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn keys(booking: &Booking) -> Vec<String> {
        vec![String::new(), booking.status.0.clone()]
    }

    fn matches(&self, booking: &Booking) -> Result<(), String> {
        match &self.status {
            Some(status) if *status != booking.status => {
                Err(format!("the status is {}, not {status}", cut(&booking.status.0, 50)))
            }
            _ if self.offset.is_some() && booking.starts_at.is_none() => {
                Err("the event has no startsAt, from which the rule's offset counts".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn due_at(&self, booking: &Booking) -> Option<DateTime<Utc>> {
        booking.starts_at?.checked_add_signed(self.offset?.duration())
    }

    fn subject(booking: &Booking) -> Option<String> {
        Some(booking.booking_id.0.clone())
    }
}
