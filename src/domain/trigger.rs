//! A trigger: a cron schedule of an application, and the ledger of its due times.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::id::{ApplicationId, OccurrenceId, TriggerId};

/// What happens to occurrences that were missed: no executor ran, or none in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// Each is delivered, within the catch-up window and the cap of a window.
    #[default]
    All,
    /// Only the latest is delivered, the others are recorded as skipped.
    Last,
    /// None is delivered, all are recorded as skipped.
    None,
}

impl CatchUp {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Last => "last",
            Self::None => "none",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::All, Self::Last, Self::None].into_iter().find(|policy| policy.as_str() == name)
    }
}

/// A cron schedule attached to an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// The id.
    pub id: TriggerId,
    /// Its application, whose backends are called.
    pub application_id: ApplicationId,
    /// The name shown.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The stable identifier that backends switch on.
    pub run_key: String,
    /// Six fields, seconds first, or a shorthand.
    pub cron_expression: String,
    /// The IANA zone of the schedule; none: the server's.
    pub time_zone: Option<String>,
    /// Whether it fires.
    pub enabled: bool,
    /// What happens to what was missed.
    pub catch_up: CatchUp,
    /// Up to when its schedule has been evaluated; the next window starts here.
    pub evaluated_at: DateTime<Utc>,
    /// The next due time; none while disabled.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Where an occurrence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The schedule.
    Schedule,
    /// A person who ran the trigger now.
    Manual,
}

impl Origin {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Manual => "manual",
        }
    }

    /// The origin of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Schedule, Self::Manual].into_iter().find(|origin| origin.as_str() == name)
    }
}

/// An occurrence's state. Every occurrence ends in one that [`is_final`](Self::is_final).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OccurrenceStatus {
    /// It waits for a backend, or its deliveries are under way.
    Pending,
    /// Every backend answered 2xx.
    Delivered,
    /// Some backends answered 2xx, for the others the budget ended.
    PartiallyDelivered,
    /// No backend answered 2xx before the budget ended.
    Failed,
    /// It was not to be delivered; the reason says why.
    Skipped,
    /// Its trigger was disabled or deleted first.
    Cancelled,
}

impl OccurrenceStatus {
    const ALL: [Self; 6] = [
        Self::Pending,
        Self::Delivered,
        Self::PartiallyDelivered,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::PartiallyDelivered => "partially_delivered",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether nothing more will happen to it.
    pub fn is_final(self) -> bool {
        self != Self::Pending
    }
}

/// Why occurrences were recorded as skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// More fell into one window than the cap allows.
    WindowCap,
    /// They are older than the catch-up window.
    CatchUpWindow,
    /// The trigger's catch-up policy leaves missed ones out.
    CatchUpPolicy,
}

impl SkipReason {
    /// The name in database and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WindowCap => "window_cap",
            Self::CatchUpWindow => "catch_up_window",
            Self::CatchUpPolicy => "catch_up_policy",
        }
    }
}

/// One due time of a trigger; a skipped one may stand for a run of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Occurrence {
    /// The id.
    pub id: OccurrenceId,
    /// Its trigger, which may have been deleted since.
    pub trigger_id: TriggerId,
    /// The trigger's application.
    pub application_id: ApplicationId,
    /// The due time. Of a run of skipped ones the first.
    pub scheduled_at: DateTime<Utc>,
    /// Of a run of skipped ones the last due time.
    pub until_at: Option<DateTime<Utc>>,
    /// How many due times the row stands for; more than one only when skipped.
    pub occurrences: i32,
    /// Where it comes from.
    pub origin: Origin,
    /// Its state.
    pub status: OccurrenceStatus,
    /// Why it was skipped, failed without a backend, or was cancelled.
    pub reason: Option<String>,
    /// What the backends get, fixed when the occurrence was made.
    pub payload: Payload,
    /// How many deliveries it was fanned out to.
    pub deliveries: i32,
    /// How many of them were answered with 2xx.
    pub delivered: i32,
    /// How many of them ended without.
    pub failed: i32,
    /// How often a fan-out found no active backend.
    pub fan_out_attempts: i32,
    /// When a fan-out is tried again; none when it has happened or the occurrence has ended.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// The body of a callback: these five fields, in this order, on every attempt the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The trigger.
    pub trigger_id: TriggerId,
    /// Its name when the occurrence was made.
    pub trigger_name: String,
    /// Its schedule when the occurrence was made.
    pub cron_expression: String,
    /// What the backend switches on.
    pub run_key: String,
    /// The occurrence's due time, RFC 3339 in UTC, whatever the time of the attempt.
    pub executed_at: String,
}

impl Payload {
    /// The payload of `trigger`'s occurrence at `at`.
    pub fn new(trigger: &Trigger, at: DateTime<Utc>) -> Self {
        Self {
            trigger_id: trigger.id,
            trigger_name: trigger.name.clone(),
            cron_expression: trigger.cron_expression.clone(),
            run_key: trigger.run_key.clone(),
            executed_at: at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
        }
    }
}
