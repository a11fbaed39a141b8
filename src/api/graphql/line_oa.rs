//! LINE Official Accounts.

use async_graphql::{Context, ID, InputObject, Object};
use futures::FutureExt;
use secrecy::SecretString;

use super::audience::{Audience, AudienceFilter, AudienceOrder, read_audiences};
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, loaders, page, scope, wanted};
use super::error::{Fault, nullable};
use super::line_user::{LineUser, LineUserFilter, read_line_users};
use super::project::Project;
use super::rule::{RulesOf, TriggerRule, TriggerRuleFilter, TriggerRuleOrder, read_rules};
use super::time::DateTime;
use crate::app::{CreateLineOa, UpdateLineOa};
use crate::domain::id::{LineOaId, ProjectId};
use crate::domain::line as domain;
use crate::error::{Error, Result};

/// A LINE Official Account.
pub struct LineOa(pub domain::LineOa);

/// A LINE Official Account of a project. Its credentials can't be read. Machine users see none.
#[Object]
impl LineOa {
    /// The id, which is ours and not the channel's.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Result<Project, Fault> {
        let found = super::project::load(ctx, self.0.organization_id).await?;
        Ok(found.ok_or(Error::NotFound { what: ProjectId::WHAT })?)
    }

    /// The name shown.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The channel's number at LINE, unique in the whole server.
    async fn channel_id(&self) -> &str {
        &self.0.channel_id
    }

    /// Until when nothing is sent to the LINE platform; none, or a time that is over: it is not
    /// paused.
    async fn paused_until(&self) -> Option<DateTime> {
        self.0.paused_until.map(Into::into)
    }

    /// Why it is paused: `unauthorized`, the platform refused the access token, or
    /// `monthly_limit`, the month's messages are used up.
    async fn paused_reason(&self) -> Option<&str> {
        self.0.paused_reason.as_deref()
    }

    /// Its audiences, by name unless ordered otherwise.
    async fn audiences(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<AudienceFilter>,
        #[graphql(desc = "Their order.")] order: Option<AudienceOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Audience>> {
        read_audiences(ctx, self.0.id, filter, order, (first, after, last, before)).await
    }

    /// The users that it knows, by user id.
    async fn users(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<LineUserFilter>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<LineUser>> {
        read_line_users(ctx, self.0.id, filter, (first, after, last, before)).await
    }

    /// Its trigger rules, the oldest first unless ordered otherwise.
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
        let of = RulesOf { line_oa: Some(self.0.id), workflow: None };
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

/// A new LINE OA.
#[derive(InputObject)]
pub struct CreateLineOaInput {
    /// The project it belongs to.
    project_id: ID,
    /// The name shown, 1 to 100 characters.
    name: String,
    /// The channel's number at LINE: 1 to 20 digits, unique in the whole server.
    channel_id: String,
    /// The channel's secret: 1 to 200 visible ASCII characters. It is never shown again.
    #[graphql(secret)]
    channel_secret: String,
    /// The channel's access token: 1 to 4000 visible ASCII characters. It is never shown again.
    #[graphql(secret)]
    channel_access_token: String,
}

/// What of a LINE OA is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateLineOaInput {
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// Another channel: 1 to 20 digits, unique in the whole server.
    channel_id: Option<String>,
    /// A new channel secret: 1 to 200 visible ASCII characters. It ends a pause.
    #[graphql(secret)]
    channel_secret: Option<String>,
    /// A new access token: 1 to 4000 visible ASCII characters. It ends a pause.
    #[graphql(secret)]
    channel_access_token: Option<String>,
}

impl From<UpdateLineOaInput> for UpdateLineOa {
    fn from(input: UpdateLineOaInput) -> Self {
        Self {
            name: input.name,
            channel_id: input.channel_id,
            channel_secret: input.channel_secret.map(SecretString::from),
            channel_access_token: input.channel_access_token.map(SecretString::from),
        }
    }
}

/// Reads a page of LINE OAs.
pub(super) fn read_line_oas<'a>(
    ctx: &'a Context<'_>,
    project: Option<ProjectId>,
    paging: Paging,
) -> Listed<'a, LineOa> {
    async move {
        let page = app(ctx).line_oas(scope(ctx)?, project, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, LineOa))
    }
    .boxed()
}

/// Queries of LINE OAs.
#[derive(Default)]
pub struct LineOaQuery;

#[Object]
impl LineOaQuery {
    /// The LINE OA of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn line_oa(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<LineOa, Fault>> {
        let found = async { app(ctx).line_oa(scope(ctx)?, LineOaId::parse(&id)?).await };
        nullable(async { Ok(LineOa(found.await?)) }).await
    }

    /// The LINE OAs that the caller may see, by name. Machine users see none.
    async fn line_oas(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this project.")] project_id: Option<ID>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<LineOa>> {
        let project = wanted("projectId", project_id)?;
        read_line_oas(ctx, project, (first, after, last, before)).await
    }
}

/// Mutations of LINE OAs.
#[derive(Default)]
pub struct LineOaMutation;

#[Object]
impl LineOaMutation {
    /// Makes a LINE OA. Needs the maintainer or owner role in the project. `CONFLICT` when the
    /// channel is in use, in whichever project.
    async fn create_line_oa(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new LINE OA.")] input: CreateLineOaInput,
    ) -> Result<LineOa> {
        let caller = caller(ctx)?;
        let new = CreateLineOa {
            project_id: ProjectId::parse(&input.project_id)?,
            name: input.name,
            channel_id: input.channel_id,
            channel_secret: input.channel_secret.into(),
            channel_access_token: input.channel_access_token.into(),
        };
        Ok(LineOa(app(ctx).create_line_oa(caller, new).await?))
    }

    /// Changes a LINE OA and answers it as it is then. Needs the maintainer or owner role in the
    /// project. New credentials end its pause, and what waits to be sent is tried again at once.
    async fn update_line_oa(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateLineOaInput,
    ) -> Result<LineOa> {
        let caller = caller(ctx)?;
        let id = LineOaId::parse(&id)?;
        Ok(LineOa(app(ctx).update_line_oa(caller, id, input.into()).await?))
    }

    /// Deletes a LINE OA for good, with its rules, events, users and audiences, and answers it as
    /// it was. Needs the maintainer or owner role in the project. What is not done yet is
    /// cancelled; the trigger log stays.
    async fn delete_line_oa(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<LineOa> {
        let caller = caller(ctx)?;
        Ok(LineOa(app(ctx).delete_line_oa(caller, LineOaId::parse(&id)?).await?))
    }
}

/// The LINE OA of that id, loaded with those of its siblings.
pub(super) async fn load(ctx: &Context<'_>, id: LineOaId) -> Result<LineOa, Fault> {
    let found = loaders(ctx)?.load_one(id).await?;
    Ok(LineOa(found.ok_or(Error::NotFound { what: LineOaId::WHAT })?))
}
