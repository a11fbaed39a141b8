//! Finding scheduled actions, and the two changes that people make to them.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use futures::FutureExt;

use super::ScheduledAction;
use crate::api::graphql::connection::{Connection, Listed, OrderDirection};
use crate::api::graphql::context::{Paging, app, caller, distinct, page, scope, wanted};
use crate::api::graphql::error::{Fault, nullable};
use crate::api::graphql::time::DateTime;
use crate::app::{ScheduledActionFilter as Filter, known_action_type};
use crate::domain::delivery as domain;
use crate::domain::id::ScheduledActionId;
use crate::domain::input;
use crate::domain::page::Direction;
use crate::error::Result;

/// A scheduled action's state.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::ActionStatus")]
pub enum ScheduledActionStatus {
    /// It waits for its time, or for its next attempt.
    Pending,
    /// An attempt is under way.
    Processing,
    /// Done.
    Completed,
    /// Given up: its budget ended, or another attempt would end the same way.
    Failed,
    /// Its time had passed before it was tried.
    Expired,
    /// Taken back before it was done.
    Cancelled,
}

/// Which scheduled actions are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct ScheduledActionFilter {
    /// Only those of this LINE OA.
    pub(in crate::api::graphql) line_oa_id: Option<ID>,
    /// Only those that this rule queued, which may have been deleted.
    pub(in crate::api::graphql) trigger_rule_id: Option<ID>,
    /// Only those that answer this event: our id of it, not the sender's.
    pub(in crate::api::graphql) event_id: Option<ID>,
    /// Only those that concern this user.
    pub(in crate::api::graphql) user_id: Option<String>,
    /// Only those that resume this workflow, or that are part of it.
    pub(in crate::api::graphql) workflow_id: Option<ID>,
    /// Only those for this application's backends.
    pub(in crate::api::graphql) application_id: Option<ID>,
    /// Only those of this action type, for example `send_message`.
    pub(in crate::api::graphql) action_type: Option<String>,
    /// Only those in one of these states; an empty list is as good as none.
    pub(in crate::api::graphql) statuses: Option<Vec<ScheduledActionStatus>>,
    /// Only those queued at this time or later.
    pub(in crate::api::graphql) since: Option<DateTime>,
    /// Only those queued before this time.
    pub(in crate::api::graphql) until: Option<DateTime>,
    /// Only those that ended at this time or later.
    pub(in crate::api::graphql) finished_since: Option<DateTime>,
    /// Only those that ended before this time.
    pub(in crate::api::graphql) finished_until: Option<DateTime>,
}

/// The order of a list of scheduled actions.
#[derive(InputObject)]
pub struct ScheduledActionOrder {
    /// By what.
    #[graphql(default_with = "ScheduledActionOrderField::CreatedAt")]
    field: ScheduledActionOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What scheduled actions are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ScheduledActionOrderField {
    /// The time of queueing.
    CreatedAt,
}

/// Reads a page of scheduled actions.
pub(in crate::api::graphql) fn read_scheduled_actions<'a>(
    ctx: &'a Context<'_>,
    filter: ScheduledActionFilter,
    order: Option<ScheduledActionOrder>,
    paging: Paging,
) -> Listed<'a, ScheduledAction> {
    async move {
        let scope = scope(ctx)?;
        let filter = Filter {
            line_oa_id: wanted("lineOaId", filter.line_oa_id)?,
            trigger_rule_id: wanted("triggerRuleId", filter.trigger_rule_id)?,
            event_id: wanted("eventId", filter.event_id)?,
            user_id: input::search("userId", filter.user_id)?,
            workflow_id: wanted("workflowId", filter.workflow_id)?,
            application_id: wanted("applicationId", filter.application_id)?,
            action_type: filter.action_type.map(known_action_type).transpose()?,
            statuses: distinct(filter.statuses),
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
            finished_since: filter.finished_since.map(Into::into),
            finished_until: filter.finished_until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page =
            app(ctx).scheduled_actions(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, ScheduledAction))
    }
    .boxed()
}

/// Queries of scheduled actions.
#[derive(Default)]
pub struct ScheduledActionQuery;

#[Object]
impl ScheduledActionQuery {
    /// The scheduled action of that id. `NOT_FOUND` when there is none that the caller may see, when
    /// its retention has ended, and for the delivery of a trigger.
    async fn scheduled_action(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<ScheduledAction, Fault>> {
        let found =
            async { app(ctx).scheduled_action(scope(ctx)?, ScheduledActionId::parse(&id)?).await };
        nullable(async { Ok(ScheduledAction(found.await?)) }).await
    }

    /// Scheduled actions that the caller may see, the latest queued first unless ordered otherwise.
    /// Machine users see what is for their application's backends.
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
        let filter = filter.unwrap_or_default();
        read_scheduled_actions(ctx, filter, order, (first, after, last, before)).await
    }
}

/// Mutations of scheduled actions.
#[derive(Default)]
pub struct ScheduledActionMutation;

#[Object]
impl ScheduledActionMutation {
    /// Takes a scheduled action back that waits or is being done, and answers it as it is then. Needs
    /// the maintainer or owner role in the project. An attempt under way is not stopped, but what
    /// comes of it changes nothing. The copies of a call that went to several backends are taken back
    /// with it, as far as they have not ended. `CONFLICT` when it has ended, and its copies too.
    async fn cancel_scheduled_action(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<ScheduledAction> {
        let caller = caller(ctx)?;
        let id = ScheduledActionId::parse(&id)?;
        Ok(ScheduledAction(app(ctx).cancel_scheduled_action(caller, id).await?))
    }

    /// Makes a scheduled action that ended as failed, expired or cancelled due again, with a fresh
    /// budget, and answers it as it is then. Needs the maintainer or owner role in the project. Its
    /// id stays the same: backends see the same `webhook-id`, and a LINE message has the same retry
    /// key. A call of a backend gets `dispatch.retry.max_age`, all other work the same, but at most 23
    /// hours; a message that an earlier attempt may have sent is tried until 23 hours after that, since
    /// the LINE platform remembers a key for 24. `CONFLICT` in any other state, when those 23 hours are
    /// over, and when its rule, workflow, LINE OA, application or backend was deleted since. The copies
    /// of a call that went to several backends are not included: each is retried by its own id.
    async fn retry_scheduled_action(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<ScheduledAction> {
        let caller = caller(ctx)?;
        let id = ScheduledActionId::parse(&id)?;
        Ok(ScheduledAction(app(ctx).retry_scheduled_action(caller, id).await?))
    }
}
