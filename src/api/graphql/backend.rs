//! Registered backends.

use async_graphql::{Context, ID, InputObject, Object};
use futures::FutureExt;

use super::application::Application;
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, loaders, narrow, nothing, page, scope, wanted};
use super::delivery::{Delivery, DeliveryFilter, DeliveryOrder, read_deliveries};
use super::error::{Fault, nullable};
use super::time::DateTime;
use crate::domain::application as domain;
use crate::domain::id::{ApplicationId, BackendId};
use crate::error::Result;

/// A backend.
pub struct Backend(pub domain::Backend);

/// A backend that registered to receive an application's triggers. Its token and signing secret
/// are shown to nobody.
#[Object]
impl Backend {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its application.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The last machine user that registered it, who may have been deleted since; none when only people
    /// did.
    async fn machine_user_id(&self) -> Option<ID> {
        self.0.machine_user_id.map(|id| id.to_string().into())
    }

    /// The name, unique in the application.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for.
    async fn description(&self) -> &str {
        &self.0.description
    }

    /// Where it is called.
    async fn callback_url(&self) -> &str {
        &self.0.callback_url
    }

    /// The version that it told.
    async fn version(&self) -> Option<&str> {
        self.0.version.as_deref()
    }

    /// Whether it receives triggers now: not deactivated, and its last heartbeat is recent enough.
    async fn active(&self, ctx: &Context<'_>) -> bool {
        let app = app(ctx);
        app.is_backend_active(&self.0, app.now())
    }

    /// When it last registered.
    async fn registered_at(&self) -> DateTime {
        self.0.registered_at.into()
    }

    /// When it last registered or sent a heartbeat.
    async fn last_heartbeat_at(&self) -> DateTime {
        self.0.last_heartbeat_at.into()
    }

    /// Since when it is deactivated, for example by an answer 410, until it registers again.
    async fn deactivated_at(&self) -> Option<DateTime> {
        self.0.deactivated_at.map(Into::into)
    }

    /// Why it is deactivated.
    async fn deactivated_reason(&self) -> Option<&str> {
        self.0.deactivated_reason.as_deref()
    }

    /// Its deliveries, the latest first unless ordered otherwise.
    async fn deliveries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<DeliveryFilter>,
        #[graphql(desc = "Their order.")] order: Option<DeliveryOrder>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Delivery>> {
        let mut filter = filter.unwrap_or_default();
        let paging = (first, after, last, before);
        if !narrow(&mut filter.backend_id, self.0.id) {
            return nothing(ctx, paging);
        }
        read_deliveries(ctx, filter, order, paging).await
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed; a heartbeat is no change.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// Which backends are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct BackendFilter {
    /// Only those that receive triggers now, or only the others.
    active: Option<bool>,
}

/// Reads a page of backends.
pub(super) fn read_backends<'a>(
    ctx: &'a Context<'_>,
    application: Option<ApplicationId>,
    filter: Option<BackendFilter>,
    paging: Paging,
) -> Listed<'a, Backend> {
    async move {
        let scope = scope(ctx)?;
        let active = filter.unwrap_or_default().active;
        let page = app(ctx).backends(scope, application, active, &page(ctx, paging)?).await?;
        Ok(Connection::new(page, Backend))
    }
    .boxed()
}

/// Queries of backends.
#[derive(Default)]
pub struct BackendQuery;

#[Object]
impl BackendQuery {
    /// The backend of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn backend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Backend, Fault>> {
        let found = async { app(ctx).backend(scope(ctx)?, BackendId::parse(&id)?).await };
        nullable(async { Ok(Backend(found.await?)) }).await
    }

    /// Backends that the caller may see, by name.
    async fn backends(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only those of this application.")] application_id: Option<ID>,
        #[graphql(desc = "Only these.")] filter: Option<BackendFilter>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Backend>> {
        let application = wanted("applicationId", application_id)?;
        read_backends(ctx, application, filter, (first, after, last, before)).await
    }
}

/// Mutations of backends.
#[derive(Default)]
pub struct BackendMutation;

#[Object]
impl BackendMutation {
    /// Deletes a backend and answers it as it was. For the application's machine users, and for
    /// the maintainer and owner roles in the project. What is not delivered to it yet is
    /// cancelled, and counts as failed for its occurrence. A backend that goes on registering comes
    /// back.
    async fn delete_backend(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Backend> {
        let caller = caller(ctx)?;
        Ok(Backend(app(ctx).delete_backend(caller, BackendId::parse(&id)?).await?))
    }
}

/// The backend of that id, loaded with those of its siblings; none when it was deleted.
pub(super) async fn load(ctx: &Context<'_>, id: BackendId) -> Result<Option<Backend>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Backend))
}
