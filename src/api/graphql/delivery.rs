//! Deliveries and their attempts.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use futures::FutureExt;

use super::application::Application;
use super::backend::Backend;
use super::connection::{Connection, Listed, OrderDirection};
use super::context::{
    Paging, app, caller, counted, distinct, loaders, narrow_to, nothing, page, scope, wanted,
};
use super::error::{Fault, nullable};
use super::loaders::AttemptsOf;
use super::occurrence::{CallbackPayload, Occurrence};
use super::time::DateTime;
use super::trigger::Trigger;
use crate::app::{DeliveryFilter as Filter, Retryable};
use crate::domain::delivery as domain;
use crate::domain::id::{ApplicationId, ScheduledActionId};
use crate::domain::page::Direction;
use crate::error::{Error, Result};

/// A delivery.
pub struct Delivery(pub domain::Delivery);

/// One occurrence on its way to one backend.
#[Object]
impl Delivery {
    /// The id; every attempt carries it as `webhook-id`.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The occurrence; none when its retention has ended first.
    async fn occurrence(&self, ctx: &Context<'_>) -> Option<Result<Occurrence, Fault>> {
        super::occurrence::load(ctx, self.0.occurrence_id).await.transpose()
    }

    /// The trigger; none when it was deleted since.
    async fn trigger(&self, ctx: &Context<'_>) -> Option<Result<Trigger, Fault>> {
        super::trigger::load(ctx, self.0.trigger_id).await.transpose()
    }

    /// The application.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The backend's id, also when the backend was deleted since.
    async fn backend_id(&self) -> ID {
        self.0.backend_id.to_string().into()
    }

    /// The backend; none when it was deleted since.
    async fn backend(&self, ctx: &Context<'_>) -> Option<Result<Backend, Fault>> {
        super::backend::load(ctx, self.0.backend_id).await.transpose()
    }

    /// Its state.
    async fn status(&self) -> DeliveryStatus {
        self.0.status.into()
    }

    /// What is sent.
    async fn payload(&self) -> CallbackPayload {
        CallbackPayload::from(&self.0.payload)
    }

    /// Its attempts, the oldest first; of more than 1,000, or of more than 100 where many deliveries
    /// are asked for at once, the newest. Those whose retention has ended are missing.
    async fn attempts(&self, ctx: &Context<'_>) -> Result<Vec<Attempt>, Fault> {
        let found = loaders(ctx)?.load_one(AttemptsOf(self.0.id)).await?;
        Ok(counted(ctx, found)?.into_iter().map(Attempt).collect())
    }

    /// How many attempts have ended.
    async fn attempt_count(&self) -> i32 {
        self.0.retry_count
    }

    /// When the next attempt is due; none while an attempt is under way, and when it has ended.
    async fn next_attempt_at(&self) -> Option<DateTime> {
        let waits = self.0.status == domain::ActionStatus::Pending;
        waits.then_some(self.0.execute_at.into())
    }

    /// From when no attempt starts any more.
    async fn expires_at(&self) -> Option<DateTime> {
        self.0.expires_at.map(Into::into)
    }

    /// What the last attempt failed with.
    async fn last_error(&self) -> Option<&str> {
        self.0.last_error.as_deref()
    }

    /// When it was made.
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
}

/// An attempt.
pub struct Attempt(pub domain::Attempt);

/// One attempt to deliver or to do something: a call of a backend or of the LINE platform.
#[Object]
impl Attempt {
    /// The attempt's number, from 1; calls of backends carry it as `x-trigger-attempt`.
    async fn number(&self) -> i32 {
        self.0.number
    }

    /// How it ended.
    async fn status(&self) -> AttemptStatus {
        match self.0.status.as_str() {
            "success" => AttemptStatus::Success,
            _ => AttemptStatus::Error,
        }
    }

    /// The HTTP status of the answer; none without one.
    async fn response_status(&self) -> Option<i16> {
        self.0.response_status
    }

    /// How long it took, in milliseconds.
    async fn duration_ms(&self) -> Option<i32> {
        self.0.duration_ms
    }

    /// A code for what went wrong, for example `timeout`.
    async fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// What went wrong, in words.
    async fn error_message(&self) -> Option<&str> {
        self.0.error_message.as_deref()
    }

    /// When it was recorded.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }
}

/// How an attempt ended.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStatus {
    /// Answered with 2xx in time, or done.
    Success,
    /// Anything else.
    Error,
}

/// A delivery's state.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::ActionStatus")]
pub enum DeliveryStatus {
    /// It waits for its next attempt.
    Pending,
    /// An attempt is under way.
    Processing,
    /// The backend answered 2xx.
    Completed,
    /// Given up: its budget ended.
    Failed,
    /// No delivery is: one whose time has passed is `FAILED`, whether it was tried or not. Other work
    /// can expire, see `ScheduledActionStatus`.
    Expired,
    /// Taken back before it was delivered.
    Cancelled,
}

/// Which deliveries are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct DeliveryFilter {
    /// Only those of this application.
    pub(super) application_id: Option<ID>,
    /// Only those of this occurrence.
    pub(super) occurrence_id: Option<ID>,
    /// Only those of this trigger, which may have been deleted.
    pub(super) trigger_id: Option<ID>,
    /// Only those to this backend, which may have been deleted.
    pub(super) backend_id: Option<ID>,
    /// Only those in one of these states; an empty list is as good as none.
    pub(super) statuses: Option<Vec<DeliveryStatus>>,
    /// Only those made at this time or later.
    pub(super) since: Option<DateTime>,
    /// Only those made before this time.
    pub(super) until: Option<DateTime>,
    /// Only those that ended at this time or later.
    pub(super) finished_since: Option<DateTime>,
    /// Only those that ended before this time.
    pub(super) finished_until: Option<DateTime>,
}

