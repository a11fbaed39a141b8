//! The trigger log of rules: what was evaluated and done, and why not.

use async_graphql::{Context, Enum, ID, InputObject, Json, Object};
use futures::FutureExt;
use serde_json::Value;

use super::application::Application;
use super::audience::Audience;
use super::backend::Backend;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{Paging, app, distinct, page, scope, wanted};
use super::event::Event;
use super::line_oa::LineOa;
use super::line_user::LineUser;
use super::links::{self, Link};
use super::rule::TriggerRule;
use super::scheduled_action::ScheduledAction;
use super::scheduled_trigger_execution::ScheduledTriggerExecution;
use super::time::DateTime;
use crate::app::TriggerLogFilter as Filter;
use crate::domain::id::{CycleId, EventId};
use crate::domain::input;
use crate::domain::page::Direction;
use crate::domain::trigger_log as domain;
use crate::error::Result;

/// A row of the trigger log.
pub struct TriggerLog(pub domain::TriggerLog);

impl TriggerLog {
    /// The event, unless the row is about a cycle.
    fn about_event(&self) -> Option<EventId> {
        self.0.event_id.filter(|_| self.0.trigger_on != domain::SCHEDULE)
    }

    /// The cycle whose walk wrote the row.
    fn of_cycle(&self) -> Option<CycleId> {
        let id = self.0.event_id.filter(|_| self.0.trigger_on == domain::SCHEDULE);
        id.map(|id| CycleId(id.0))
    }
}

/// One thing that happened to a rule or to what it queued: an event or a user of a cycle was
/// evaluated, an action was attempted, or due times were skipped. It says what was so at that time.
/// (Who changed what stands in the audit log.) Machine users see what was for their application's
/// backends.
#[Object]
impl TriggerLog {
    /// The row's number. Numbers are given before the commit: a row may appear after one with a greater
    /// number, so whoever polls in ascending order overlaps by some seconds, with `since`.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The rule's id, also when the rule was deleted since; none of what a workflow
    /// service queued.
    async fn trigger_rule_id(&self) -> Option<ID> {
        self.0.trigger_rule_id.map(|id| id.to_string().into())
    }

    /// The rule as it is now, also when it was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule(&self, ctx: &Context<'_>) -> Link<TriggerRule> {
        links::rule(ctx, self.0.trigger_rule_id).await
    }

    /// The rule's name now, also when the rule was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule_name(&self, ctx: &Context<'_>) -> Link<String> {
        links::rule_name(ctx, self.0.trigger_rule_id).await
    }

    /// The LINE OA; none when it was deleted since, and for machine users.
    async fn line_oa(&self, ctx: &Context<'_>) -> Link<LineOa> {
        links::line_oa(ctx, self.0.line_oa_id).await
    }

    /// The audience whose walk it was; none when it was deleted since.
    async fn audience(&self, ctx: &Context<'_>) -> Link<Audience> {
        links::audience(ctx, self.0.audience_id).await
    }

    /// LINE's id of the user that it concerns, if one.
    async fn user_id(&self) -> Option<&str> {
        self.0.user_id.as_deref()
    }

    /// The user, as the LINE OA knows them; none when it does not, and for machine users.
    async fn user(&self, ctx: &Context<'_>) -> Link<LineUser> {
        links::line_user(ctx, self.0.line_oa_id, self.0.user_id.as_deref()).await
    }

    /// The rule's source type; `workflow` of what a workflow service queued.
    async fn trigger_on(&self) -> &str {
        &self.0.trigger_on
    }

    /// The action's type as it was.
    async fn action_type(&self) -> Option<&str> {
        self.0.action_type.as_deref()
    }

    /// The action's configuration as it was: rendered where the action was queued. Of skipped due
    /// times how many they were, and from when until when.
    async fn action_config(&self) -> Option<Json<&Value>> {
        self.0.action_config.as_ref().map(Json)
    }

    /// What happened.
    async fn status(&self) -> TriggerLogStatus {
        self.0.status.into()
    }

    /// A code for why: the gate that held it back, such as `frequency`, or what went wrong, such as
    /// `timeout`.
    async fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// Why, in words.
    async fn error_message(&self) -> Option<&str> {
        self.0.error_message.as_deref()
    }

    /// Until when it was held back, where that is known.
    async fn held_until(&self) -> Option<DateTime> {
        self.0.held_until.map(Into::into)
    }

    /// The event's id, also when the event's retention has ended: ours, not the sender's.
    async fn event_id(&self) -> Option<ID> {
        self.about_event().map(|id| id.to_string().into())
    }

    /// The event; none when its retention has ended, and for machine users.
    async fn event(&self, ctx: &Context<'_>) -> Link<Event> {
        links::event(ctx, self.about_event()).await
    }

    /// The cycle in which it was evaluated, of a time-based rule; none when its retention has ended,
    /// and for machine users.
    async fn execution(&self, ctx: &Context<'_>) -> Link<ScheduledTriggerExecution> {
        links::execution(ctx, self.of_cycle()).await
    }

    /// The id of the work that was queued or attempted, also when its retention has ended.
    async fn scheduled_action_id(&self) -> Option<ID> {
        self.0.scheduled_action_id.map(|id| id.to_string().into())
    }

    /// The work that was queued or attempted; none when its retention has ended.
    async fn scheduled_action(&self, ctx: &Context<'_>) -> Link<ScheduledAction> {
        links::scheduled_action(ctx, self.0.scheduled_action_id).await
    }

    /// The application whose backends are called; none when it was deleted since.
    async fn application(&self, ctx: &Context<'_>) -> Link<Application> {
        links::application(ctx, self.0.application_id).await
    }

    /// The id of the backend that was called, also when the backend was deleted since.
    async fn backend_id(&self) -> Option<ID> {
        self.0.backend_id.map(|id| id.to_string().into())
    }

    /// The backend that was called; none when it was deleted since.
    async fn backend(&self, ctx: &Context<'_>) -> Link<Backend> {
        links::backend(ctx, self.0.backend_id).await
    }

    /// The attempt's number, from 1; none of what is no attempt.
    async fn attempt(&self) -> Option<i32> {
        self.0.attempt
    }

    /// The HTTP status of the answer; none without one.
    async fn response_status(&self) -> Option<i16> {
        self.0.response_status
    }

    /// How long the attempt took, in milliseconds.
    async fn duration_ms(&self) -> Option<i32> {
        self.0.duration_ms
    }

    /// What the LINE platform calls the request.
    async fn platform_request_id(&self) -> Option<&str> {
        self.0.platform_request_id.as_deref()
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime {
        self.0.created_date.into()
    }
}

