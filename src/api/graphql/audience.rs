//! Audiences.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use futures::FutureExt;

use super::connection::{Connection, Listed, OrderDirection};
use super::context::{Paging, app, caller, loaders, named, page, scope};
use super::error::{Fault, nullable};
use super::line_oa::LineOa;
use super::line_user::LineUser;
use super::loaders::MembersOf;
use super::time::DateTime;
use crate::app::{AudienceFilter as Filter, AudienceSort, CreateAudience, UpdateAudience};
use crate::domain::audience as domain;
use crate::domain::id::{AudienceId, LineOaId};
use crate::domain::input;
use crate::error::Result;

/// An audience.
pub struct Audience(pub domain::Audience);

/// A named set of users of one LINE OA.
#[Object]
impl Audience {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its LINE OA.
    async fn line_oa(&self, ctx: &Context<'_>) -> Result<LineOa, Fault> {
        super::line_oa::load(ctx, self.0.line_oa_id).await
    }

    /// The name shown, unique in the LINE OA.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for, up to 1000 characters.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// How many users are in it. Counting reads all of them: ask only where it is shown.
    async fn member_count(&self, ctx: &Context<'_>) -> Result<i64, Fault> {
        Ok(loaders(ctx)?.load_one(MembersOf(self.0.id)).await?.unwrap_or_default())
    }

    /// Who is in it, by user id.
    async fn members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<AudienceMember>> {
        let request = page(ctx, (first, after, last, before))?;
        let page = app(ctx).audience_members(self.0.id, &request).boxed().await?;
        let line_oa = self.0.line_oa_id;
        Ok(Connection::new(page, |member| AudienceMember { member, line_oa }))
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed; its members do not count.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// A user in an audience.
pub struct AudienceMember {
    member: domain::AudienceMember,
    line_oa: LineOaId,
}

/// A user in an audience.
#[Object]
impl AudienceMember {
    /// LINE's id of the user.
    async fn user_id(&self) -> &str {
        &self.member.user_id
    }

    /// The user; none when the LINE OA was deleted meanwhile.
    async fn user(&self, ctx: &Context<'_>) -> Option<Result<LineUser, Fault>> {
        let key = (self.line_oa, self.member.user_id.clone());
        super::line_user::load(ctx, key).await.transpose()
    }

    /// Since when.
    async fn added_at(&self) -> DateTime {
        self.member.added_at.into()
    }
}

/// Which audiences are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct AudienceFilter {
    /// Only those with this text in the name, whatever its case.
    name_contains: Option<String>,
}

/// The order of a list of audiences.
#[derive(InputObject)]
pub struct AudienceOrder {
    /// By what.
    field: AudienceOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What audiences are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum AudienceOrderField {
    /// The time of creation.
    CreatedAt,
    /// The name.
    Name,
    /// The time of the last change.
    UpdatedAt,
}

impl From<AudienceOrderField> for AudienceSort {
    fn from(field: AudienceOrderField) -> Self {
        match field {
            AudienceOrderField::CreatedAt => Self::CreatedAt,
            AudienceOrderField::Name => Self::Name,
            AudienceOrderField::UpdatedAt => Self::UpdatedAt,
        }
    }
}

/// A new audience.
#[derive(InputObject)]
pub struct CreateAudienceInput {
    /// The LINE OA it belongs to.
    line_oa_id: ID,
    /// The name shown, 1 to 100 characters, unique in the LINE OA.
    name: String,
    /// What it is for, up to 1000 characters.
    #[graphql(default)]
    description: String,
}

/// What of an audience is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateAudienceInput {
    /// A new name, 1 to 100 characters, unique in the LINE OA.
    name: Option<String>,
    /// A new description, up to 1000 characters.
    description: Option<String>,
}

/// Users to be put into an audience, or taken out.
#[derive(InputObject)]
pub struct AudienceMembersInput {
    /// The audience.
    audience_id: ID,
    /// LINE's ids of the users, 1 to 10,000: `U` and 32 lower-case hexadecimal digits each.
    user_ids: Vec<String>,
}

/// An audience and how many users were put into it.
#[derive(SimpleObject)]
pub struct AudienceMembersAdded {
    /// The audience.
    audience: Audience,
    /// How many of the users were not in it before.
    added: u64,
}

/// An audience and how many users were taken out of it.
#[derive(SimpleObject)]
pub struct AudienceMembersRemoved {
    /// The audience.
    audience: Audience,
    /// How many of the users were in it before.
    removed: u64,
}

/// Reads a page of audiences.
pub(super) fn read_audiences<'a>(
    ctx: &'a Context<'_>,
    line_oa_id: LineOaId,
    filter: Option<AudienceFilter>,
    order: Option<AudienceOrder>,
    paging: Paging,
) -> Listed<'a, Audience> {
    async move {
        let given = filter.unwrap_or_default();
        let name_contains = input::search("nameContains", given.name_contains)?;
        let filter = Filter { line_oa_id, name_contains };
        let sort = order
            .map_or_else(Default::default, |order| (order.field.into(), order.direction.into()));
        let request = page(ctx, paging)?;
        Ok(Connection::new(
            app(ctx).audiences(scope(ctx)?, &filter, sort, &request).await?,
            Audience,
        ))
    }
    .boxed()
}

