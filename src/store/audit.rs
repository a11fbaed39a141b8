//! The audit log. Rows are written, read and, when their time is up, deleted; never changed.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::IntoCondition;
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use super::entity::audit_log::{ActiveModel, Column, Entity, Model};
use super::paging::{By, page};
use super::scope;
use super::wanted::Wanted;
use crate::domain::access::Scope;
use crate::domain::audit::{AuditLog, Caller, Change};
use crate::domain::id::{ApplicationId, AuditLogId, ProjectId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::Result;

impl From<Model> for AuditLog {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            at: row.at,
            actor_type: row.actor_type,
            actor_id: row.actor_id,
            actor_name: row.actor_name,
            action: row.action,
            entity_type: row.entity_type,
            entity_id: row.entity_id,
            project_id: row.project_id.map(Into::into),
            application_id: row.application_id.map(Into::into),
            before: row.before,
            after: row.after,
            request_id: row.request_id,
        }
    }
}

/// Writes one row a change. Only [`super::Tx::commit`] calls it.
pub(super) async fn insert(
    db: &impl ConnectionTrait,
    caller: &Caller,
    now: DateTime<Utc>,
    changes: &[Change],
) -> Result<()> {
    let rows = changes.iter().map(|change| ActiveModel {
        id: Set(AuditLogId::new().0),
        at: Set(now),
        actor_type: Set(caller.actor.kind().to_owned()),
        actor_id: Set(caller.actor.id()),
        actor_name: Set(caller.actor.name().to_owned()),
        action: Set(change.action.to_owned()),
        entity_type: Set(change.entity_type.to_owned()),
        entity_id: Set(change.entity_id),
        project_id: Set(change.project_id.map(|id| id.0)),
        application_id: Set(change.application_id.map(|id| id.0)),
        before: Set(change.before.clone()),
        after: Set(change.after.clone()),
        request_id: Set(caller.request_id.clone()),
    });
    Entity::insert_many(rows).exec_without_returning(db).await?;
    Ok(())
}

/// Which rows of the audit log are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this project.
    pub project_id: Option<ProjectId>,
    /// Of this application.
    pub application_id: Option<ApplicationId>,
    /// Of this kind of thing.
    pub entity_type: Option<String>,
    /// Of this thing.
    pub entity_id: Option<Uuid>,
    /// By this actor.
    pub actor_id: Option<Uuid>,
    /// This `noun.verb`.
    pub action: Option<String>,
    /// Not earlier.
    pub since: Option<DateTime<Utc>>,
    /// Earlier.
    pub until: Option<DateTime<Utc>>,
}

/// The audit log in `scope`, latest first. Rows of no project are for administrators only, and
/// of its project a machine sees what its own application was told.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    request: &PageRequest,
) -> Result<Page<AuditLog>> {
    let visible = match scope {
        Scope::Application(id) => Column::ApplicationId.eq(id.0).into_condition(),
        _ => scope::project(scope, Column::ProjectId),
    };
    let wanted = Wanted::among(visible)
        .eq(Column::ProjectId, filter.project_id.map(|id| id.0))
        .eq(Column::ApplicationId, filter.application_id.map(|id| id.0))
        .eq(Column::EntityId, filter.entity_id)
        .eq(Column::ActorId, filter.actor_id)
        .eq(Column::EntityType, filter.entity_type.as_deref())
        .eq(Column::Action, filter.action.as_deref())
        .between(Column::At, filter.since, filter.until);
    let select = Entity::find().filter(wanted);
    let by = By { column: Column::Id, id: Column::Id, direction: Direction::Descending };
    page(db, select, by, request).await
}
