//! Trigger rules.

use async_graphql::{Context, Enum, ID, InputObject, Json, Object};
use futures::FutureExt;
use serde_json::Value;

use super::audience::Audience;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{Paging, app, caller, narrow, nothing, page, scope, wanted};
use super::error::{Fault, nullable};
use super::line_oa::LineOa;
use super::rule_input::{CreateTriggerRuleInput, UpdateTriggerRuleInput};
use super::scheduled_action::{
    ScheduledAction, ScheduledActionFilter, ScheduledActionOrder, read_scheduled_actions,
};
use super::scheduled_trigger_execution::{
    ScheduledTriggerExecution, ScheduledTriggerExecutionFilter, ScheduledTriggerExecutionOrder,
    read_executions,
};
use super::time::DateTime;
use super::trigger_log::{TriggerLog, TriggerLogFilter, TriggerLogOrder, read_trigger_logs};
use super::workflow::Workflow;
use crate::app::{
    TriggerRuleFilter as Filter, TriggerRuleSort, known_action_type, known_source_type, timetable,
};
use crate::domain::id::{LineOaId, TriggerRuleId, WorkflowId};
use crate::domain::input;
use crate::domain::rule as domain;
use crate::error::Result;

/// A trigger rule.
pub struct TriggerRule(pub domain::TriggerRule);

/// When something happens to a user of a LINE OA, something is done, never more often than
/// allowed. Machine users see none.
#[Object]
impl TriggerRule {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The LINE OA whose events it meets.
    async fn line_oa(&self, ctx: &Context<'_>) -> Result<LineOa, Fault> {
        super::line_oa::load(ctx, self.0.line_oa_id).await
    }

    /// The name shown; need not be unique.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for, up to 1000 characters.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// What it waits for: a source type of the catalog.
    async fn source_type(&self) -> &str {
        &self.0.source_type
    }

    /// The source's parameters, in camelCase, as the source type's schema says.
    async fn source_config(&self) -> Json<&Value> {
        Json(&self.0.source_config)
    }

    /// What it does: an action type of the catalog.
    async fn action_type(&self) -> &str {
        &self.0.action_type
    }

    /// The action's parameters, in camelCase, as the action type's schema says.
    async fn action_config(&self) -> Json<&Value> {
        Json(&self.0.action_config)
    }

    /// Whether it fires.
    async fn enabled(&self) -> bool {
        self.0.enabled
    }

    /// How often it may fire for one user, or at all for events without a user.
    async fn frequency(&self) -> TriggerRuleFrequency {
        self.0.frequency.into()
    }

    /// The shortest time between two firings for one user. Of it and the frequency the longer
    /// holds.
    async fn cooldown_seconds(&self) -> i32 {
        self.0.cooldown_seconds
    }

    /// The workflow that it is part of; none also when that was deleted.
    async fn workflow(&self, ctx: &Context<'_>) -> Option<Result<Workflow, Fault>> {
        super::workflow::load(ctx, self.0.workflow_id?).await.transpose()
    }

    /// The node of the workflow.
    async fn workflow_node_path(&self) -> Option<&str> {
        self.0.workflow_node_path.as_deref()
    }

    /// Of a rule by the schedule: for whose users it fires; none also when that was deleted.
    async fn audience(&self, ctx: &Context<'_>) -> Option<Result<Audience, Fault>> {
        let timetable = timetable(&self.0)?;
        super::audience::load(ctx, timetable.audience_id).await.transpose()
    }

    /// Of a rule by the schedule: the schedule in words.
    async fn schedule_description(&self) -> Option<String> {
        Some(timetable(&self.0)?.schedule.describe())
    }

    /// Of a rule by the schedule: the IANA time zone that the schedule is read in.
    async fn effective_time_zone(&self, ctx: &Context<'_>) -> Option<String> {
        let zone = timetable(&self.0)?.zone;
        Some(zone.as_ref().unwrap_or(&app(ctx).zone).name().to_owned())
    }

    /// Of a rule by the schedule: when it is due next; none while disabled.
    async fn next_fire_at(&self) -> Option<DateTime> {
        self.0.next_fire_at.map(Into::into)
    }

    /// What the trigger log says of the rule, the latest row first unless ordered otherwise: what was
    /// evaluated, with the reason, and the attempts.
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
        if !narrow(&mut filter.trigger_rule_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_trigger_logs(ctx, filter, order, paging).await
    }

    /// What the rule has queued, the latest first unless ordered otherwise.
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
        if !narrow(&mut filter.trigger_rule_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_scheduled_actions(ctx, filter, order, paging).await
    }

    /// Of a rule by the schedule: its cycles, the latest due time first unless ordered otherwise.
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<ScheduledTriggerExecutionFilter>,
        #[graphql(desc = "Their order.")] order: Option<ScheduledTriggerExecutionOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<ScheduledTriggerExecution>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        if !narrow(&mut filter.trigger_rule_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_executions(ctx, filter, order, paging).await
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_date.into()
    }

    /// When it was last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_date.into()
    }

    /// When it was deleted: history still names it.
    async fn deleted_at(&self) -> Option<DateTime> {
        self.0.deleted_date.map(Into::into)
    }
}

/// How often a rule may fire for one user, or at all for events without a user. Windows begin at
/// the last firing that was accepted, not at midnight.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::Frequency")]
pub enum TriggerRuleFrequency {
    /// As often as it happens.
    EveryTime,
    /// Never again.
    Once,
    /// Once in 60 minutes.
    OncePerHour,
    /// Once in 24 hours.
    OncePerDay,
    /// Once in 7 days.
    OncePerWeek,
    /// Once in 30 days.
    OncePerMonth,
}

