//! Firings of rules on their way into the queue.

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;
use serde::Serialize;
use serde_json::Value;

use super::dialect::{self, hex, time};
use crate::domain::id::{
    ApplicationId, AudienceId, CycleId, EventId, ScheduledActionId, TriggerRuleId,
};
use crate::error::Result;

/// A firing of a rule, to be queued.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFiring<'a> {
    /// Of the work.
    pub id: ScheduledActionId,
    /// The rule, which the transaction holds: what is not said here is the rule's.
    pub trigger_rule_id: TriggerRuleId,
    /// For this user.
    pub user_id: Option<&'a str>,
    /// The action's configuration, rendered.
    pub action_config: &'a Value,
    /// When it is due.
    pub execute_at: DateTime<Utc>,
    /// After this time no attempt starts.
    pub expires_at: DateTime<Utc>,
    /// For this application's backends; otherwise for the rule's LINE OA.
    pub application_id: Option<ApplicationId>,
    /// The event that it answers.
    pub event_id: Option<EventId>,
    /// What the event is about.
    pub subject: Option<&'a str>,
}

/// Queues firings of rules as pending, and writes so into the trigger log. They answer events, or
/// the cycle of `walk`, which walks its audience.
pub async fn queue(
    db: &impl ConnectionTrait,
    firings: &[NewFiring<'_>],
    walk: Option<(CycleId, AudienceId)>,
    now: DateTime<Utc>,
) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        trigger_rule_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<&'a str>,
        action_config: &'a Value,
        execute_at: String,
        expires_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        application_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        event_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<&'a str>,
    }
    if firings.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = firings
        .iter()
        .map(|new| Row {
            id: hex(new.id.0),
            trigger_rule_id: hex(new.trigger_rule_id.0),
            user_id: new.user_id,
            action_config: new.action_config,
            execute_at: time(new.execute_at),
            expires_at: time(new.expires_at),
            application_id: new.application_id.map(|id| hex(id.0)),
            event_id: new.event_id.map(|id| hex(id.0)),
            subject: new.subject,
        })
        .collect();
    dialect::QUEUE_FIRINGS.run(db, vec![dialect::rows(&rows)?, now.into()]).await?;
    let ids = dialect::ids(firings.iter().map(|new| new.id));
    let (cycle, audience) = walk.map(|(cycle, audience)| (cycle.0, audience.0)).unzip();
    dialect::LOG_QUEUED.run(db, vec![ids, audience.into(), cycle.into(), now.into()]).await?;
    Ok(())
}
