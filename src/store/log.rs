//! The trigger log as executors write it, and as a feed: what was recorded since one looked last.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::dialect::{self, storable, time};
use super::entity::trigger_log::{Column, Entity};
use crate::domain::id::{ApplicationId, LineOaId, OccurrenceId, ScheduledActionId};
use crate::error::Result;

/// What a row of the log is about: an occurrence of an application, or something of a LINE OA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The row's number. On PostgreSQL a smaller one may become visible after a greater one.
    pub id: i64,
    /// The application; none where only a LINE OA is concerned.
    pub application_id: Option<ApplicationId>,
    /// The LINE OA; none of a trigger.
    pub line_oa_id: Option<LineOaId>,
    /// The occurrence; none of a rule or a workflow service.
    pub occurrence_id: Option<OccurrenceId>,
    /// The delivery, or the action; none when the row is about the occurrence as a whole, or about
    /// an evaluation that queued nothing.
    pub action_id: Option<ScheduledActionId>,
}

/// The greatest number in the log, 0 when it is empty.
pub async fn last(db: &impl ConnectionTrait) -> Result<i64> {
    let row = Entity::find()
        .select_only()
        .column(Column::Id)
        .order_by_desc(Column::Id)
        .into_tuple::<i64>()
        .one(db)
        .await?;
    Ok(row.unwrap_or_default())
}

/// The rows above `after` that are about an occurrence or a LINE OA, in order, at most `limit`.
pub async fn above(db: &impl ConnectionTrait, after: i64, limit: u64) -> Result<Vec<Entry>> {
    type Row = (i64, Option<Uuid>, Option<Uuid>, Option<Uuid>, Option<Uuid>);
    let of_an_occurrence = Condition::all()
        .add(Column::ApplicationId.is_not_null())
        .add(Column::TriggerOccurrenceId.is_not_null());
    let rows = Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::ApplicationId,
            Column::LineOaId,
            Column::TriggerOccurrenceId,
            Column::ScheduledActionId,
        ])
        .filter(Column::Id.gt(after))
        .filter(Condition::any().add(of_an_occurrence).add(Column::LineOaId.is_not_null()))
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple::<Row>()
        .all(db)
        .await?;
    let entries = rows.into_iter().map(|(id, application, line_oa, occurrence, action)| Entry {
        id,
        application_id: application.map(Into::into),
        line_oa_id: line_oa.map(Into::into),
        occurrence_id: occurrence.map(Into::into),
        action_id: action.map(Into::into),
    });
    Ok(entries.collect())
}

/// A row for the trigger log that is about no attempt: an evaluation, or occurrences that were
/// skipped. What is none is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewLog<'a> {
    /// What it was about: the source type, `trigger` for all that a trigger's schedule caused.
    pub trigger_on: &'a str,
    /// The rule.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub trigger_rule_id: Option<Uuid>,
    /// The audience that was walked.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub audience_id: Option<Uuid>,
    /// LINE's id of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<&'a str>,
    /// The action's type as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_type: Option<&'a str>,
    /// The action's configuration as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_config: Option<Cow<'a, Value>>,
    /// `queued`, `held_back`, `failed` or `skipped`.
    pub status: &'static str,
    /// Why, in words.
    #[serde(serialize_with = "storable_text", skip_serializing_if = "Option::is_none")]
    pub error_message: Option<&'a str>,
    /// The trigger.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<Uuid>,
    /// The occurrence.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub trigger_occurrence_id: Option<Uuid>,
    /// The work that was queued.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub scheduled_action_id: Option<Uuid>,
    /// The event; of the walk of a cycle the cycle.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub event_id: Option<Uuid>,
    /// The application.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub application_id: Option<Uuid>,
    /// The project, of what rules cause.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<Uuid>,
    /// The LINE OA.
    #[serde(serialize_with = "optional_hex_id", skip_serializing_if = "Option::is_none")]
    pub line_oa_id: Option<Uuid>,
    /// A code for why: the gate that held it back, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// Until when it was held back.
    #[serde(serialize_with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub held_until: Option<DateTime<Utc>>,
    /// When.
    #[serde(serialize_with = "text_time")]
    pub created_date: DateTime<Utc>,
}

fn hex_id<S: serde::Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&id.simple())
}

fn optional_hex_id<S: serde::Serializer>(id: &Option<Uuid>, to: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => to.collect_str(&id.simple()),
        None => to.serialize_none(),
    }
}

fn storable_text<S: serde::Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    text.map(storable).serialize(to)
}

fn optional_time<S: serde::Serializer>(
    at: &Option<DateTime<Utc>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    at.map(time).serialize(to)
}

fn text_time<S: serde::Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&time(*at))
}

/// Writes rows of the trigger log.
pub async fn insert_logs(db: &impl ConnectionTrait, logs: &[NewLog<'_>]) -> Result<()> {
    if !logs.is_empty() {
        dialect::INSERT_LOGS.run(db, vec![dialect::rows(logs)?]).await?;
    }
    Ok(())
}

/// An attempt for the trigger log.
#[derive(Debug, Clone, Serialize)]
pub struct NewAttempt<'a> {
    /// The delivery.
    #[serde(serialize_with = "hex_id")]
    pub scheduled_action_id: Uuid,
    /// `success` or `error`.
    pub status: &'static str,
    /// What went wrong, in words; may quote what the other side sent.
    #[serde(serialize_with = "storable_text", skip_serializing_if = "Option::is_none")]
    pub error_message: Option<&'a str>,
    /// The attempt's number, from 1.
    pub attempt: i32,
    /// The HTTP status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// A code for what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// What the LINE platform calls the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_request_id: Option<&'a str>,
    /// When.
    #[serde(serialize_with = "text_time")]
    pub created_date: DateTime<Utc>,
}

/// Writes attempts into the trigger log, with what was to be done as their deliveries say. An
/// attempt whose delivery was deleted meanwhile leaves no row.
pub async fn log_attempts(db: &impl ConnectionTrait, attempts: &[NewAttempt<'_>]) -> Result<()> {
    if !attempts.is_empty() {
        dialect::LOG_ATTEMPTS.run(db, vec![dialect::rows(attempts)?]).await?;
    }
    Ok(())
}
