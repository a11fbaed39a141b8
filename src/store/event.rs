//! Events: what happened, stored before it is evaluated.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use serde::Serialize;
use serde_json::Value;

use super::delivery::IdRow;
use super::dialect::{self, hex, time};
use super::entity::event::{Column, Entity, Model};
use super::paging::{By, page};
use super::wanted::Wanted;
use super::{Tx, scope};
use crate::domain::access::Scope;
use crate::domain::event::{Event, EventOrigin, EventStatus};
use crate::domain::id::{EventId, LineOaId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

impl From<Model> for Event {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            event_id: row.event_id,
            event_type: row.event_type,
            line_oa_id: row.line_oa_id.into(),
            organization_id: row.organization_id.into(),
            user_id: row.user_id,
            occurred_at: row.occurred_at,
            payload: row.payload,
            subject: row.subject,
            origin: EventOrigin::from_name(&row.origin).unwrap_or(EventOrigin::Internal),
            status: EventStatus::from_name(&row.status).unwrap_or(EventStatus::Failed),
            matched: row.matched,
            error: row.error,
            received_at: row.received_at,
            processed_at: row.processed_at,
        }
    }
}

/// Stores events as pending. Answers the ids of those stored; the others are duplicates: their
/// LINE OA has an event of that `event_id` already, or it stands twice in the list.
pub async fn insert(db: &impl ConnectionTrait, events: &[Event]) -> Result<HashSet<EventId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        event_id: &'a str,
        event_type: &'a str,
        line_oa_id: String,
        organization_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<&'a str>,
        occurred_at: String,
        payload: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<&'a str>,
        origin: &'static str,
        status: &'static str,
        received_at: String,
    }
    if events.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<_> = events
        .iter()
        .map(|event| Row {
            id: hex(event.id.0),
            event_id: &event.event_id,
            event_type: &event.event_type,
            line_oa_id: hex(event.line_oa_id.0),
            organization_id: hex(event.organization_id.0),
            user_id: event.user_id.as_deref(),
            occurred_at: time(event.occurred_at),
            payload: &event.payload,
            subject: event.subject.as_deref(),
            origin: event.origin.as_str(),
            status: event.status.as_str(),
            received_at: time(event.received_at),
        })
        .collect();
    let stored = dialect::INSERT_EVENTS.rows::<IdRow>(db, vec![dialect::rows(&rows)?]).await?;
    Ok(stored.into_iter().map(|row| row.id.into()).collect())
}

/// Events that are not evaluated yet, oldest first, held until the transaction ends.
pub async fn pending(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Event>> {
    let values = vec![dialect::limit(limit)];
    let rows = dialect::PENDING_EVENTS.rows::<Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Those of `events` about whose subject a later event is stored already.
pub async fn stale(db: &impl ConnectionTrait, events: &[&Event]) -> Result<HashSet<EventId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        line_oa_id: String,
        subject: &'a str,
        occurred_at: String,
    }
    let rows: Vec<_> = events
        .iter()
        .filter_map(|event| {
            Some(Row {
                id: hex(event.id.0),
                line_oa_id: hex(event.line_oa_id.0),
                subject: event.subject.as_deref()?,
                occurred_at: time(event.occurred_at),
            })
        })
        .collect();
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let stale = dialect::STALE_EVENTS.rows::<IdRow>(db, vec![dialect::rows(&rows)?]).await?;
    Ok(stale.into_iter().map(|row| row.id.into()).collect())
}

/// Lets only this transaction evaluate events about the subjects of `events` until it ends, so that
/// it sees what earlier ones have queued. (SQLite has one writer and needs no more.)
pub async fn hold_subjects(tx: &Tx, events: &[&Event]) -> Result<()> {
    let subjects: Vec<_> = events
        .iter()
        .filter_map(|event| Some(format!("{}/{}", event.line_oa_id, event.subject.as_deref()?)))
        .collect();
    tx.hold_names(&dialect::HOLD_NAMES, &subjects).await
}

/// What an evaluation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// The event.
    pub id: EventId,
    /// How many rules accepted it.
    pub matched: i32,
    /// Why it could not be evaluated.
    pub error: Option<String>,
}

/// Records that events were evaluated at `now`.
pub async fn processed(
    db: &impl ConnectionTrait,
    events: &[Processed],
    now: DateTime<Utc>,
) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        status: &'static str,
        matched: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    }
    if events.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = events
        .iter()
        .map(|event| Row {
            id: hex(event.id.0),
            status: match event.error {
                Some(_) => EventStatus::Failed.as_str(),
                None => EventStatus::Processed.as_str(),
            },
            matched: event.matched,
            error: event.error.as_deref(),
        })
        .collect();
    dialect::PROCESSED_EVENTS.run(db, vec![dialect::rows(&rows)?, now.into()]).await?;
    Ok(())
}

/// Which events are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// That happened to this user.
    pub user_id: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// With this id of the sender.
    pub event_id: Option<String>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<EventStatus>,
    /// Stored at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Stored before this time.
    pub until: Option<DateTime<Utc>>,
}

/// The events in `scope`, for people, that `filter` asks for, in the order of storing.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<Event>> {
    let wanted = Wanted::among(scope::of_people(scope, Column::OrganizationId))
        .eq(Column::LineOaId, filter.line_oa_id.map(|id| id.0))
        .eq(Column::UserId, filter.user_id.as_deref())
        .eq(Column::EventType, filter.event_type.as_deref())
        .eq(Column::EventId, filter.event_id.as_deref())
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::ReceivedAt, filter.since, filter.until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::Id, id: Column::Id, direction }, request).await
}

/// The event of that id in `scope`, for people: a machine finds none.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: EventId) -> Result<Event> {
    let row = Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: EventId::WHAT })
}

/// The events of these ids in `scope`, for people, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[EventId],
) -> Result<Vec<Event>> {
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::of_people(scope, Column::OrganizationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}
