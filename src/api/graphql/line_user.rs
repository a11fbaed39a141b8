//! The users that LINE OAs know.

use async_graphql::{Context, Enum, ID, InputObject, Json, Object};
use futures::FutureExt;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::connection::{Connection, Listed};
use super::context::{
    Paging, app, caller, loaders, named, narrow, narrow_user, nothing, page, scope, wanted,
};
use super::error::{Fault, nullable};
use super::event::{Event, EventFilter, EventOrder, read_events};
use super::line_oa::LineOa;
use super::scheduled_action::{
    ScheduledAction, ScheduledActionFilter, ScheduledActionOrder, read_scheduled_actions,
};
use super::time::DateTime;
use super::trigger_log::{TriggerLog, TriggerLogFilter, TriggerLogOrder, read_trigger_logs};
use crate::app::LineUserFilter as Filter;
use crate::domain::id::LineOaId;
use crate::domain::input;
use crate::domain::line as domain;
use crate::error::Result;

/// A user of a LINE OA.
pub struct LineUser(pub domain::LineUser);

/// A user as one LINE OA knows them.
#[Object]
impl LineUser {
    /// LINE's id of the user: `U` and 32 hexadecimal digits. The same person has another one with
    /// the accounts of another provider.
    async fn user_id(&self) -> &str {
        &self.0.user_id
    }

    /// The LINE OA.
    async fn line_oa(&self, ctx: &Context<'_>) -> Result<LineOa, Fault> {
        super::line_oa::load(ctx, self.0.line_oa_id).await
    }

    /// Whether the user is a friend of the account.
    async fn follow_state(&self) -> FollowState {
        self.0.follow_state.into()
    }

    /// What is known of the user, by name.
    async fn attributes(&self) -> Json<&Map<String, Value>> {
        Json(&self.0.attributes)
    }

    /// When the user last became a friend; none when the platform did not tell of it.
    async fn followed_at(&self) -> Option<DateTime> {
        self.0.followed_at.map(Into::into)
    }

    /// When the user last blocked the account; none when the platform did not tell of it.
    async fn unfollowed_at(&self) -> Option<DateTime> {
        self.0.unfollowed_at.map(Into::into)
    }

    /// What happened to the user here, the latest first unless ordered otherwise.
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<EventFilter>,
        #[graphql(desc = "Their order.")] order: Option<EventOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Event>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        if !narrow_user(&mut filter.user_id, &self.0.user_id) {
            return nothing(ctx, paging);
        }
        read_events(ctx, self.0.line_oa_id, filter, order, paging).await
    }

    /// What rules and workflow services have queued for the user here, the latest first unless
    /// ordered otherwise.
    async fn scheduled_actions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<ScheduledActionFilter>,
        #[graphql(desc = "Their order.")] order: Option<ScheduledActionOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<ScheduledAction>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        let of_this = narrow(&mut filter.line_oa_id, self.0.line_oa_id);
        if !(of_this && narrow_user(&mut filter.user_id, &self.0.user_id)) {
            return nothing(ctx, paging);
        }
        read_scheduled_actions(ctx, filter, order, paging).await
    }

    /// What the trigger log of this LINE OA says of the user, the latest row first unless ordered
    /// otherwise.
    async fn logs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerLogFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerLogOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<TriggerLog>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        let of_this = narrow(&mut filter.line_oa_id, self.0.line_oa_id);
        if !(of_this && narrow_user(&mut filter.user_id, &self.0.user_id)) {
            return nothing(ctx, paging);
        }
        read_trigger_logs(ctx, filter, order, paging).await
    }

    /// When the user became known.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When anything of the user last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// Whether a user is a friend of an account.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::FollowState")]
pub enum FollowState {
    /// The platform said nothing yet.
    Unknown,
    /// The user added the account, and did not block it since.
    Following,
    /// The user blocked the account.
    Blocked,
}

/// Which users are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct LineUserFilter {
    /// Only those in this state.
    follow_state: Option<FollowState>,
    /// Only those in this audience of the LINE OA.
    audience_id: Option<ID>,
    /// Only those with this text in the user id, whatever its case.
    user_id_contains: Option<String>,
}

/// What of a user is to change.
#[derive(InputObject)]
pub struct SetLineUserAttributesInput {
    /// The LINE OA.
    line_oa_id: ID,
    /// LINE's id of the user: `U` and 32 lower-case hexadecimal digits.
    user_id: String,
    /// A JSON object: each of its keys is set, null takes one away, and the other attributes stay.
    /// At most 200 attributes with names of at most 100 characters and 32 KiB of JSON may come of
    /// it.
    attributes: Json<Value>,
}

/// Reads a page of users.
pub(super) fn read_line_users<'a>(
    ctx: &'a Context<'_>,
    line_oa: LineOaId,
    filter: Option<LineUserFilter>,
    paging: Paging,
) -> Listed<'a, LineUser> {
    async move {
        let given = filter.unwrap_or_default();
        let filter = Filter {
            follow_state: given.follow_state.map(Into::into),
            audience_id: wanted("audienceId", given.audience_id)?,
            user_id_contains: input::search("userIdContains", given.user_id_contains)?,
        };
        let (scope, request) = (scope(ctx)?, page(ctx, paging)?);
        let page = app(ctx).line_users(scope, line_oa, &filter, &request).await?;
        Ok(Connection::new(page, LineUser))
    }
    .boxed()
}

/// Queries of users of LINE OAs.
#[derive(Default)]
pub struct LineUserQuery;

#[Object]
impl LineUserQuery {
    /// A user of a LINE OA. `NOT_FOUND` when the account does not know the user, or the caller may
    /// not see the account.
    async fn line_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The LINE OA.")] line_oa_id: ID,
        #[graphql(desc = "LINE's id of the user.")] user_id: String,
    ) -> Option<Result<LineUser, Fault>> {
        let found = async {
            let scope = scope(ctx)?;
            // Whatever is no id names no account, and so no user of it.
            let line_oa = line_oa_id.parse().unwrap_or(LineOaId(Uuid::nil()));
            app(ctx).line_user(scope, (line_oa, &user_id)).await
        };
        nullable(async { Ok(LineUser(found.await?)) }).await
    }

    /// A LINE OA's users, by user id; none of one that the caller may not see.
    async fn line_users(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The LINE OA.")] line_oa_id: ID,
        #[graphql(desc = "Only these.")] filter: Option<LineUserFilter>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<LineUser>> {
        let line_oa = named("lineOaId", &line_oa_id)?;
        read_line_users(ctx, line_oa, filter, (first, after, last, before)).await
    }
}

/// Mutations of users of LINE OAs.
#[derive(Default)]
pub struct LineUserMutation;

#[Object]
impl LineUserMutation {
    /// Changes what is known of a user, and answers the user as it is then. Needs the maintainer or
    /// owner role in the project. A user that is not known becomes so. Each attribute that really
    /// changes is an event that trigger rules meet.
    async fn set_line_user_attributes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Whose attributes, and what is to change.")]
        input: SetLineUserAttributesInput,
    ) -> Result<LineUser> {
        let caller = caller(ctx)?;
        let user = (LineOaId::parse(&input.line_oa_id)?, input.user_id.as_str());
        let Json(attributes) = input.attributes;
        Ok(LineUser(app(ctx).set_line_user_attributes(caller, user, attributes).await?))
    }
}

/// The user of that id, loaded with those of its siblings; none when it is not known.
pub(super) async fn load(
    ctx: &Context<'_>,
    key: (LineOaId, String),
) -> Result<Option<LineUser>, Fault> {
    Ok(loaders(ctx)?.load_one(key).await?.map(LineUser))
}
