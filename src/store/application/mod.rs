//! Applications, and their tenants, machine users and backends.

mod backend;
mod machine_user;
mod tenant;

use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::entity::{self, application, backend_registration, trigger, workflow};
use super::paging::{By, page};
use super::{Hold, Tx, scope};
use crate::domain::access::Scope;
use crate::domain::application::Application;
use crate::domain::id::{ApplicationId, ProjectId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

pub use backend::*;
pub use machine_user::*;
pub use tenant::*;

impl From<application::Model> for Application {
    fn from(row: application::Model) -> Self {
        Self {
            id: row.id.into(),
            project_id: row.project_id.into(),
            slug: row.slug,
            name: row.name,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Writes a new application. `CONFLICT` when the project has the slug already.
pub async fn insert(db: &impl ConnectionTrait, new: &Application) -> Result<()> {
    application::Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes an application's row anew.
pub async fn update(db: &impl ConnectionTrait, changed: &Application) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

fn row(application: &Application) -> application::ActiveModel {
    application::Model {
        id: application.id.0,
        project_id: application.project_id.0,
        slug: application.slug.clone(),
        name: application.name.clone(),
        created_at: application.created_at,
        updated_at: application.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes an application with all that belongs to it, its ledger and queued work included. The
/// trigger log and the audit log keep their rows until their time is up.
pub async fn delete(tx: &Tx, id: ApplicationId) -> Result<()> {
    hold_to_delete(tx, &[id]).await?;
    super::delivery::delete_of_applications(&**tx, &[id.0]).await?;
    super::workflow::delete_of_applications(&**tx, &[id.0]).await?;
    application::Entity::delete_by_id(id.0).exec(&**tx).await?;
    // What was queued meanwhile by those who hold neither triggers nor the application: for an
    // occurrence that waited for a backend, or because of a rule.
    super::delivery::delete_open_of_applications(&**tx, &[id.0]).await
}

/// Holds applications to be deleted, their triggers before them: a pass holds triggers when it
/// writes occurrences, for which it has to wait until nobody deletes the application.
async fn hold_to_delete(tx: &Tx, ids: &[ApplicationId]) -> Result<Vec<Application>> {
    let ids = || ids.iter().map(|id| id.0);
    let triggers = trigger::Entity::find()
        .filter(trigger::Column::ApplicationId.is_in(ids()))
        .order_by_asc(trigger::Column::Id);
    tx.hold_all(triggers, Hold::Delete).await?;
    let select = application::Entity::find()
        .filter(application::Column::Id.is_in(ids()))
        .order_by_asc(application::Column::Id);
    let rows = tx.holding(select, Hold::Delete).all(&**tx).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The application of that id in `scope`.
pub async fn find(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: ApplicationId,
) -> Result<Application> {
    let row = application::Entity::find_by_id(id.0)
        .filter(scope::application(scope, application::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// The application of that id in `scope`, held; to be deleted, with its triggers.
pub async fn find_held(
    tx: &Tx,
    scope: Scope,
    id: ApplicationId,
    hold: Hold,
) -> Result<Application> {
    if hold == Hold::Delete {
        hold_to_delete(tx, &[find(&**tx, scope, id).await?.id]).await?;
    }
    let select = application::Entity::find_by_id(id.0)
        .filter(scope::application(scope, application::Column::Id));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// All applications of a project that is held, held to be deleted, with their triggers.
pub async fn hold_all_of(tx: &Tx, project: ProjectId) -> Result<Vec<Application>> {
    let ids: Vec<Uuid> = application::Entity::find()
        .select_only()
        .column(application::Column::Id)
        .filter(application::Column::ProjectId.eq(project.0))
        .into_tuple()
        .all(&**tx)
        .await?;
    let ids: Vec<_> = ids.into_iter().map(ApplicationId).collect();
    hold_to_delete(tx, &ids).await
}

/// How much belongs to applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Tenants.
    pub tenants: u64,
    /// Machine users.
    pub machine_users: u64,
    /// Backends, active or not.
    pub backends: u64,
    /// Triggers, enabled or not.
    pub triggers: u64,
    /// Workflows.
    pub workflows: u64,
}

/// How much belongs to these applications together.
pub async fn contents(db: &impl ConnectionTrait, ids: &[ApplicationId]) -> Result<Contents> {
    let ids = || ids.iter().map(|id| id.0);
    let tenants =
        entity::tenant::Entity::find().filter(entity::tenant::Column::ApplicationId.is_in(ids()));
    let machine_users = entity::machine_user::Entity::find()
        .filter(entity::machine_user::Column::ApplicationId.is_in(ids()));
    let backends = backend_registration::Entity::find()
        .filter(backend_registration::Column::ApplicationId.is_in(ids()));
    let triggers = trigger::Entity::find().filter(trigger::Column::ApplicationId.is_in(ids()));
    let workflows = workflow::Entity::find().filter(workflow::Column::ApplicationId.is_in(ids()));
    Ok(Contents {
        tenants: tenants.count(db).await?,
        machine_users: machine_users.count(db).await?,
        backends: backends.count(db).await?,
        triggers: triggers.count(db).await?,
        workflows: workflows.count(db).await?,
    })
}

/// The application of that slug in a project in `scope`.
pub async fn find_by_slug(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: ProjectId,
    slug: &str,
) -> Result<Application> {
    let row = application::Entity::find()
        .filter(application::Column::ProjectId.eq(project.0))
        .filter(application::Column::Slug.eq(slug))
        .filter(scope::application(scope, application::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// The applications of these ids in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[ApplicationId],
) -> Result<Vec<Application>> {
    let rows = application::Entity::find()
        .filter(application::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, application::Column::Id))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The applications in `scope`, of one project or of all, by slug.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: Option<ProjectId>,
    request: &PageRequest,
) -> Result<Page<Application>> {
    use application::{Column, Entity};
    let mut select = Entity::find().filter(scope::application(scope, Column::Id));
    if let Some(project) = project {
        select = select.filter(Column::ProjectId.eq(project.0));
    }
    let by = By { column: Column::Slug, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
