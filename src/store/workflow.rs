//! Workflows of applications.

use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
};
use uuid::Uuid;

use super::entity::workflow;
use super::paging::{By, page};
use super::{Hold, Tx, scope};
use crate::domain::access::Scope;
use crate::domain::id::{ApplicationId, WorkflowId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::workflow::Workflow;
use crate::error::{Error, Result};

impl From<workflow::Model> for Workflow {
    fn from(row: workflow::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            organization_id: row.organization_id.into(),
            name: row.name,
            description: row.description,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Writes a new workflow. `CONFLICT` when the application has one of that name.
pub async fn insert(db: &impl ConnectionTrait, new: &Workflow) -> Result<()> {
    workflow::Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a workflow's row anew. `CONFLICT` when the application has one of that name.
pub async fn update(db: &impl ConnectionTrait, changed: &Workflow) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

fn row(workflow: &Workflow) -> workflow::ActiveModel {
    workflow::Model {
        id: workflow.id.0,
        application_id: workflow.application_id.0,
        organization_id: workflow.organization_id.0,
        name: workflow.name.clone(),
        description: workflow.description.clone(),
        created_at: workflow.created_at,
        updated_at: workflow.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes a workflow. Its queued work is cancelled elsewhere, in the same transaction.
pub async fn delete(db: &impl ConnectionTrait, id: WorkflowId) -> Result<()> {
    workflow::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// Deletes the workflows of these applications. Their work is deleted elsewhere.
pub(super) async fn delete_of_applications(
    db: &impl ConnectionTrait,
    applications: &[Uuid],
) -> Result<()> {
    workflow::Entity::delete_many()
        .filter(workflow::Column::ApplicationId.is_in(applications.iter().copied()))
        .exec(db)
        .await?;
    Ok(())
}

/// The workflow of that id in `scope`.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: WorkflowId) -> Result<Workflow> {
    let row = workflow::Entity::find_by_id(id.0)
        .filter(scope::application(scope, workflow::Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: WorkflowId::WHAT })
}

/// The workflow of that id in `scope`, held.
pub async fn find_held(tx: &Tx, scope: Scope, id: WorkflowId, hold: Hold) -> Result<Workflow> {
    let select = workflow::Entity::find_by_id(id.0)
        .filter(scope::application(scope, workflow::Column::ApplicationId));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: WorkflowId::WHAT })
}

/// The workflows of these ids in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[WorkflowId],
) -> Result<Vec<Workflow>> {
    let rows = workflow::Entity::find()
        .filter(workflow::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, workflow::Column::ApplicationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// An application's workflows in `scope`, by name.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    application: ApplicationId,
    request: &PageRequest,
) -> Result<Page<Workflow>> {
    use workflow::{Column, Entity};
    let select = Entity::find()
        .filter(Column::ApplicationId.eq(application.0))
        .filter(scope::application(scope, Column::ApplicationId));
    let by = By { column: Column::Name, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
