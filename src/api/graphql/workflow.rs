//! Workflows.

use async_graphql::{Context, ID, InputObject, Object};
use futures::FutureExt;

use super::application::Application;
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, loaders, named, page, scope};
use super::error::{Fault, nullable};
use super::rule::{RulesOf, TriggerRule, TriggerRuleFilter, TriggerRuleOrder, read_rules};
use super::time::DateTime;
use crate::app::{CreateWorkflow, UpdateWorkflow};
use crate::domain::id::{ApplicationId, WorkflowId};
use crate::domain::workflow as domain;
use crate::error::Result;

/// A workflow.
pub struct Workflow(pub domain::Workflow);

/// Something that an application runs step by step. It is resumed from here: the resume is
/// delivered to the application's backends.
#[Object]
impl Workflow {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The application whose backends run it.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The name shown, unique in the application.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for, up to 1000 characters.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// The trigger rules that are part of it, the oldest first unless ordered otherwise. Machine
    /// users see none.
    async fn trigger_rules(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerRuleFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerRuleOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<TriggerRule>> {
        let of = RulesOf { line_oa: None, workflow: Some(self.0.id) };
        read_rules(ctx, of, filter, order, (first, after, last, before)).await
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

/// A new workflow.
#[derive(InputObject)]
pub struct CreateWorkflowInput {
    /// The application whose backends run it.
    application_id: ID,
    /// The name shown, 1 to 100 characters, unique in the application.
    name: String,
    /// What it is for, up to 1000 characters.
    #[graphql(default)]
    description: String,
}

/// What of a workflow is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateWorkflowInput {
    /// A new name, 1 to 100 characters, unique in the application.
    name: Option<String>,
    /// A new description, up to 1000 characters.
    description: Option<String>,
}

/// Reads a page of workflows.
pub(super) fn read_workflows<'a>(
    ctx: &'a Context<'_>,
    application: ApplicationId,
    paging: Paging,
) -> Listed<'a, Workflow> {
    async move {
        let (scope, request) = (scope(ctx)?, page(ctx, paging)?);
        let page = app(ctx).workflows(scope, application, &request).await?;
        Ok(Connection::new(page, Workflow))
    }
    .boxed()
}

/// Queries of workflows.
#[derive(Default)]
pub struct WorkflowQuery;

#[Object]
impl WorkflowQuery {
    /// The workflow of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn workflow(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Workflow, Fault>> {
        let found = async { app(ctx).workflow(scope(ctx)?, WorkflowId::parse(&id)?).await };
        nullable(async { Ok(Workflow(found.await?)) }).await
    }

    /// An application's workflows, by name; none of one that the caller may not see.
    async fn workflows(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Workflow>> {
        let application = named("applicationId", &application_id)?;
        read_workflows(ctx, application, (first, after, last, before)).await
    }
}

/// Mutations of workflows.
#[derive(Default)]
pub struct WorkflowMutation;

#[Object]
impl WorkflowMutation {
    /// Makes a workflow. Needs the maintainer or owner role in the project.
    async fn create_workflow(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new workflow.")] input: CreateWorkflowInput,
    ) -> Result<Workflow> {
        let caller = caller(ctx)?;
        let application_id = ApplicationId::parse(&input.application_id)?;
        let (name, description) = (input.name, input.description);
        let new = CreateWorkflow { application_id, name, description };
        Ok(Workflow(app(ctx).create_workflow(caller, new).await?))
    }

    /// Changes a workflow and answers it as it is then. Needs the maintainer or owner role in the
    /// project.
    async fn update_workflow(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateWorkflowInput,
    ) -> Result<Workflow> {
        let caller = caller(ctx)?;
        let update = UpdateWorkflow { name: input.name, description: input.description };
        Ok(Workflow(app(ctx).update_workflow(caller, WorkflowId::parse(&id)?, update).await?))
    }

    /// Deletes a workflow and answers it as it was. Needs the maintainer or owner role in the
    /// project. Its work that is not done yet is cancelled.
    async fn delete_workflow(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Workflow> {
        let caller = caller(ctx)?;
        Ok(Workflow(app(ctx).delete_workflow(caller, WorkflowId::parse(&id)?).await?))
    }
}

/// The workflow of that id, loaded with those of its siblings; none when it was deleted.
pub(super) async fn load(ctx: &Context<'_>, id: WorkflowId) -> Result<Option<Workflow>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Workflow))
}
