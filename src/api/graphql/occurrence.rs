//! Occurrences: the ledger of due times.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use futures::FutureExt;

use super::application::Application;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{
    Paging, app, counted, distinct, loaders, narrow_to, nothing, page, scope, wanted,
};
use super::delivery::Delivery;
use super::error::{Fault, nullable};
use super::loaders::{DeliveriesOf, LatestOf};
use super::time::DateTime;
use super::trigger::Trigger;
use crate::app::OccurrenceFilter as Filter;
use crate::domain::fan_out;
use crate::domain::id::{OccurrenceId, TriggerId};
use crate::domain::page::Direction;
use crate::domain::trigger as domain;
use crate::error::Result;

/// An occurrence.
pub struct Occurrence(pub domain::Occurrence);

/// One due time of a trigger, and what came of it. Each ends in one recorded outcome. A skipped
/// one may stand for a run of due times.
#[Object]
impl Occurrence {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The trigger's id, also when the trigger was deleted since.
    async fn trigger_id(&self) -> ID {
        self.0.trigger_id.to_string().into()
    }

    /// The trigger; none when it was deleted since.
    async fn trigger(&self, ctx: &Context<'_>) -> Option<Result<Trigger, Fault>> {
        super::trigger::load(ctx, self.0.trigger_id).await.transpose()
    }

    /// The trigger's application.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The due time. Of a run of skipped ones the first.
    async fn scheduled_at(&self) -> DateTime {
        self.0.scheduled_at.into()
    }

    /// Of a run of skipped ones the last due time.
    async fn until_at(&self) -> Option<DateTime> {
        self.0.until_at.map(Into::into)
    }

    /// How many due times it stands for; more than one only when skipped.
    async fn runs(&self) -> i32 {
        self.0.occurrences
    }

    /// Where it comes from.
    async fn origin(&self) -> Origin {
        self.0.origin.into()
    }

    /// Its state.
    async fn status(&self) -> OccurrenceStatus {
        self.0.status.into()
    }

    /// Why it was skipped, failed without a backend, or was cancelled, as a code such as
    /// `catch_up_window`. While it waits for a backend `no_active_backend`.
    async fn reason(&self) -> Option<&str> {
        fan_out::reason(&self.0)
    }

    /// What the backends get, fixed when the occurrence was made.
    async fn payload(&self) -> CallbackPayload {
        CallbackPayload::from(&self.0.payload)
    }

    /// Its deliveries, one a backend that was active, the oldest first. Empty while it waits for
    /// a backend.
    async fn deliveries(&self, ctx: &Context<'_>) -> Result<Vec<Delivery>, Fault> {
        let found = loaders(ctx)?.load_one(DeliveriesOf(self.0.id)).await?;
        Ok(counted(ctx, found)?.into_iter().map(Delivery).collect())
    }

    /// How many deliveries it was fanned out to.
    async fn delivery_count(&self) -> i32 {
        self.0.deliveries
    }

    /// How many of its deliveries were answered with 2xx.
    async fn delivered_count(&self) -> i32 {
        self.0.delivered
    }

    /// How many of its deliveries ended without.
    async fn failed_count(&self) -> i32 {
        self.0.failed
    }

    /// How often no active backend was found for it.
    async fn fan_out_attempts(&self) -> i32 {
        self.0.fan_out_attempts
    }

