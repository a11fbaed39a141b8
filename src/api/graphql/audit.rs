//! The audit log.

use async_graphql::{Context, Enum, ID, InputObject, Json, Object};

use super::connection::Connection;
use super::context::{app, page, scope, wanted};
use super::time::DateTime;
use crate::app::AuditFilter as Filter;
use crate::domain::audit as domain;
use crate::domain::input;
use crate::error::{Error, Result};

/// A row of the audit log.
pub struct AuditLog(pub domain::AuditLog);

/// One change: who did what to which thing, when, and how it was before and after.
#[Object]
impl AuditLog {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// When.
    async fn at(&self) -> DateTime {
        self.0.at.into()
    }

    /// What kind of actor it was.
    async fn actor_type(&self) -> ActorType {
        match self.0.actor_type.as_str() {
            "user" => ActorType::User,
            "machine_user" => ActorType::MachineUser,
            _ => ActorType::System,
        }
    }

    /// The actor's id; none for the system.
    async fn actor_id(&self) -> Option<ID> {
        self.0.actor_id.map(|id| id.to_string().into())
    }

    /// The actor's name at that time.
    async fn actor_name(&self) -> &str {
        &self.0.actor_name
    }

    /// What was done, as `noun.verb`, for example `trigger.update`.
    async fn action(&self) -> &str {
        &self.0.action
    }

    /// The noun, for example `trigger`.
    async fn entity_type(&self) -> &str {
        &self.0.entity_type
    }

    /// The id of the thing.
    async fn entity_id(&self) -> ID {
        self.0.entity_id.to_string().into()
    }

    /// The project it belongs to, if to one.
    async fn project_id(&self) -> Option<ID> {
        self.0.project_id.map(|id| id.to_string().into())
    }

    /// The application it belongs to, if to one.
    async fn application_id(&self) -> Option<ID> {
        self.0.application_id.map(|id| id.to_string().into())
    }

    /// How it was; none when it was made.
    async fn before(&self) -> Option<Json<&serde_json::Value>> {
        self.0.before.as_ref().map(Json)
    }

    /// How it became; none when it was deleted.
    async fn after(&self) -> Option<Json<&serde_json::Value>> {
        self.0.after.as_ref().map(Json)
    }

    /// The id of the request that did it, as log lines and error answers carry it.
    async fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }
}

/// A kind of actor.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ActorType {
    /// A person.
    User,
    /// A machine user.
    MachineUser,
    /// The server itself.
    System,
}

/// Which rows of the audit log are wanted. All conditions that are given must hold.
#[derive(InputObject, Default)]
pub struct AuditLogFilter {
    /// Only those of this project.
    project_id: Option<ID>,
    /// Only those of this application.
    application_id: Option<ID>,
    /// Only those of this noun, for example `trigger`.
    entity_type: Option<String>,
    /// Only those of this thing, which may have been deleted.
    entity_id: Option<ID>,
    /// Only those by this user or machine user.
    actor_id: Option<ID>,
    /// Only this `noun.verb`.
    action: Option<String>,
    /// Only those at this time or later.
    since: Option<DateTime>,
    /// Only those before this time.
    until: Option<DateTime>,
}

impl TryFrom<AuditLogFilter> for Filter {
    type Error = Error;

    fn try_from(filter: AuditLogFilter) -> Result<Self> {
        Ok(Self {
            project_id: wanted("projectId", filter.project_id)?,
            application_id: wanted("applicationId", filter.application_id)?,
            entity_type: input::search("entityType", filter.entity_type)?,
            entity_id: wanted("entityId", filter.entity_id)?,
            actor_id: wanted("actorId", filter.actor_id)?,
            action: input::search("action", filter.action)?,
            since: filter.since.map(Into::into),
            until: filter.until.map(Into::into),
        })
    }
}

/// Queries of the audit log.
#[derive(Default)]
pub struct AuditLogQuery;

#[Object]
impl AuditLogQuery {
    /// The audit log of all that the caller may see, the latest row first. Rows that belong to no
    /// project are for system administrators.
    async fn audit_logs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only these.")] filter: Option<AuditLogFilter>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<AuditLog>> {
        let scope = scope(ctx)?;
        let filter = filter.unwrap_or_default().try_into()?;
        let request = page(ctx, (first, after, last, before))?;
        Ok(Connection::new(app(ctx).audit_logs(scope, &filter, &request).await?, AuditLog))
    }
}