/// Queries of audiences.
#[derive(Default)]
pub struct AudienceQuery;

#[Object]
impl AudienceQuery {
    /// The audience of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn audience(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Audience, Fault>> {
        let found = async { app(ctx).audience(scope(ctx)?, AudienceId::parse(&id)?).await };
        nullable(async { Ok(Audience(found.await?)) }).await
    }

    /// A LINE OA's audiences, by name unless ordered otherwise; none of one that the caller may not
    /// see.
    async fn audiences(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The LINE OA.")] line_oa_id: ID,
        #[graphql(desc = "Only these.")] filter: Option<AudienceFilter>,
        #[graphql(desc = "Their order.")] order: Option<AudienceOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Audience>> {
        let line_oa = named("lineOaId", &line_oa_id)?;
        read_audiences(ctx, line_oa, filter, order, (first, after, last, before)).await
    }
}

/// Mutations of audiences.
#[derive(Default)]
pub struct AudienceMutation;

#[Object]
impl AudienceMutation {
    /// Makes an audience, which is empty. Needs the maintainer or owner role in the project.
    async fn create_audience(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new audience.")] input: CreateAudienceInput,
    ) -> Result<Audience> {
        let caller = caller(ctx)?;
        let line_oa_id = LineOaId::parse(&input.line_oa_id)?;
        let new = CreateAudience { line_oa_id, name: input.name, description: input.description };
        Ok(Audience(app(ctx).create_audience(caller, new).await?))
    }

    /// Changes an audience and answers it as it is then. Needs the maintainer or owner role in the
    /// project.
    async fn update_audience(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateAudienceInput,
    ) -> Result<Audience> {
        let caller = caller(ctx)?;
        let update = UpdateAudience { name: input.name, description: input.description };
        Ok(Audience(app(ctx).update_audience(caller, AudienceId::parse(&id)?, update).await?))
    }

    /// Deletes an audience and answers it as it was. Needs the maintainer or owner role in the
    /// project. Its users stay known to the LINE OA.
    async fn delete_audience(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Audience> {
        let caller = caller(ctx)?;
        Ok(Audience(app(ctx).delete_audience(caller, AudienceId::parse(&id)?).await?))
    }

    /// Puts users into an audience, all of them or, when one of the ids is wrong, none. Needs the
    /// maintainer or owner role in the project. Users that are not known become so; who is in the
    /// audience already stays.
    async fn add_audience_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The audience and the users.")] input: AudienceMembersInput,
    ) -> Result<AudienceMembersAdded> {
        let caller = caller(ctx)?;
        let id = AudienceId::parse(&input.audience_id)?;
        let (audience, added) = app(ctx).add_audience_members(caller, id, &input.user_ids).await?;
        Ok(AudienceMembersAdded { audience: Audience(audience), added })
    }

    /// Takes users out of an audience, all of them or, when one of the ids is wrong, none. Needs
    /// the maintainer or owner role in the project. Who is not in it is passed over; users stay
    /// known.
    async fn remove_audience_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The audience and the users.")] input: AudienceMembersInput,
    ) -> Result<AudienceMembersRemoved> {
        let caller = caller(ctx)?;
        let id = AudienceId::parse(&input.audience_id)?;
        let (audience, removed) =
            app(ctx).remove_audience_members(caller, id, &input.user_ids).await?;
        Ok(AudienceMembersRemoved { audience: Audience(audience), removed })
    }
}

/// The audience of that id, loaded with those of its siblings; none when it was deleted.
pub(super) async fn load(ctx: &Context<'_>, id: AudienceId) -> Result<Option<Audience>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Audience))
}
