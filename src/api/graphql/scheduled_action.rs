//! Scheduled actions: what rules and workflow services have queued.

use async_graphql::{Context, ID, Json, Object};
use serde_json::Value;

use super::application::Application;
use super::backend::Backend;
use super::connection::Connection;
use super::context::{counted, loaders, narrow, nothing};
use super::delivery::Attempt;
use super::error::Fault;
use super::event::Event;
use super::line_oa::LineOa;
use super::line_user::LineUser;
use super::links::{self, Link};
use super::loaders::{AttemptsOf, CopiesOf};
use super::rule::TriggerRule;
use super::time::DateTime;
use super::trigger_log::{TriggerLog, TriggerLogFilter, TriggerLogOrder, read_trigger_logs};
use super::workflow::Workflow;
use crate::domain::delivery::ActionStatus;
use crate::domain::scheduled_action as domain;
use crate::error::Result;

mod query;

pub use query::*;

/// Queued work.
pub struct ScheduledAction(pub domain::ScheduledAction);

/// Work that a rule or a workflow service has queued: what is to be done, for whom, when. Deliveries
/// of triggers stand in the same queue, but are no scheduled actions here. Machine users see what is
/// for their application's backends.
#[Object]
impl ScheduledAction {
    /// The id: of a call of a backend its `webhook-id`, of a LINE message its retry key.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// What is done, for example `send_message`.
    async fn action_type(&self) -> &str {
        &self.0.action_type
    }

    /// The action's configuration as it was rendered when it was queued: a later change of the rule
    /// or of the user changes nothing in it.
    async fn action_config(&self) -> Json<&Value> {
        Json(match &self.0.config {
            domain::ActionConfig::Rendered(config) => config,
            domain::ActionConfig::Callback(_) => &Value::Null,
        })
    }

    /// The rule's source type; `workflow` of what a workflow service queued.
    async fn source_type(&self) -> Option<&str> {
        self.0.cause.source_type.as_deref()
    }

    /// The rule's source configuration when it was queued; none of what a workflow service queued.
    async fn source_config(&self) -> Option<Json<&Value>> {
        self.0.cause.source_config.as_ref().map(Json)
    }

    /// The rule's id, also when the rule was deleted since; none of what a workflow
    /// service queued.
    async fn trigger_rule_id(&self) -> Option<ID> {
        self.0.cause.trigger_rule_id.map(|id| id.to_string().into())
    }

