//! An application and what belongs to it: tenants, machine users, backends.

use chrono::{DateTime, Duration, Utc};
use serde::Serialize;

use super::id::{ApplicationId, BackendId, MachineUserId, ProjectId, TenantId};

/// A service of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// The id.
    pub id: ApplicationId,
    /// Its project.
    pub project_id: ProjectId,
    /// The name in addresses, unique in the project.
    pub slug: String,
    /// The name shown.
    pub name: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a backend loops over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// The id.
    pub id: TenantId,
    /// Its application.
    pub application_id: ApplicationId,
    /// The name in addresses, unique in the application and environment.
    pub slug: String,
    /// The name shown.
    pub name: String,
    /// The environment's name, for example `production`.
    pub environment: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The identity that an application's backends use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineUser {
    /// The id.
    pub id: MachineUserId,
    /// Its application, the only one that it touches.
    pub application_id: ApplicationId,
    /// The name shown.
    pub name: String,
    /// The environment's name, for example `production`.
    pub environment: String,
    /// The name for Basic authentication, unique in the whole server.
    pub username: String,
    /// The token's first characters, to tell tokens apart.
    pub token_prefix: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A backend that registered to receive an application's triggers. One row a name and application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The id.
    pub id: BackendId,
    /// Its application.
    pub application_id: ApplicationId,
    /// The machine user that registered it last.
    pub machine_user_id: Option<MachineUserId>,
    /// The name, unique in the application.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it is called.
    pub callback_url: String,
    /// The version that it told.
    pub version: Option<String>,
    /// When it last registered.
    pub registered_at: DateTime<Utc>,
    /// When it last registered or sent a heartbeat.
    pub last_heartbeat_at: DateTime<Utc>,
    /// Since when it is deactivated, for example by an answer 410, until it registers again.
    pub deactivated_at: Option<DateTime<Utc>>,
    /// Why it is deactivated.
    pub deactivated_reason: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Backend {
    /// Whether it receives triggers at `now`: not deactivated, and its last heartbeat is
    /// no older than `timeout`.
    pub fn is_active(&self, now: DateTime<Utc>, timeout: Duration) -> bool {
        self.deactivated_at.is_none() && self.last_heartbeat_at >= now - timeout
    }
}
