//! Windows of triggers, and the occurrences and deliveries that come of them.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;
use serde::Serialize;

use super::Lease;
use crate::domain::delivery::Delivery;
use crate::domain::id::{OccurrenceId, TriggerId};
use crate::domain::trigger::{Occurrence, Trigger};
use crate::error::{Error, Result};
use crate::store::delivery::IdRow;
use crate::store::dialect::{self, hex, time};
use crate::store::entity::{trigger, trigger_occurrence};

/// How far a trigger has been evaluated, and when it is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The trigger.
    pub trigger_id: TriggerId,
    /// The end of what was evaluated.
    pub evaluated_at: DateTime<Utc>,
    /// The next due time.
    pub next_fire_at: Option<DateTime<Utc>>,
}

/// The triggers that are due at `now`, earliest first, locked until the transaction ends.
pub async fn due_triggers(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Trigger>> {
    let values = vec![now.into(), dialect::limit(limit)];
    let rows = dialect::DUE_TRIGGERS.rows::<trigger::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Moves the windows of triggers.
pub async fn move_windows(db: &impl ConnectionTrait, windows: &[Window]) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        evaluated_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_fire_at: Option<String>,
    }
    let rows: Vec<_> = windows
        .iter()
        .map(|window| Row {
            id: hex(window.trigger_id.0),
            evaluated_at: time(window.evaluated_at),
            next_fire_at: window.next_fire_at.map(time),
        })
        .collect();
    dialect::MOVE_WINDOWS.run(db, vec![dialect::rows(&rows)?]).await?;
    Ok(())
}

/// Writes occurrences and answers the ids of those that were not there yet.
pub async fn insert_occurrences(
    db: &impl ConnectionTrait,
    occurrences: &[Occurrence],
) -> Result<HashSet<OccurrenceId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        trigger_id: String,
        application_id: String,
        scheduled_at: String,
        origin: &'static str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        occurrences: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        until_at: Option<String>,
        payload: &'a crate::domain::trigger::Payload,
        deliveries: i32,
        fan_out_attempts: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_attempt_at: Option<String>,
        created_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<String>,
    }
    if occurrences.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<_> = occurrences
        .iter()
        .map(|new| Row {
            id: hex(new.id.0),
            trigger_id: hex(new.trigger_id.0),
            application_id: hex(new.application_id.0),
            scheduled_at: time(new.scheduled_at),
            origin: new.origin.as_str(),
            status: new.status.as_str(),
            reason: new.reason.as_deref(),
            occurrences: new.occurrences,
            until_at: new.until_at.map(time),
            payload: &new.payload,
            deliveries: new.deliveries,
            fan_out_attempts: new.fan_out_attempts,
            next_attempt_at: new.next_attempt_at.map(time),
            created_at: time(new.created_at),
            finished_at: new.finished_at.map(time),
        })
        .collect();
    let values = vec![dialect::rows(&rows)?];
    let written = dialect::INSERT_OCCURRENCES.rows::<IdRow>(db, values).await?;
    Ok(written.into_iter().map(|row| row.id.into()).collect())
}

/// Writes deliveries of occurrences that are there: pending ones, or, with a lease, ones that the
/// caller holds from birth. `INTERNAL` when an occurrence is not there.
pub async fn insert_deliveries(
    db: &impl ConnectionTrait,
    deliveries: &[(Delivery, Option<Lease>)],
) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        trigger_occurrence_id: String,
        backend_id: String,
        status: &'static str,
        execute_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_token: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_until: Option<String>,
        created_at: String,
    }
    if deliveries.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = deliveries
        .iter()
        .map(|(new, lease)| Row {
            id: hex(new.id.0),
            trigger_occurrence_id: hex(new.occurrence_id.0),
            backend_id: hex(new.backend_id.0),
            status: new.status.as_str(),
            execute_at: time(new.execute_at),
            expires_at: new.expires_at.map(time),
            lease_token: lease.map(|lease| hex(lease.token)),
            lease_until: lease.map(|lease| time(lease.until)),
            created_at: time(new.created_at),
        })
        .collect();
    let written = dialect::INSERT_DELIVERIES.run(db, vec![dialect::rows(&rows)?]).await?;
    match written == rows.len() as u64 {
        true => Ok(()),
        false => Err(Error::internal("deliveries of an occurrence that is not there")),
    }
}

/// Occurrences that found no active backend and are to be tried again, locked until the
/// transaction ends.
pub async fn waiting_occurrences(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Occurrence>> {
    let values = vec![now.into(), dialect::limit(limit)];
    let rows = dialect::WAITING_OCCURRENCES.rows::<trigger_occurrence::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Writes what a renewed fan-out came to.
pub async fn update_waiting(db: &impl ConnectionTrait, occurrences: &[Occurrence]) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        deliveries: i32,
        fan_out_attempts: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_attempt_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<String>,
    }
    if occurrences.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = occurrences
        .iter()
        .map(|changed| Row {
            id: hex(changed.id.0),
            status: changed.status.as_str(),
            reason: changed.reason.as_deref(),
            deliveries: changed.deliveries,
            fan_out_attempts: changed.fan_out_attempts,
            next_attempt_at: changed.next_attempt_at.map(time),
            finished_at: changed.finished_at.map(time),
        })
        .collect();
    dialect::UPDATE_WAITING.run(db, vec![dialect::rows(&rows)?]).await?;
    Ok(())
}