    /// The rule as it is now, also when it was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule(&self, ctx: &Context<'_>) -> Link<TriggerRule> {
        links::rule(ctx, self.0.cause.trigger_rule_id).await
    }

    /// The rule's name now, also when the rule was deleted since; none when its LINE OA was, and for
    /// machine users.
    async fn trigger_rule_name(&self, ctx: &Context<'_>) -> Link<String> {
        links::rule_name(ctx, self.0.cause.trigger_rule_id).await
    }

    /// The id of the event that it answers, also when the event's retention has ended.
    async fn event_id(&self) -> Option<ID> {
        self.0.cause.event_id.map(|id| id.to_string().into())
    }

    /// The event that it answers; none when its retention has ended, and for machine users.
    async fn event(&self, ctx: &Context<'_>) -> Link<Event> {
        links::event(ctx, self.0.cause.event_id).await
    }

    /// What the event was about, for example a booking: a later event about it replaces the action
    /// while it waits.
    async fn subject(&self) -> Option<&str> {
        self.0.cause.subject.as_deref()
    }

    /// The LINE OA; none when it was deleted since, and for machine users.
    async fn line_oa(&self, ctx: &Context<'_>) -> Link<LineOa> {
        links::line_oa(ctx, self.0.concern.line_oa_id).await
    }

    /// LINE's id of the user that it concerns, if one.
    async fn user_id(&self) -> Option<&str> {
        self.0.concern.user_id.as_deref()
    }

    /// The user, as the LINE OA knows them; none when it does not, and for machine users.
    async fn user(&self, ctx: &Context<'_>) -> Link<LineUser> {
        links::line_user(ctx, self.0.concern.line_oa_id, self.0.concern.user_id.as_deref()).await
    }

    /// The workflow that it resumes, or that its rule is part of; none when it was deleted since.
    async fn workflow(&self, ctx: &Context<'_>) -> Link<Workflow> {
        links::workflow(ctx, self.0.cause.workflow_id).await
    }

    /// The node of the workflow.
    async fn workflow_node_path(&self) -> Option<&str> {
        self.0.cause.workflow_node_path.as_deref()
    }

    /// The application whose backends are called.
    async fn application(&self, ctx: &Context<'_>) -> Link<Application> {
        links::application(ctx, self.0.concern.application_id).await
    }

    /// The id of the backend that is called, also when the backend was deleted since; none until the
    /// call got its address.
    async fn backend_id(&self) -> Option<ID> {
        self.0.concern.backend_id.map(|id| id.to_string().into())
    }

    /// The backend that is called; none until the call got its address, and when it was deleted
    /// since.
    async fn backend(&self, ctx: &Context<'_>) -> Link<Backend> {
        links::backend(ctx, self.0.concern.backend_id).await
    }

    /// Of a copy the id of the call that it was copied from.
    async fn parent_id(&self) -> Option<ID> {
        self.0.parent_id.map(|id| id.to_string().into())
    }

    /// Of a copy the call that it was copied from; none when that one's retention has ended.
    async fn parent(&self, ctx: &Context<'_>) -> Link<ScheduledAction> {
        links::scheduled_action(ctx, self.0.parent_id).await
    }

    /// Of a call that went to several backends its copies, one for each backend but the first, the
    /// oldest first. Each is work of its own.
    async fn copies(&self, ctx: &Context<'_>) -> Result<Vec<ScheduledAction>, Fault> {
        let found = loaders(ctx)?.load_one(CopiesOf(self.0.id)).await?;
        Ok(counted(ctx, found)?.into_iter().map(ScheduledAction).collect())
    }

    /// Its state.
    async fn status(&self) -> ScheduledActionStatus {
        self.0.status.into()
    }

    /// Its attempts, the oldest first; of more than 1,000, or of more than 100 where much work
    /// is asked for at once, the newest. Those whose retention has ended are missing.
    async fn attempts(&self, ctx: &Context<'_>) -> Result<Vec<Attempt>, Fault> {
        let found = loaders(ctx)?.load_one(AttemptsOf(self.0.id)).await?;
        Ok(counted(ctx, found)?.into_iter().map(Attempt).collect())
    }

    /// How many attempts have ended.
    async fn attempt_count(&self) -> i32 {
        self.0.retry_count
    }

    /// When it is due: as the rule set it at first, after a failed attempt the next one's time. Of
    /// ended work when the last attempt was due.
    async fn execute_at(&self) -> DateTime {
        self.0.execute_at.into()
    }

    /// When the next attempt is due; none while an attempt is under way, and when it has ended.
    async fn next_attempt_at(&self) -> Option<DateTime> {
        (self.0.status == ActionStatus::Pending).then_some(self.0.execute_at.into())
    }

    /// From when no attempt starts any more.
    async fn expires_at(&self) -> Option<DateTime> {
        self.0.expires_at.map(Into::into)
    }

    /// What the last attempt failed with; of cancelled work why it was, as a code such as
    /// `rule_disabled` or `cancelled_by_request`.
    async fn last_error(&self) -> Option<&str> {
        self.0.last_error.as_deref()
    }

    /// When it was queued.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }

    /// When it ended; none before.
    async fn finished_at(&self) -> Option<DateTime> {
        self.0.executed_at.map(Into::into)
    }

    /// What the trigger log says of it, the latest row first unless ordered otherwise.
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
        if !narrow(&mut filter.scheduled_action_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_trigger_logs(ctx, filter, order, paging).await
    }
}
