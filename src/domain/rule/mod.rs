//! A trigger rule: when X happens to a user, do Y, never more often than allowed.

pub mod condition;
mod condition_guard;
pub mod config;
pub mod duration;
pub mod facts;
pub mod label;
pub mod misfit;
pub mod rate;
pub mod template;
mod template_guard;
mod template_values;
pub mod time_of_day;

#[cfg(test)]
pub(crate) mod fixture;

use chrono::{DateTime, Duration, Utc};
use serde::Serialize;
use serde_json::Value;

use super::id::{LineOaId, ProjectId, TriggerRuleId, WorkflowId};

/// How often a rule may fire for one user, or at all for events without a user. Windows roll: they
/// begin at the last accepted firing, not at midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequency {
    /// As often as it happens.
    EveryTime,
    /// Never again.
    Once,
    /// Once in 60 minutes.
    #[default]
    OncePerHour,
    /// Once in 24 hours.
    OncePerDay,
    /// Once in 7 days.
    OncePerWeek,
    /// Once in 30 days.
    OncePerMonth,
}

impl Frequency {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::EveryTime,
        Self::Once,
        Self::OncePerHour,
        Self::OncePerDay,
        Self::OncePerWeek,
        Self::OncePerMonth,
    ];

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EveryTime => "every_time",
            Self::Once => "once",
            Self::OncePerHour => "once_per_hour",
            Self::OncePerDay => "once_per_day",
            Self::OncePerWeek => "once_per_week",
            Self::OncePerMonth => "once_per_month",
        }
    }

    /// The frequency of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|frequency| frequency.as_str() == name)
    }

    /// The pause after an accepted firing; none: for ever.
    pub fn window(self) -> Option<Duration> {
        match self {
            Self::EveryTime => Some(Duration::zero()),
            Self::Once => None,
            Self::OncePerHour => Some(Duration::hours(1)),
            Self::OncePerDay => Some(Duration::days(1)),
            Self::OncePerWeek => Some(Duration::days(7)),
            Self::OncePerMonth => Some(Duration::days(30)),
        }
    }
}

/// The longest cooldown, in seconds: 366 days.
pub const COOLDOWN_MAX: i32 = 366 * 24 * 3600;

/// A rule. Its configurations are stored as they were accepted: in camelCase, complete and valid.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerRule {
    /// The id.
    pub id: TriggerRuleId,
    /// The project.
    pub organization_id: ProjectId,
    /// The LINE OA whose events it meets.
    pub line_oa_id: LineOaId,
    /// The name shown.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it waits for.
    pub source_type: String,
    /// The source's parameters.
    pub source_config: Value,
    /// What an event must have to be looked at: part of the index (line_oa, source_type, source_key).
    #[serde(skip)]
    pub source_key: String,
    /// What it does.
    pub action_type: String,
    /// The action's parameters.
    pub action_config: Value,
    /// Whether it fires.
    pub enabled: bool,
    /// How often it may fire.
    pub frequency: Frequency,
    /// The shortest time between two firings, from 0 to [`COOLDOWN_MAX`].
    pub cooldown_seconds: i32,
    /// The workflow that it is part of.
    pub workflow_id: Option<WorkflowId>,
    /// The node of the workflow.
    pub workflow_node_path: Option<String>,
    /// Of a time-based rule: up to when its schedule has been evaluated.
    #[serde(skip)]
    pub evaluated_at: Option<DateTime<Utc>>,
    /// Of a time-based rule: the next due time; none while disabled.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// The LINE OA's count of rule changes when this one was last changed.
    #[serde(skip)]
    pub version: i64,
    /// When it was made.
    pub created_date: DateTime<Utc>,
    /// When it was last changed.
    pub updated_date: DateTime<Utc>,
    /// When it was deleted.
    pub deleted_date: Option<DateTime<Utc>>,
}

impl TriggerRule {
    /// How long after an accepted firing the next one may come: the longer of frequency and
    /// cooldown. None: never.
    pub fn pause(&self) -> Option<Duration> {
        let cooldown = Duration::seconds(i64::from(self.cooldown_seconds));
        self.frequency.window().map(|window| window.max(cooldown))
    }

    /// Whether firings have to be remembered at all.
    pub fn is_limited(&self) -> bool {
        self.pause().is_none_or(|pause| pause > Duration::zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frequency_has_a_name_and_the_default_is_once_per_hour() {
        for frequency in Frequency::ALL {
            assert_eq!(Frequency::from_name(frequency.as_str()), Some(frequency));
        }
        assert_eq!(Frequency::default().as_str(), "once_per_hour");
        assert_eq!(Frequency::from_name("hourly"), None);
    }
}