/// The order of a list of deliveries.
#[derive(InputObject)]
pub struct DeliveryOrder {
    /// By what.
    #[graphql(default_with = "DeliveryOrderField::CreatedAt")]
    field: DeliveryOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What deliveries are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOrderField {
    /// The time of creation.
    CreatedAt,
}

/// Reads a page of deliveries.
pub(super) fn read_deliveries<'a>(
    ctx: &'a Context<'_>,
    filter: DeliveryFilter,
    order: Option<DeliveryOrder>,
    paging: Paging,
) -> Listed<'a, Delivery> {
    async move {
        let scope = scope(ctx)?;
        let filter = Filter {
            application_id: wanted("applicationId", filter.application_id)?,
            occurrence_id: wanted("occurrenceId", filter.occurrence_id)?,
            trigger_id: wanted("triggerId", filter.trigger_id)?,
            backend_id: wanted("backendId", filter.backend_id)?,
            statuses: distinct(filter.statuses),
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
            finished_since: filter.finished_since.map(Into::into),
            finished_until: filter.finished_until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page = app(ctx).deliveries(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, Delivery))
    }
    .boxed()
}

/// A delivery's id. Whatever is none names no delivery.
fn delivery_id(id: &str) -> Result<ScheduledActionId> {
    id.parse().map_err(|_| Error::NotFound { what: domain::WHAT })
}

/// Queries of deliveries.
#[derive(Default)]
pub struct DeliveryQuery;

#[Object]
impl DeliveryQuery {
    /// The delivery of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn delivery(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Delivery, Fault>> {
        let found = async { app(ctx).delivery(scope(ctx)?, delivery_id(&id)?).await };
        nullable(async { Ok(Delivery(found.await?)) }).await
    }

    /// Deliveries that the caller may see, the latest first unless ordered otherwise.
    async fn deliveries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this application; as in the filter, beside it.")]
        application_id: Option<ID>,
        #[graphql(desc = "Only those of this occurrence; as in the filter, beside it.")]
        occurrence_id: Option<ID>,
        #[graphql(desc = "Only these.")] filter: Option<DeliveryFilter>,
        #[graphql(desc = "Their order.")] order: Option<DeliveryOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Delivery>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        let both = narrow_to(&mut filter.application_id, "applicationId", application_id)?
            && narrow_to(&mut filter.occurrence_id, "occurrenceId", occurrence_id)?;
        if !both {
            return nothing(ctx, paging);
        }
        read_deliveries(ctx, filter, order, paging).await
    }
}

/// Which deliveries are to be tried again. All conditions that are given must hold.
#[derive(InputObject)]
pub struct RetryDeliveriesInput {
    /// Those of this application.
    application_id: ID,
    /// Those in one of these states, of which only `FAILED` and `CANCELLED` are taken. Unless given
    /// only `FAILED`: cancelled ones were given up on purpose.
    statuses: Option<Vec<DeliveryStatus>>,
    /// Only those of this trigger.
    trigger_id: Option<ID>,
    /// Only those to this backend.
    backend_id: Option<ID>,
    /// Only those that were due at this time or later.
    since: Option<DateTime>,
    /// Only those that were due before this time.
    until: Option<DateTime>,
    /// Only those that ended at this time or later.
    finished_since: Option<DateTime>,
    /// Only those that ended before this time.
    finished_until: Option<DateTime>,
    /// How many at the most, those that were due first: 1 to 1,000; 1,000 unless given.
    limit: Option<i32>,
}

impl RetryDeliveriesInput {
    fn read(self) -> Result<(Retryable, Option<i32>)> {
        let mut statuses = distinct(self.statuses);
        if statuses.is_empty() {
            statuses.push(domain::ActionStatus::Failed);
        }
        let wanted = Retryable {
            application_id: ApplicationId::parse(&self.application_id)?,
            trigger_id: wanted("triggerId", self.trigger_id)?,
            backend_id: wanted("backendId", self.backend_id)?,
            statuses,
            since: self.since.map(Into::into),
            until: self.until.map(Into::into),
            finished_since: self.finished_since.map(Into::into),
            finished_until: self.finished_until.map(Into::into),
        };
        Ok((wanted, self.limit))
    }
}

/// What became of a retry of many deliveries.
#[derive(SimpleObject)]
pub struct RetriedDeliveries {
    /// The application's id.
    application_id: ID,
    /// How many deliveries were made due again.
    retried: u64,
    /// Whether there are more that the input asks for: the same mutation takes the next.
    more: bool,
}

/// Mutations of deliveries.
#[derive(Default)]
pub struct DeliveryMutation;

#[Object]
impl DeliveryMutation {
    /// Makes a delivery that ended as failed or cancelled due again, with a fresh budget, and
    /// answers it as it is then. Needs the maintainer or owner role in the project. `CONFLICT` in
    /// any other state, and when its trigger or backend was deleted since.
    async fn retry_delivery(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Delivery> {
        let caller = caller(ctx)?;
        Ok(Delivery(app(ctx).retry_delivery(caller, delivery_id(&id)?).await?))
    }

    /// Makes deliveries of an application that ended as failed or cancelled due again, each with a
    /// fresh budget, at most 1,000 at once. Those whose trigger or backend was deleted since are
    /// left out. Needs the maintainer or owner role in the project.
    async fn retry_deliveries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which.")] input: RetryDeliveriesInput,
    ) -> Result<RetriedDeliveries> {
        let caller = caller(ctx)?;
        let (wanted, limit) = input.read()?;
        let done = app(ctx).retry_deliveries(caller, &wanted, limit).await?;
        Ok(RetriedDeliveries {
            application_id: done.application_id.to_string().into(),
            retried: done.retried,
            more: done.more,
        })
    }
}
