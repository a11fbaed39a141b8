//! When an action is due, and until when it may be late.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::cron::Zone;
use crate::domain::rule::duration::Span;
use crate::domain::rule::misfit::Misfit;
use crate::domain::rule::time_of_day::TimeOfDay;

/// What every action may have beside its own configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timing {
    /// How long it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// After the delay, the next time of day at which it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<TimeOfDay>,
    /// The IANA time zone of `at`, such as `Asia/Bangkok`; the server's if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How long after its due time it is not done any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

impl Timing {
    /// Checks what the types do not say. Paths begin below the configuration.
    ///
    /// # Errors
    /// A zone that is not known or has no `at`; an expiry of nothing.
    pub fn check(&self) -> Result<(), Misfit> {
        if let Some(name) = &self.time_zone {
            Zone::parse(name)
                .map_err(|error| Misfit::new("timeZone", error.message).with_code(error.code))?;
            if self.at.is_none() {
                return Err(Misfit::new("timeZone", "must be left out where there is no at"));
            }
        }
        match self.expires_after {
            Some(after) if after.seconds() == 0 => {
                Err(Misfit::new("expiresAfter", "must be at least 1s"))
            }
            _ => Ok(()),
        }
    }

    /// When it is due, counted from `from`: after the delay, then at the next time of day, in the
    /// zone of its own or in `zone`.
    pub fn due(&self, from: DateTime<Utc>, zone: &Zone) -> DateTime<Utc> {
        let delay = self.delay.and_then(|delay| from.checked_add_signed(delay.duration()));
        let from = delay.unwrap_or(from);
        let own = self.time_zone.as_deref().and_then(|name| Zone::parse(name).ok());
        self.at.map_or(from, |at| at.at_or_after(own.as_ref().unwrap_or(zone), from))
    }

    /// From when it is not done any more, if it is due at `execute_at`.
    pub fn expires_at(&self, execute_at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        execute_at.checked_add_signed(self.expires_after?.duration())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn timing(value: serde_json::Value) -> Timing {
        let timing: Timing = from_value(value).unwrap();
        timing.check().unwrap();
        timing
    }

    fn instant(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn without_timing_it_is_due_at_once_and_never_expires() {
        let from = instant("2026-05-01T02:00:00Z");
        assert_eq!(timing(json!({})).due(from, &Zone::utc()), from);
        assert_eq!(timing(json!({})).expires_at(from), None);
    }

    #[test]
    fn the_delay_comes_first_and_then_the_time_of_day() {
        let bangkok =
            json!({"delay": "1d", "at": "09:00", "timeZone": "Asia/Bangkok", "expiresAfter": "2h"});
        let due = timing(bangkok).due(instant("2026-05-01T02:00:01Z"), &Zone::utc());
        assert_eq!(due, instant("2026-05-03T02:00:00Z"));
        let server = timing(json!({"at": "09:00", "expiresAfter": "2h"}));
        let due = server.due(instant("2026-05-01T02:00:01Z"), &Zone::utc());
        assert_eq!(due, instant("2026-05-01T09:00:00Z"));
        assert_eq!(server.expires_at(due), Some(instant("2026-05-01T11:00:00Z")));
    }
}
