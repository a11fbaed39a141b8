//! `POST /api/machine/register-backend` and `DELETE /api/machine/backends/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::door::{Authenticated, Body};
use super::problem::Problem;
use crate::app::{App, RegisterBackend, Registration};
use crate::domain::id::{ApplicationId, BackendId};
use crate::error::Result;

/// What a backend says of itself. In a refresh, what is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "name": "report-worker",
    "callbackUrl": "https://reports.example.com/hooks/triggers",
    "description": "Builds the nightly reports"
}))]
pub(super) struct RegisterBackendRequest {
    /// The backend's name, unique in its application. The same name again refreshes the
    /// registration.
    #[schema(value_type = String, required = true, min_length = 1, max_length = 100)]
    name: Option<String>,
    /// Where the server sends triggers, http or https. Private, loopback, link-local and cloud
    /// metadata addresses are refused, in any spelling, and names that resolve to one.
    #[serde(alias = "callback_url")]
    #[schema(value_type = String, format = "uri", required = true, max_length = 2048)]
    callback_url: Option<String>,
    /// What it is for.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// The application's id. A machine user may leave it out; a user may not.
    #[serde(alias = "application_id")]
    #[schema(format = Uuid)]
    application_id: Option<String>,
    /// The token that callbacks carry as `Authorization: Bearer`. Left out, one is made at the
    /// first registration and shown once. Given in a refresh, it replaces the one before.
    #[schema(min_length = 16, max_length = 512, pattern = "^[!-~]+$", write_only)]
    token: Option<String>,
    /// The secret that signs callbacks as Standard Webhooks says: `whsec_` and the base64 of 24
    /// to 64 bytes. Left out, one is made at the first registration and shown once.
    #[serde(alias = "signing_secret")]
    #[schema(write_only)]
    signing_secret: Option<String>,
    /// The version of the backend's software. An empty text takes it away.
    #[schema(max_length = 100)]
    version: Option<String>,
    /// Whether token and signing secret are made anew and shown once, unless given: for when
    /// they were lost. The old ones no longer hold.
    #[serde(alias = "rotate_secrets")]
    #[schema(default = false)]
    rotate_secrets: Option<bool>,
}

/// A registration as it now is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "0198c0de-0000-7000-8000-000000000001",
    "applicationId": "0198c0de-0000-7000-8000-000000000002",
    "name": "report-worker",
    "callbackUrl": "https://reports.example.com/hooks/triggers",
    "description": "Builds the nightly reports",
    "version": null,
    "active": true,
    "heartbeatTimeoutSeconds": 60,
    "registeredAt": "2026-01-01T00:00:00Z",
    "lastHeartbeatAt": "2026-01-01T00:00:00Z",
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T00:00:00Z",
    "token": "cb_Zm9yIHNob3csIG5vdCBmb3IgdXNlIQ",
    "signingSecret": "whsec_Zm9yIHNob3csIG5vdCBmb3IgdXNlIQ=="
}))]
pub(super) struct RegisteredBackend {
    /// The backend's id.
    #[schema(value_type = Uuid)]
    id: BackendId,
    /// Its application's id.
    #[schema(value_type = Uuid)]
    application_id: ApplicationId,
    /// Its name.
    name: String,
    /// Where it is called, in the normal form of the URL standard.
    callback_url: String,
    /// What it is for.
    description: String,
    /// The version of its software, if it told.
    version: Option<String>,
    /// Whether it receives triggers. True after every registration.
    active: bool,
    /// Without a heartbeat for this long, it becomes inactive. Send one in half the time.
    heartbeat_timeout_seconds: u64,
    /// When it last registered.
    registered_at: DateTime<Utc>,
    /// When it last registered or sent a heartbeat.
    last_heartbeat_at: DateTime<Utc>,
    /// When it first registered.
    created_at: DateTime<Utc>,
    /// When the registration was last changed.
    updated_at: DateTime<Utc>,
    /// The token that callbacks carry. Only in the answer to the request that had it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, read_only)]
    token: Option<String>,
    /// The secret that signs callbacks. Only in the answer to the request that had it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, read_only)]
    signing_secret: Option<String>,
}

/// Register a backend
///
/// The server calls every active backend of an application when one of the application's
/// triggers is due. A registration counts as a heartbeat, ends a deactivation, and has waiting
/// work delivered at once. Registering the same name again refreshes the registration: it is
/// safe to repeat after a lost answer. If that answer held secrets, ask for new ones with
/// `rotateSecrets`.
///
/// A machine user registers for its own application. A user needs the maintainer or owner role
/// in the application's project.
#[utoipa::path(
    post,
    path = "/api/machine/register-backend",
    tag = "Backends",
    request_body = RegisterBackendRequest,
    responses(
        (status = 200, description = "A registration of that name was there and is refreshed.", body = RegisteredBackend),
        (status = 201, description = "The backend is new.", body = RegisteredBackend),
        (status = 404, description = "There is no such application, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The application has 100 backends already.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn register_backend(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Body(request): Body<RegisterBackendRequest>,
) -> Result<(StatusCode, Json<RegisteredBackend>), Problem> {
    let registration = app.register_backend(&caller, request.parse()?).await?;
    let status = if registration.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(RegisteredBackend::of(&app, registration))))
}

/// Delete a backend
///
/// It gets no more triggers. What is not delivered to it yet is cancelled. Allowed to the
/// application's machine users, and to users with the maintainer or owner role.
#[utoipa::path(
    delete,
    path = "/api/machine/backends/{id}",
    tag = "Backends",
    params(("id" = Uuid, Path, description = "The backend's id.")),
    responses(
        (status = 204, description = "The backend is gone."),
        (status = 404, description = "There is no such backend, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn delete_backend(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.delete_backend(&caller, BackendId::parse(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl RegisterBackendRequest {
    fn parse(self) -> Result<RegisterBackend> {
        Ok(RegisterBackend {
            application_id: self.application_id.as_deref().map(ApplicationId::parse).transpose()?,
            name: self.name.unwrap_or_default(),
            callback_url: self.callback_url.unwrap_or_default(),
            description: self.description,
            version: self.version,
            token: self.token.map(SecretString::from),
            signing_secret: self.signing_secret.map(SecretString::from),
            rotate_secrets: self.rotate_secrets.unwrap_or_default(),
        })
    }
}

impl RegisteredBackend {
    fn of(app: &App, registration: Registration) -> Self {
        let Registration { backend, token, signing_secret, .. } = registration;
        let shown = |secret: Option<SecretString>| secret.map(|s| s.expose_secret().to_owned());
        Self {
            active: app.is_backend_active(&backend, app.now()),
            heartbeat_timeout_seconds: app.config.cron.backend_heartbeat_timeout.as_secs(),
            id: backend.id,
            application_id: backend.application_id,
            name: backend.name,
            callback_url: backend.callback_url,
            description: backend.description,
            version: backend.version,
            registered_at: backend.registered_at,
            last_heartbeat_at: backend.last_heartbeat_at,
            created_at: backend.created_at,
            updated_at: backend.updated_at,
            token: shown(token),
            signing_secret: shown(signing_secret),
        }
    }
}
