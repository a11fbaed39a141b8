//! Triggers.

use async_graphql::{Context, Enum, ID, InputObject, MaybeUndefined, Object};
use futures::FutureExt;

use super::application::Application;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{app, caller, loaders, narrow, nothing, page, scope, wanted};
use super::error::{Fault, nullable};
use super::occurrence::{Occurrence, OccurrenceFilter, OccurrenceOrder, read_occurrences};
use super::time::DateTime;
use crate::app::{CreateTrigger, TriggerFilter as Filter, TriggerSort, UpdateTrigger};
use crate::domain::cron::Schedule;
use crate::domain::id::{ApplicationId, TriggerId};
use crate::domain::input;
use crate::domain::trigger as domain;
use crate::error::Result;

/// A trigger.
pub struct Trigger(pub domain::Trigger);

/// A cron schedule of an application. Whenever it is due, each active backend of the application
/// is called.
#[Object]
impl Trigger {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The application whose backends are called.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The name shown, up to 100 characters.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for, up to 1000 characters.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// The stable identifier that backends switch on, up to 100 characters.
    async fn run_key(&self) -> &str {
        &self.0.run_key
    }

    /// The schedule: six fields, seconds first, or a shorthand such as `@daily`.
    async fn cron_expression(&self) -> &str {
        &self.0.cron_expression
    }

    /// The schedule in words.
    async fn schedule_description(&self) -> Result<String> {
        Ok(Schedule::parse(&self.0.cron_expression)?.describe())
    }

    /// The IANA time zone of the schedule; none: the server's.
    async fn time_zone(&self) -> Option<&str> {
        self.0.time_zone.as_deref()
    }

    /// The IANA time zone that the schedule is read in.
    async fn effective_time_zone<'a>(&'a self, ctx: &Context<'a>) -> &'a str {
        self.0.time_zone.as_deref().unwrap_or(app(ctx).zone.name())
    }

    /// Whether it fires.
    async fn enabled(&self) -> bool {
        self.0.enabled
    }

    /// What happens to occurrences that were missed.
    async fn catch_up(&self) -> CatchUp {
        self.0.catch_up.into()
    }

    /// When it is due next; none while disabled.
    async fn next_run_at(&self) -> Option<DateTime> {
        self.0.next_fire_at.map(Into::into)
    }

    /// Its latest occurrence by due time; none when there was none yet.
    async fn last_occurrence(&self, ctx: &Context<'_>) -> Option<Result<Occurrence, Fault>> {
        super::occurrence::load_latest(ctx, self.0.id).await.transpose()
    }

    /// Its occurrences, the latest due time first unless ordered otherwise.
    async fn occurrences(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<OccurrenceFilter>,
        #[graphql(desc = "Their order.")] order: Option<OccurrenceOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Occurrence>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        if !narrow(&mut filter.trigger_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_occurrences(ctx, filter, order, paging).await
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

/// What happens to occurrences that were missed: when they are evaluated they are older than twice
/// the server's `cron.trigger_check_interval`, because no executor ran, or none in time. Those older
/// than the server's catch-up window are never delivered. What is not delivered is recorded as
/// skipped.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::CatchUp")]
pub enum CatchUp {
    /// Each is delivered.
    All,
    /// Only the latest is delivered.
    Last,
    /// None is delivered.
    None,
}

/// Which triggers are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct TriggerFilter {
    /// Only enabled ones, or only disabled ones.
    enabled: Option<bool>,
    /// Only those with this run key.
    run_key: Option<String>,
    /// Only those with this text in the name, whatever its case.
    name_contains: Option<String>,
}

/// The order of a list of triggers.
#[derive(InputObject)]
pub struct TriggerOrder {
    /// By what.
    field: TriggerOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What triggers are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum TriggerOrderField {
    /// The time of creation.
    CreatedAt,
    /// The name.
    Name,
    /// The time of the last change.
    UpdatedAt,
}

impl From<TriggerOrderField> for TriggerSort {
    fn from(field: TriggerOrderField) -> Self {
        match field {
            TriggerOrderField::CreatedAt => Self::CreatedAt,
            TriggerOrderField::Name => Self::Name,
            TriggerOrderField::UpdatedAt => Self::UpdatedAt,
        }
    }
}

/// A new trigger.
#[derive(InputObject)]
pub struct CreateTriggerInput {
    /// The application it belongs to.
    application_id: ID,
    /// The name shown, 1 to 100 characters.
    name: String,
    /// What it is for, up to 1000 characters.
    #[graphql(default)]
    description: String,
    /// The stable identifier that backends switch on, 1 to 100 characters.
    run_key: String,
    /// Six fields, seconds first, or a shorthand such as `@daily`. `cronPreview` tells what one
    /// means.
    cron_expression: String,
    /// The IANA time zone of the schedule; none: the server's.
    time_zone: Option<String>,
    /// Whether it fires from now on.
    #[graphql(default = false)]
    enabled: bool,
    /// What happens to occurrences that are missed.
    #[graphql(default_with = "CatchUp::All")]
    catch_up: CatchUp,
}

/// What of a trigger is to change. What is left out or null stays as it is, unless said otherwise.
#[derive(InputObject)]
pub struct UpdateTriggerInput {
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// A new description, up to 1000 characters.
    description: Option<String>,
    /// A new run key, 1 to 100 characters.
    run_key: Option<String>,
    /// A new schedule. Its window starts now: what would have been due before is not made up for.
    cron_expression: Option<String>,
    /// A new IANA time zone; null: the server's.
    time_zone: MaybeUndefined<String>,
    /// On or off. Off cancels what is not delivered yet, what a person ran included, also when it
    /// was off already; on starts now.
    enabled: Option<bool>,
    /// What happens to occurrences that are missed.
    catch_up: Option<CatchUp>,
}

impl From<UpdateTriggerInput> for UpdateTrigger {
    fn from(input: UpdateTriggerInput) -> Self {
        Self {
            name: input.name,
            description: input.description,
            run_key: input.run_key,
            cron_expression: input.cron_expression,
            time_zone: input.time_zone.into(),
            enabled: input.enabled,
            catch_up: input.catch_up.map(Into::into),
        }
    }
}

/// Reads a page of triggers.
pub(super) fn read_triggers<'a>(
    ctx: &'a Context<'_>,
    application: Option<ApplicationId>,
    filter: Option<TriggerFilter>,
    order: Option<TriggerOrder>,
    paging: super::context::Paging,
) -> Listed<'a, Trigger> {
    async move {
        let given = filter.unwrap_or_default();
        let filter = Filter {
            application_id: application,
            enabled: given.enabled,
            run_key: input::search("runKey", given.run_key)?,
            name_contains: input::search("nameContains", given.name_contains)?,
        };
        let sort = order
            .map_or_else(Default::default, |order| (order.field.into(), order.direction.into()));
        let request = page(ctx, paging)?;
        Ok(Connection::new(app(ctx).triggers(scope(ctx)?, &filter, sort, &request).await?, Trigger))
    }
    .boxed()
}

