//! `schedule`: the clock, for each user of an audience.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Source;
use crate::domain::cron::{CronError, Schedule, Zone};
use crate::domain::id::AudienceId;
use crate::domain::rule::facts::instant;
use crate::domain::rule::misfit::Misfit;

/// Fires by the clock, for each user who is in the audience then.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scheduled {
    /// Six fields, seconds first, such as `0 0 9 * * mon-fri`, or a word such as `@daily`.
    #[schemars(length(min = 1, max = 256))]
    cron_expression: String,
    /// An IANA time zone such as `Asia/Bangkok`; the server's if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// The audience.
    #[schemars(with = "uuid::Uuid")]
    audience_id: AudienceId,
}

/// When a time-based rule fires, and for whom.
#[derive(Debug, Clone)]
pub struct Timetable {
    /// When.
    pub schedule: Schedule,
    /// In which zone; none: the server's.
    pub zone: Option<Zone>,
    /// For whom.
    pub audience_id: AudienceId,
}

/// What the events of this type bring that are made for each user of a cycle.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tick {
    /// The due time.
    #[serde(rename = "scheduledAt")]
    _scheduled_at: DateTime<Utc>,
    /// The audience.
    #[serde(rename = "audienceId", default)]
    #[schemars(with = "Option<uuid::Uuid>")]
    _audience_id: Option<AudienceId>,
}

/// What a due time brings to each user of the audience.
pub fn due_payload(at: DateTime<Utc>, audience_id: AudienceId) -> Value {
    json!({ "scheduledAt": instant(at), "audienceId": audience_id })
}

impl Scheduled {
    fn read(&self) -> Result<Timetable, Misfit> {
        let misfit =
            |error: CronError| Misfit::new(error.field, error.message).with_code(error.code);
        Ok(Timetable {
            schedule: Schedule::parse(&self.cron_expression).map_err(misfit)?,
            zone: self.time_zone.as_deref().map(Zone::parse).transpose().map_err(misfit)?,
            audience_id: self.audience_id,
        })
    }
}

impl Source for Scheduled {
    const TYPE: &'static str = "schedule";
    const DESCRIPTION: &'static str = "By the clock, for each user of an audience.";
    const EVENTS: bool = false;
    type Payload = Tick;

    fn check(&self) -> Result<(), Misfit> {
        self.read().map(|_| ())
    }

    fn keys(_: &Tick) -> Vec<String> {
        Vec::new()
    }

    fn timetable(&self) -> Option<Timetable> {
        self.read().ok()
    }
}
