//! Tenants.

use async_graphql::{Context, ID, InputObject, Object};
use futures::FutureExt;

use super::application::Application;
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, named, page, scope};
use super::error::{Fault, nullable};
use super::time::DateTime;
use crate::app::{CreateTenant, UpdateTenant};
use crate::domain::application as domain;
use crate::domain::id::{ApplicationId, TenantId};
use crate::error::Result;

/// A tenant.
pub struct Tenant(pub domain::Tenant);

/// What the backends of an application loop over.
#[Object]
impl Tenant {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its application.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The name in addresses, unique in the application and environment.
    async fn slug(&self) -> &str {
        &self.0.slug
    }

    /// The name shown.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The environment's name, for example `production`.
    async fn environment(&self) -> &str {
        &self.0.environment
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// A new tenant.
#[derive(InputObject)]
pub struct CreateTenantInput {
    /// The application it belongs to.
    application_id: ID,
    /// The name in addresses, unique in the application and environment: 1 to 63 lower-case
    /// letters, digits and single hyphens.
    slug: String,
    /// The name shown, 1 to 100 characters.
    name: String,
    /// The environment's name, for example `production`, 1 to 100 characters.
    environment: String,
}

/// What of a tenant is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateTenantInput {
    /// A new slug: 1 to 63 lower-case letters, digits and single hyphens.
    slug: Option<String>,
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// Another environment, 1 to 100 characters.
    environment: Option<String>,
}

/// Reads a page of tenants.
pub(super) fn read_tenants<'a>(
    ctx: &'a Context<'_>,
    application: ApplicationId,
    environment: Option<String>,
    paging: Paging,
) -> Listed<'a, Tenant> {
    async move {
        let (scope, request) = (scope(ctx)?, page(ctx, paging)?);
        let page = app(ctx).tenants(scope, application, environment.as_deref(), &request).await?;
        Ok(Connection::new(page, Tenant))
    }
    .boxed()
}

/// Queries of tenants.
#[derive(Default)]
pub struct TenantQuery;

#[Object]
impl TenantQuery {
    /// The tenant of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn tenant(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Tenant, Fault>> {
        let found = async { app(ctx).tenant(scope(ctx)?, TenantId::parse(&id)?).await };
        nullable(async { Ok(Tenant(found.await?)) }).await
    }

    /// An application's tenants, by slug; none of one that the caller may not see.
    async fn tenants(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
        #[graphql(desc = "Only those of this environment.")] environment: Option<String>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Tenant>> {
        let application = named("applicationId", &application_id)?;
        read_tenants(ctx, application, environment, (first, after, last, before)).await
    }
}

/// Mutations of tenants.
#[derive(Default)]
pub struct TenantMutation;

#[Object]
impl TenantMutation {
    /// Makes a tenant. Needs the maintainer or owner role in the project.
    async fn create_tenant(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new tenant.")] input: CreateTenantInput,
    ) -> Result<Tenant> {
        let caller = caller(ctx)?;
        let new = CreateTenant {
            application_id: ApplicationId::parse(&input.application_id)?,
            slug: input.slug,
            name: input.name,
            environment: input.environment,
        };
        Ok(Tenant(app(ctx).create_tenant(caller, new).await?))
    }

    /// Changes a tenant and answers it as it is then. Needs the maintainer or owner role in the
    /// project.
    async fn update_tenant(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateTenantInput,
    ) -> Result<Tenant> {
        let caller = caller(ctx)?;
        let update =
            UpdateTenant { slug: input.slug, name: input.name, environment: input.environment };
        Ok(Tenant(app(ctx).update_tenant(caller, TenantId::parse(&id)?, update).await?))
    }

    /// Deletes a tenant and answers it as it was. Needs the maintainer or owner role in the
    /// project.
    async fn delete_tenant(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Tenant> {
        let caller = caller(ctx)?;
        Ok(Tenant(app(ctx).delete_tenant(caller, TenantId::parse(&id)?).await?))
    }
}
