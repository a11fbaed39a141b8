//! Applications.

use async_graphql::{Context, ID, InputObject, Object};
use futures::FutureExt;

use super::backend::{Backend, BackendFilter, read_backends};
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, loaders, page, scope, wanted};
use super::error::{Fault, nullable};
use super::machine_user::{MachineUser, read_machine_users};
use super::project::Project;
use super::tenant::{Tenant, read_tenants};
use super::time::DateTime;
use super::trigger::{Trigger, TriggerFilter, TriggerOrder, read_triggers};
use super::workflow::{Workflow, read_workflows};
use crate::app::{CreateApplication, UpdateApplication};
use crate::domain::application as domain;
use crate::domain::id::{ApplicationId, ProjectId};
use crate::error::{Error, Result};

/// An application.
pub struct Application(pub domain::Application);

/// A service of a project. Has triggers, backends, machine users, tenants and workflows.
#[Object]
impl Application {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Result<Project, Fault> {
        let found = super::project::load(ctx, self.0.project_id).await?;
        Ok(found.ok_or(Error::NotFound { what: ProjectId::WHAT })?)
    }

    /// The name in addresses, unique in the project.
    async fn slug(&self) -> &str {
        &self.0.slug
    }

    /// The name shown.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Its triggers, the oldest first unless ordered otherwise.
    async fn triggers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Trigger>> {
        let paging = (first, after, last, before);
        read_triggers(ctx, Some(self.0.id), filter, order, paging).await
    }

    /// Its registered backends, by name.
    async fn backends(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<BackendFilter>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Backend>> {
        read_backends(ctx, Some(self.0.id), filter, (first, after, last, before)).await
    }

    /// Its machine users, the oldest first.
    async fn machine_users(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<MachineUser>> {
        read_machine_users(ctx, self.0.id, (first, after, last, before)).await
    }

    /// Its tenants, by slug.
    async fn tenants(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this environment.")] environment: Option<String>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Tenant>> {
        read_tenants(ctx, self.0.id, environment, (first, after, last, before)).await
    }

    /// Its workflows, by name.
    async fn workflows(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Workflow>> {
        read_workflows(ctx, self.0.id, (first, after, last, before)).await
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

/// A new application.
#[derive(InputObject)]
pub struct CreateApplicationInput {
    /// The project it belongs to.
    project_id: ID,
    /// The name in addresses, unique in the project: 1 to 63 lower-case letters, digits and single
    /// hyphens.
    slug: String,
    /// The name shown, 1 to 100 characters.
    name: String,
}

/// What of an application is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateApplicationInput {
    /// A new slug: 1 to 63 lower-case letters, digits and single hyphens.
    slug: Option<String>,
    /// A new name, 1 to 100 characters.
    name: Option<String>,
}

/// Reads a page of applications.
pub(super) fn read_applications<'a>(
    ctx: &'a Context<'_>,
    project: Option<ProjectId>,
    paging: Paging,
) -> Listed<'a, Application> {
    async move {
        let page = app(ctx).applications(scope(ctx)?, project, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, Application))
    }
    .boxed()
}

/// A project that can't be seen reads like a missing application.
async fn by_slugs(ctx: &Context<'_>, project: &str, slug: &str) -> Result<domain::Application> {
    let (app, scope) = (app(ctx), scope(ctx)?);
    let project = app.project_by_slug(scope, project).await.map_err(|error| match error {
        Error::NotFound { .. } => Error::NotFound { what: ApplicationId::WHAT },
        other => other,
    })?;
    app.application_by_slug(scope, project.id, slug).await
}

/// Queries of applications.
#[derive(Default)]
pub struct ApplicationQuery;

#[Object]
impl ApplicationQuery {
    /// The application of that id, or of that slug in the project of that slug. `NOT_FOUND` when
    /// there is none that the caller may see.
    async fn application(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: Option<ID>,
        #[graphql(desc = "Its project's slug; goes with `slug`.")] project_slug: Option<String>,
        #[graphql(desc = "Its slug; goes with `projectSlug`.")] slug: Option<String>,
    ) -> Option<Result<Application, Fault>> {
        let found = async {
            match (id, project_slug, slug) {
                (Some(id), None, None) => {
                    app(ctx).application(scope(ctx)?, ApplicationId::parse(&id)?).await
                }
                (None, Some(project), Some(slug)) => by_slugs(ctx, &project, &slug).await,
                _ => Err(Error::invalid("id", "give either id, or projectSlug and slug")),
            }
        };
        nullable(async { Ok(Application(found.await?)) }).await
    }

    /// The applications that the caller may see, by slug.
    async fn applications(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this project.")] project_id: Option<ID>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Application>> {
        let project = wanted("projectId", project_id)?;
        read_applications(ctx, project, (first, after, last, before)).await
    }
}

/// Mutations of applications.
#[derive(Default)]
pub struct ApplicationMutation;

#[Object]
impl ApplicationMutation {
    /// Makes an application. Needs the maintainer or owner role in the project.
    async fn create_application(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new application.")] input: CreateApplicationInput,
    ) -> Result<Application> {
        let caller = caller(ctx)?;
        let project_id = ProjectId::parse(&input.project_id)?;
        let new = CreateApplication { project_id, slug: input.slug, name: input.name };
        Ok(Application(app(ctx).create_application(caller, new).await?))
    }

    /// Changes an application and answers it as it is then. Needs the maintainer or owner role in
    /// the project.
    async fn update_application(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateApplicationInput,
    ) -> Result<Application> {
        let caller = caller(ctx)?;
        let id = ApplicationId::parse(&id)?;
        let update = UpdateApplication { slug: input.slug, name: input.name };
        Ok(Application(app(ctx).update_application(caller, id, update).await?))
    }

    /// Deletes an application for good, with everything that belongs to it, and answers it as it
    /// was. Needs the maintainer or owner role in the project.
    async fn delete_application(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Application> {
        let caller = caller(ctx)?;
        let id = ApplicationId::parse(&id)?;
        Ok(Application(app(ctx).delete_application(caller, id).await?))
    }
}

/// The application of that id, loaded with those of its siblings.
pub(super) async fn load(ctx: &Context<'_>, id: ApplicationId) -> Result<Application, Fault> {
    let found = loaders(ctx)?.load_one(id).await?;
    Ok(Application(found.ok_or(Error::NotFound { what: ApplicationId::WHAT })?))
}