/// Queries of triggers.
#[derive(Default)]
pub struct TriggerQuery;

#[Object]
impl TriggerQuery {
    /// The trigger of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn trigger(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Trigger, Fault>> {
        let found = async { app(ctx).trigger(scope(ctx)?, TriggerId::parse(&id)?).await };
        nullable(async { Ok(Trigger(found.await?)) }).await
    }

    /// Triggers that the caller may see, the oldest first unless ordered otherwise.
    async fn triggers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this application.")] application_id: Option<ID>,
        #[graphql(desc = "Only these.")] filter: Option<TriggerFilter>,
        #[graphql(desc = "Their order.")] order: Option<TriggerOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Trigger>> {
        let application = wanted("applicationId", application_id)?;
        read_triggers(ctx, application, filter, order, (first, after, last, before)).await
    }
}

/// Mutations of triggers.
#[derive(Default)]
pub struct TriggerMutation;

#[Object]
impl TriggerMutation {
    /// Makes a trigger. Needs the maintainer or owner role in the project. Unless enabled, it does
    /// not fire until it is.
    async fn create_trigger(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new trigger.")] input: CreateTriggerInput,
    ) -> Result<Trigger> {
        let caller = caller(ctx)?;
        let new = CreateTrigger {
            application_id: ApplicationId::parse(&input.application_id)?,
            name: input.name,
            description: input.description,
            run_key: input.run_key,
            cron_expression: input.cron_expression,
            time_zone: input.time_zone,
            enabled: input.enabled,
            catch_up: input.catch_up.into(),
        };
        Ok(Trigger(app(ctx).create_trigger(caller, new).await?))
    }

    /// Changes a trigger and answers it as it is then. Needs the maintainer or owner role in the
    /// project. A change of schedule, zone or enabling holds from the next pass of the executor.
    async fn update_trigger(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateTriggerInput,
    ) -> Result<Trigger> {
        let caller = caller(ctx)?;
        let id = TriggerId::parse(&id)?;
        Ok(Trigger(app(ctx).update_trigger(caller, id, input.into()).await?))
    }

    /// Deletes a trigger for good and answers it as it was. Needs the maintainer or owner role in
    /// the project. What is not delivered yet is cancelled; the history stays.
    async fn delete_trigger(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Trigger> {
        let caller = caller(ctx)?;
        Ok(Trigger(app(ctx).delete_trigger(caller, TriggerId::parse(&id)?).await?))
    }

    /// Makes an occurrence now, beside the schedule, also of a disabled trigger. Needs the
    /// maintainer or owner role in the project. Each call makes another one. As long as it is not
    /// delivered, an update with `enabled: false` cancels it, also when the trigger was off already.
    async fn run_trigger(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The trigger's id.")] id: ID,
    ) -> Result<Occurrence> {
        let caller = caller(ctx)?;
        Ok(Occurrence(app(ctx).run_trigger(caller, TriggerId::parse(&id)?).await?))
    }
}

/// The trigger of that id, loaded with those of its siblings; none when it was deleted.
pub(super) async fn load(ctx: &Context<'_>, id: TriggerId) -> Result<Option<Trigger>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Trigger))
}