/// Which rules are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct TriggerRuleFilter {
    /// Only enabled ones, or only disabled ones.
    enabled: Option<bool>,
    /// Only those that wait for this, one of `catalog`'s source types.
    source_type: Option<String>,
    /// Only those that do this, one of `catalog`'s action types.
    action_type: Option<String>,
    /// Only those that are part of this workflow.
    workflow_id: Option<ID>,
    /// Only those with this text in the name, whatever its case.
    name_contains: Option<String>,
}

/// The order of a list of rules.
#[derive(InputObject)]
pub struct TriggerRuleOrder {
    /// By what.
    field: TriggerRuleOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What rules are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum TriggerRuleOrderField {
    /// The time of creation.
    CreatedAt,
    /// The name.
    Name,
    /// The time of the last change.
    UpdatedAt,
}

impl From<TriggerRuleOrderField> for TriggerRuleSort {
    fn from(field: TriggerRuleOrderField) -> Self {
        match field {
            TriggerRuleOrderField::CreatedAt => Self::CreatedDate,
            TriggerRuleOrderField::Name => Self::Name,
            TriggerRuleOrderField::UpdatedAt => Self::UpdatedDate,
        }
    }
}

/// What a list of rules is a part of.
#[derive(Clone, Copy, Default)]
pub(super) struct RulesOf {
    pub line_oa: Option<LineOaId>,
    pub workflow: Option<WorkflowId>,
}

/// Reads a page of rules.
pub(super) fn read_rules<'a>(
    ctx: &'a Context<'_>,
    of: RulesOf,
    filter: Option<TriggerRuleFilter>,
    order: Option<TriggerRuleOrder>,
    paging: Paging,
) -> Listed<'a, TriggerRule> {
    async move {
        let given = filter.unwrap_or_default();
        let workflow = wanted("workflowId", given.workflow_id)?;
        let request = page(ctx, paging)?;
        let scope = scope(ctx)?;
        if of.workflow.is_some() && workflow.is_some() && of.workflow != workflow {
            return Ok(Connection::new(crate::domain::page::Page::empty(&request), TriggerRule));
        }
        let filter = Filter {
            line_oa_id: of.line_oa,
            enabled: given.enabled,
            source_type: given.source_type.map(known_source_type).transpose()?,
            action_type: given.action_type.map(known_action_type).transpose()?,
            workflow_id: of.workflow.or(workflow),
            name_contains: input::search("nameContains", given.name_contains)?,
        };
        let sort = order
            .map_or_else(Default::default, |order| (order.field.into(), order.direction.into()));
        let page = app(ctx).trigger_rules(scope, &filter, sort, &request).await?;
        Ok(Connection::new(page, TriggerRule))
    }
    .boxed()
}

/// Queries of trigger rules.
#[derive(Default)]
pub struct TriggerRuleQuery;

#[Object]
impl TriggerRuleQuery {
    /// The trigger rule of that id. `NOT_FOUND` when there is none that the caller may see, or it
    /// was deleted.
    async fn trigger_rule(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<TriggerRule, Fault>> {
        let found = async { app(ctx).trigger_rule(scope(ctx)?, TriggerRuleId::parse(&id)?).await };
        nullable(async { Ok(TriggerRule(found.await?)) }).await
    }

    /// Trigger rules that the caller may see, the oldest first unless ordered otherwise; deleted
    /// ones are left out. Machine users see none.
    async fn trigger_rules(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this LINE OA.")] line_oa_id: Option<ID>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerRuleFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerRuleOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<TriggerRule>> {
        let line_oa = wanted("lineOaId", line_oa_id)?;
        let of = RulesOf { line_oa, workflow: None };
        read_rules(ctx, of, filter, order, (first, after, last, before)).await
    }
}

/// Mutations of trigger rules.
#[derive(Default)]
pub struct TriggerRuleMutation;

#[Object]
impl TriggerRuleMutation {
    /// Makes a trigger rule. Needs the maintainer or owner role in the project. Unless enabled, it
    /// does not fire until it is. What does not fit is refused with the path of what is wrong, for
    /// example `actionConfig.messages[0].text`.
    async fn create_trigger_rule(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new rule.")] input: CreateTriggerRuleInput,
    ) -> Result<TriggerRule> {
        let caller = caller(ctx)?;
        Ok(TriggerRule(app(ctx).create_trigger_rule(caller, input.read()?).await?))
    }

    /// Changes a trigger rule and answers it as it is then. Needs the maintainer or owner role in
    /// the project. What is queued already stays as it was queued; disabling cancels it.
    async fn update_trigger_rule(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateTriggerRuleInput,
    ) -> Result<TriggerRule> {
        let caller = caller(ctx)?;
        let id = TriggerRuleId::parse(&id)?;
        Ok(TriggerRule(app(ctx).update_trigger_rule(caller, id, input.into()).await?))
    }

    /// Deletes a trigger rule and answers it as it is then. Needs the maintainer or owner role in
    /// the project. It is not found any more and what it has queued is cancelled; history still
    /// names it.
    async fn delete_trigger_rule(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<TriggerRule> {
        let caller = caller(ctx)?;
        Ok(TriggerRule(app(ctx).delete_trigger_rule(caller, TriggerRuleId::parse(&id)?).await?))
    }
}
