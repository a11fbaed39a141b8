//! Events: what happened, as rules meet it.

use async_graphql::{Context, Enum, ID, InputObject, Json, Object};
use futures::FutureExt;
use serde_json::Value;

use super::connection::{Connection, Listed, OrderDirection};
use super::context::{Paging, app, distinct, named, narrow, nothing, page, scope};
use super::error::{Fault, nullable};
use super::line_oa::LineOa;
use super::line_user::LineUser;
use super::links::{self, Link};
use super::scheduled_action::{
    ScheduledAction, ScheduledActionFilter, ScheduledActionOrder, read_scheduled_actions,
};
use super::time::DateTime;
use super::trigger_log::{TriggerLog, TriggerLogFilter, TriggerLogOrder, read_trigger_logs};
use crate::app::{EventFilter as Filter, known_event_type};
use crate::domain::event as domain;
use crate::domain::id::{EventId, LineOaId};
use crate::domain::input;
use crate::domain::page::Direction;
use crate::error::Result;

/// An event.
pub struct Event(pub domain::Event);

/// Something that happened, usually to a user of a LINE OA. It is stored before it is evaluated.
/// Machine users see none.
#[Object]
impl Event {
    /// The id, which is ours and not the sender's.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The sender's id, unique in the LINE OA: the same one again does nothing.
    async fn event_id(&self) -> &str {
        &self.0.event_id
    }

    /// A source type, for example `form_submitted`.
    #[graphql(name = "type")]
    async fn event_type(&self) -> &str {
        &self.0.event_type
    }

    /// The LINE OA whose rules it meets.
    async fn line_oa(&self, ctx: &Context<'_>) -> Link<LineOa> {
        links::line_oa(ctx, Some(self.0.line_oa_id)).await
    }

    /// LINE's id of the user that it happened to, if to one.
    async fn user_id(&self) -> Option<&str> {
        self.0.user_id.as_deref()
    }

    /// The user, as the LINE OA knows them; none when it does not.
    async fn user(&self, ctx: &Context<'_>) -> Link<LineUser> {
        links::line_user(ctx, Some(self.0.line_oa_id), self.0.user_id.as_deref()).await
    }

    /// When it happened, by the sender's word.
    async fn occurred_at(&self) -> DateTime {
        self.0.occurred_at.into()
    }

    /// What else is known of it, as its type asks for.
    async fn payload(&self) -> Json<&Value> {
        Json(&self.0.payload)
    }

    /// What it is about, of types that have states of one thing, for example a booking: what waits
    /// because of an earlier state is replaced.
    async fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// How it came in.
    async fn origin(&self) -> EventOrigin {
        self.0.origin.into()
    }

    /// Its state.
    async fn status(&self) -> EventStatus {
        self.0.status.into()
    }

    /// How many rules accepted it; none before it was evaluated.
    async fn matched(&self) -> Option<i32> {
        self.0.matched
    }

    /// Why it could not be evaluated.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// When it was stored.
    async fn received_at(&self) -> DateTime {
        self.0.received_at.into()
    }

    /// When it was evaluated; none before.
    async fn processed_at(&self) -> Option<DateTime> {
        self.0.processed_at.map(Into::into)
    }

    /// What rules queued because of it, the latest first unless ordered otherwise.
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
        if !narrow(&mut filter.event_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_scheduled_actions(ctx, filter, order, paging).await
    }

    /// What the trigger log says of it: its evaluations, and the attempts of what came of them. The
    /// latest row first unless ordered otherwise.
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

/// How an event came in.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::EventOrigin")]
pub enum EventOrigin {
    /// Posted to the machine API.
    Api,
    /// From LINE's webhook.
    LineWebhook,
    /// From the outbox of a PostgreSQL database.
    Postgres,
    /// A change of a user's attributes by `setLineUserAttributes`.
    Internal,
}

/// An event's state.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "domain::EventStatus")]
pub enum EventStatus {
    /// Stored, not evaluated yet.
    Pending,
    /// Evaluated; what came of it stands in the trigger log.
    Processed,
    /// It could not be evaluated; the error says why.
    Failed,
}

/// Which events are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct EventFilter {
    /// Only those that happened to this user.
    pub(super) user_id: Option<String>,
    /// Only those of this type.
    #[graphql(name = "type")]
    pub(super) event_type: Option<String>,
    /// Only the one with this id of the sender.
    pub(super) event_id: Option<String>,
    /// Only those in one of these states; an empty list is as good as none.
    pub(super) statuses: Option<Vec<EventStatus>>,
    /// Only those stored at this time or later.
    pub(super) since: Option<DateTime>,
    /// Only those stored before this time.
    pub(super) until: Option<DateTime>,
}

/// The order of a list of events.
#[derive(InputObject)]
pub struct EventOrder {
    /// By what.
    #[graphql(default_with = "EventOrderField::ReceivedAt")]
    field: EventOrderField,
    /// Which end comes first.
    direction: OrderDirection,
}

/// What events are ordered by.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum EventOrderField {
    /// The time of storing.
    ReceivedAt,
}

/// Reads a page of the events of a LINE OA.
pub(super) fn read_events<'a>(
    ctx: &'a Context<'_>,
    line_oa: LineOaId,
    filter: EventFilter,
    order: Option<EventOrder>,
    paging: Paging,
) -> Listed<'a, Event> {
    async move {
        let scope = scope(ctx)?;
        let event_id = filter.event_id;
        let filter = Filter {
            line_oa_id: Some(line_oa),
            user_id: input::search("userId", filter.user_id)?,
            event_type: filter.event_type.map(known_event_type).transpose()?,
            event_id: event_id.map(|id| domain::search_id("eventId", &id)).transpose()?,
            statuses: distinct(filter.statuses),
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
        };
        let direction = order.map_or(Direction::Descending, |order| order.direction.into());
        let page = app(ctx).events(scope, &filter, direction, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, Event))
    }
    .boxed()
}

/// Queries of events.
#[derive(Default)]
pub struct EventQuery;

#[Object]
impl EventQuery {
    /// The event of that id. `NOT_FOUND` when there is none that the caller may see, or when its
    /// retention has ended. Machine users see none.
    async fn event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Event, Fault>> {
        let found = async { app(ctx).event(scope(ctx)?, EventId::parse(&id)?).await };
        nullable(async { Ok(Event(found.await?)) }).await
    }

    /// A LINE OA's events, the latest first unless ordered otherwise; none of one that the caller
    /// may not see. Machine users see none.
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The LINE OA.")] line_oa_id: ID,
        #[graphql(desc = "Only these.")] filter: Option<EventFilter>,
        #[graphql(desc = "Their order.")] order: Option<EventOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Event>> {
        let line_oa = named("lineOaId", &line_oa_id)?;
        let filter = filter.unwrap_or_default();
        read_events(ctx, line_oa, filter, order, (first, after, last, before)).await
    }
}