    /// When a backend is looked for again; none when one was found or the occurrence has ended.
    async fn next_attempt_at(&self) -> Option<DateTime> {
        self.0.next_attempt_at.map(Into::into)
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it ended; none while it is pending.
    async fn finished_at(&self) -> Option<DateTime> {
        self.0.finished_at.map(Into::into)
    }
}

/// The body of a callback: five fields, the same on every attempt.
#[derive(SimpleObject)]
pub struct CallbackPayload {
    /// The trigger's id.
    trigger_id: ID,
    /// The trigger's name when the occurrence was made.
    trigger_name: String,
    /// The trigger's schedule when the occurrence was made.
    cron_expression: String,
    /// What the backend switches on.
    run_key: String,
    /// The due time as it is sent, RFC 3339 in UTC.
    executed_at: String,
}

impl From<&domain::Payload> for CallbackPayload {
    fn from(payload: &domain::Payload) -> Self {
        Self {
            trigger_id: payload.trigger_id.to_string().into(),
            trigger_name: payload.trigger_name.clone(),
            cron_expression: payload.cron_expression.clone(),
            run_key: payload.run_key.clone(),
            executed_at: payload.executed_at.clone(),
        }
    }
}

/// Where an occurrence comes from.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::Origin")]
pub enum Origin {
    /// The schedule.
    Schedule,
    /// A person who ran the trigger now.
    Manual,
}

/// An occurrence's state. All but `PENDING` are final, unless a delivery is retried by hand.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::OccurrenceStatus")]
pub enum OccurrenceStatus {
    /// It waits for a backend, or its deliveries are under way.
    Pending,
    /// Every backend answered 2xx.
    Delivered,
    /// Some backends answered 2xx; the others failed, or were deleted first.
    PartiallyDelivered,
    /// No backend answered 2xx: each failed or was deleted first, or none was active in time.
    Failed,
    /// It was not to be delivered; the reason says why.
    Skipped,
    /// Its trigger was disabled or deleted first.
    Cancelled,
}

/// Which occurrences are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct OccurrenceFilter {
    /// Only those of this application.
    pub(super) application_id: Option<ID>,
    /// Only those of this trigger, which may have been deleted.
    pub(super) trigger_id: Option<ID>,
    /// Only those in one of these states; an empty list is as good as none.
    pub(super) statuses: Option<Vec<OccurrenceStatus>>,
    /// Only those due at this time or later.
    pub(super) since: Option<DateTime>,
    /// Only those due before this time.
    pub(super) until: Option<DateTime>,
    /// Only those that ended at this time or later.
    pub(super) finished_since: Option<DateTime>,
    /// Only those that ended before this time.
    pub(super) finished_until: Option<DateTime>,
}

/// The order of a list of occurrences.
#[derive(InputObject)]
pub struct OccurrenceOrder {
    /// By what.
    #[graphql(default_with = "OccurrenceOrderField::ScheduledAt")]
    field: OccurrenceOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What occurrences are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum OccurrenceOrderField {
    /// The due time.
    ScheduledAt,
}

/// Reads a page of occurrences.
pub(super) fn read_occurrences<'a>(
    ctx: &'a Context<'_>,
    filter: OccurrenceFilter,
    order: Option<OccurrenceOrder>,
    paging: Paging,
) -> Listed<'a, Occurrence> {
    async move {
        let scope = scope(ctx)?;
        let filter = Filter {
            application_id: wanted("applicationId", filter.application_id)?,
            trigger_id: wanted("triggerId", filter.trigger_id)?,
            statuses: distinct(filter.statuses),
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
            finished_since: filter.finished_since.map(Into::into),
            finished_until: filter.finished_until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page = app(ctx).occurrences(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, Occurrence))
    }
    .boxed()
}

/// Queries of occurrences.
#[derive(Default)]
pub struct OccurrenceQuery;

#[Object]
impl OccurrenceQuery {
    /// The occurrence of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn occurrence(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Occurrence, Fault>> {
        let found = async { app(ctx).occurrence(scope(ctx)?, OccurrenceId::parse(&id)?).await };
        nullable(async { Ok(Occurrence(found.await?)) }).await
    }

    /// Occurrences that the caller may see, the latest due time first unless ordered otherwise.
    async fn occurrences(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this application; as in the filter, beside it.")]
        application_id: Option<ID>,
        #[graphql(desc = "Only those of this trigger; as in the filter, beside it.")]
        trigger_id: Option<ID>,
        #[graphql(desc = "Only these.")] filter: Option<OccurrenceFilter>,
        #[graphql(desc = "Their order.")] order: Option<OccurrenceOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Occurrence>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        let both = narrow_to(&mut filter.application_id, "applicationId", application_id)?
            && narrow_to(&mut filter.trigger_id, "triggerId", trigger_id)?;
        if !both {
            return nothing(ctx, paging);
        }
        read_occurrences(ctx, filter, order, paging).await
    }
}

/// The occurrence of that id, loaded with those of its siblings.
pub(super) async fn load(ctx: &Context<'_>, id: OccurrenceId) -> Result<Option<Occurrence>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Occurrence))
}

/// A trigger's latest occurrence, loaded with those of its siblings; none when there was none.
pub(super) async fn load_latest(
    ctx: &Context<'_>,
    trigger: TriggerId,
) -> Result<Option<Occurrence>, Fault> {
    Ok(loaders(ctx)?.load_one(LatestOf(trigger)).await?.map(Occurrence))
}
