//! Cycles: the due times of time-based rules, and how far their audiences have been walked.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use futures::FutureExt;

use super::audience::Audience;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{Paging, app, distinct, narrow, nothing, page, scope, wanted};
use super::error::{Fault, nullable};
use super::line_oa::LineOa;
use super::links::{self, Link};
use super::rule::TriggerRule;
use super::time::DateTime;
use super::trigger_log::{TriggerLog, TriggerLogFilter, TriggerLogOrder, read_trigger_logs};
use crate::app::CycleFilter as Filter;
use crate::domain::cycle as domain;
use crate::domain::id::CycleId;
use crate::domain::page::Direction;
use crate::error::Result;

/// A cycle.
pub struct ScheduledTriggerExecution(pub domain::Cycle);

/// One due time of a time-based rule: its audience is walked, and each user is evaluated once. Its
/// numbers move while that is under way. Machine users see none.
#[Object]
impl ScheduledTriggerExecution {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The rule's id, also when the rule was deleted since.
    async fn trigger_rule_id(&self) -> ID {
        self.0.trigger_rule_id.to_string().into()
    }

    /// The rule as it is now, also when it was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule(&self, ctx: &Context<'_>) -> Link<TriggerRule> {
        links::rule(ctx, Some(self.0.trigger_rule_id)).await
    }

    /// The rule's name now, also when the rule was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule_name(&self, ctx: &Context<'_>) -> Link<String> {
        links::rule_name(ctx, Some(self.0.trigger_rule_id)).await
    }

    /// The rule's LINE OA.
    async fn line_oa(&self, ctx: &Context<'_>) -> Link<LineOa> {
        links::line_oa(ctx, Some(self.0.line_oa_id)).await
    }

    /// The id of the audience that is walked, also when the audience was deleted since.
    async fn audience_id(&self) -> ID {
        self.0.audience_id.to_string().into()
    }

    /// The audience that is walked, as the rule named it when the cycle began; none when it was
    /// deleted since.
    async fn audience(&self, ctx: &Context<'_>) -> Link<Audience> {
        links::audience(ctx, Some(self.0.audience_id)).await
    }

    /// The due time.
    async fn scheduled_at(&self) -> DateTime {
        self.0.scheduled_at.into()
    }

    /// When an executor began it.
    async fn started_at(&self) -> DateTime {
        self.0.started_at.into()
    }

    /// When it ended; none while it is walked.
    async fn completed_at(&self) -> Option<DateTime> {
        self.0.completed_at.map(Into::into)
    }

    /// Its state.
    async fn status(&self) -> ScheduledTriggerExecutionStatus {
        self.0.status.into()
    }

    /// How many users the audience had when it began.
    async fn total_users(&self) -> i32 {
        self.0.total_users
    }

    /// How many users were handled so far: their action was queued, or held back with its reason.
    async fn processed_users(&self) -> i32 {
        self.0.processed_users
    }

    /// How many of them could not be handled; the log says why.
    async fn failed_users(&self) -> i32 {
        self.0.failed_users
    }

    /// Why it failed or was cancelled.
    async fn error_message(&self) -> Option<&str> {
        self.0.error_message.as_deref()
    }

    /// What was evaluated, user by user, the latest row first unless ordered otherwise. The attempts
    /// of what was queued stand in the logs of the actions.
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
        if !narrow(&mut filter.event_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_trigger_logs(ctx, filter, order, paging).await
    }
}

/// A cycle's state.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::CycleStatus")]
pub enum ScheduledTriggerExecutionStatus {
    /// Its audience is being walked.
    Processing,
    /// Every user of the audience was handled.
    Completed,
    /// It could not be walked to the end; the error message says why.
    Failed,
    /// Its rule was disabled or deleted while it was walked.
    Cancelled,
}

/// Which cycles are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct ScheduledTriggerExecutionFilter {
    /// Only those of this LINE OA.
    pub(super) line_oa_id: Option<ID>,
    /// Only those of this rule, which may have been deleted.
    pub(super) trigger_rule_id: Option<ID>,
    /// Only those in one of these states; an empty list is as good as none.
    pub(super) statuses: Option<Vec<ScheduledTriggerExecutionStatus>>,
    /// Only those due at this time or later.
    pub(super) since: Option<DateTime>,
    /// Only those due before this time.
    pub(super) until: Option<DateTime>,
}

/// The order of a list of cycles.
#[derive(InputObject)]
pub struct ScheduledTriggerExecutionOrder {
    /// By what.
    #[graphql(default_with = "ScheduledTriggerExecutionOrderField::ScheduledAt")]
    field: ScheduledTriggerExecutionOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What cycles are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ScheduledTriggerExecutionOrderField {
    /// The due time.
    ScheduledAt,
}

/// Reads a page of cycles.
pub(super) fn read_executions<'a>(
    ctx: &'a Context<'_>,
    filter: ScheduledTriggerExecutionFilter,
    order: Option<ScheduledTriggerExecutionOrder>,
    paging: Paging,
) -> Listed<'a, ScheduledTriggerExecution> {
    async move {
        let scope = scope(ctx)?;
        let filter = Filter {
            line_oa_id: wanted("lineOaId", filter.line_oa_id)?,
            trigger_rule_id: wanted("triggerRuleId", filter.trigger_rule_id)?,
            statuses: distinct(filter.statuses),
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page = app(ctx).cycles(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, ScheduledTriggerExecution))
    }
    .boxed()
}

/// Queries of cycles.
#[derive(Default)]
pub struct ScheduledTriggerExecutionQuery;

#[Object]
impl ScheduledTriggerExecutionQuery {
    /// The cycle of that id. `NOT_FOUND` when there is none that the caller may see, or when its
    /// retention has ended. Machine users see none.
    async fn scheduled_trigger_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<ScheduledTriggerExecution, Fault>> {
        let found = async { app(ctx).cycle(scope(ctx)?, CycleId::parse(&id)?).await };
        nullable(async { Ok(ScheduledTriggerExecution(found.await?)) }).await
    }

    /// Cycles of time-based rules that the caller may see, the latest due time first unless ordered
    /// otherwise. Machine users see none.
    async fn scheduled_trigger_executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<ScheduledTriggerExecutionFilter>,
        #[graphql(desc = "Their order.")] order: Option<ScheduledTriggerExecutionOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<ScheduledTriggerExecution>> {
        let filter = filter.unwrap_or_default();
        read_executions(ctx, filter, order, (first, after, last, before)).await
    }
}
