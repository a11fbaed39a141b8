//! Tenants of applications.

use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
};

use crate::domain::access::Scope;
use crate::domain::application::Tenant;
use crate::domain::id::{ApplicationId, TenantId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::entity::tenant;
use crate::store::paging::{By, page};
use crate::store::scope;

impl From<tenant::Model> for Tenant {
    fn from(row: tenant::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            slug: row.slug,
            name: row.name,
            environment: row.environment,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Writes a new tenant. `CONFLICT` when the application and environment have the slug already.
pub async fn insert_tenant(db: &impl ConnectionTrait, new: &Tenant) -> Result<()> {
    tenant::Entity::insert(tenant_row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a tenant's row anew.
pub async fn update_tenant(db: &impl ConnectionTrait, changed: &Tenant) -> Result<()> {
    tenant_row(changed).update(db).await?;
    Ok(())
}

fn tenant_row(tenant: &Tenant) -> tenant::ActiveModel {
    tenant::Model {
        id: tenant.id.0,
        application_id: tenant.application_id.0,
        slug: tenant.slug.clone(),
        name: tenant.name.clone(),
        environment: tenant.environment.clone(),
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes a tenant.
pub async fn delete_tenant(db: &impl ConnectionTrait, id: TenantId) -> Result<()> {
    tenant::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The tenant of that id in `scope`.
pub async fn tenant(db: &impl ConnectionTrait, scope: Scope, id: TenantId) -> Result<Tenant> {
    let row = tenant::Entity::find_by_id(id.0)
        .filter(scope::application(scope, tenant::Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TenantId::WHAT })
}

/// An application's tenants in `scope`, of one environment or of all, by slug.
pub async fn tenants(
    db: &impl ConnectionTrait,
    scope: Scope,
    application: ApplicationId,
    environment: Option<&str>,
    request: &PageRequest,
) -> Result<Page<Tenant>> {
    use tenant::{Column, Entity};
    let mut select = Entity::find()
        .filter(Column::ApplicationId.eq(application.0))
        .filter(scope::application(scope, Column::ApplicationId));
    if let Some(environment) = environment {
        select = select.filter(Column::Environment.eq(environment));
    }
    let by = By { column: Column::Slug, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