/// What a row of the trigger log says.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::LogStatus")]
pub enum TriggerLogStatus {
    /// The rule accepted what happened; its action is queued.
    Queued,
    /// The rule did not accept it; the reason is the gate that held it back.
    HeldBack,
    /// The rule accepted it, but its action could not be made.
    Failed,
    /// Due times were not worked off.
    Skipped,
    /// An attempt succeeded.
    Success,
    /// An attempt did not.
    Error,
}

/// Which rows of the trigger log are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct TriggerLogFilter {
    /// Only those of this LINE OA.
    pub(super) line_oa_id: Option<ID>,
    /// Only those of this rule, which may have been deleted.
    pub(super) trigger_rule_id: Option<ID>,
    /// Only those about this user.
    pub(super) user_id: Option<String>,
    /// Only those about this event (our id of it, not the sender's), or of the walk of this cycle.
    pub(super) event_id: Option<ID>,
    /// Only those about this work.
    pub(super) scheduled_action_id: Option<ID>,
    /// Only those that say one of these; an empty list is as good as none.
    pub(super) statuses: Option<Vec<TriggerLogStatus>>,
    /// Only those with this reason, for example `frequency`.
    pub(super) reason: Option<String>,
    /// Only those written at this time or later.
    pub(super) since: Option<DateTime>,
    /// Only those written before this time.
    pub(super) until: Option<DateTime>,
}

/// The order of the trigger log.
#[derive(InputObject)]
pub struct TriggerLogOrder {
    /// By what.
    #[graphql(default_with = "TriggerLogOrderField::CreatedAt")]
    field: TriggerLogOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What the trigger log is ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum TriggerLogOrderField {
    /// The order of writing.
    CreatedAt,
}

/// Reads a page of the trigger log.
pub(super) fn read_trigger_logs<'a>(
    ctx: &'a Context<'_>,
    filter: TriggerLogFilter,
    order: Option<TriggerLogOrder>,
    paging: Paging,
) -> Listed<'a, TriggerLog> {
    async move {
        let (scope, work) = (scope(ctx)?, filter.scheduled_action_id);
        let filter = Filter {
            line_oa_id: wanted("lineOaId", filter.line_oa_id)?,
            trigger_rule_id: wanted("triggerRuleId", filter.trigger_rule_id)?,
            user_id: input::search("userId", filter.user_id)?,
            event_id: wanted("eventId", filter.event_id)?,
            scheduled_action_id: wanted("scheduledActionId", work)?,
            statuses: distinct(filter.statuses),
            reason: input::search("reason", filter.reason)?,
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page = app(ctx).trigger_logs(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, TriggerLog))
    }
    .boxed()
}

/// Queries of the trigger log.
#[derive(Default)]
pub struct TriggerLogQuery;

#[Object]
impl TriggerLogQuery {
    /// The trigger log of all rules that the caller may see, the latest row first unless ordered
    /// otherwise. Machine users see what was for their application's backends.
    async fn trigger_logs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerLogFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerLogOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<TriggerLog>> {
        let filter = filter.unwrap_or_default();
        read_trigger_logs(ctx, filter, order, (first, after, last, before)).await
    }
}
