//! `POST /api/machine/heartbeat`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::door::{Authenticated, OptionalBody};
use super::problem::Problem;
use crate::app::{App, HeartbeatOf};
use crate::domain::id::{ApplicationId, BackendId};
use crate::error::{Error, Result};

/// Whose heartbeat it is. Without `id` and `name`: of all backends that the machine user
/// registered. No body at all says the same.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "name": "report-worker" }))]
pub(super) struct HeartbeatRequest {
    /// The backend's id; `backendId` is read too.
    #[serde(alias = "backendId", alias = "backend_id")]
    #[schema(format = Uuid)]
    id: Option<String>,
    /// The backend's name. Together with an id both must fit.
    #[schema(max_length = 100)]
    name: Option<String>,
    /// The application's id, for a user who gives a name. A machine user may leave it out.
    #[serde(alias = "application_id")]
    #[schema(format = Uuid)]
    application_id: Option<String>,
}

/// What was heard of.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "backends": [{
        "id": "0198c0de-0000-7000-8000-000000000001",
        "name": "report-worker",
        "active": true,
        "lastHeartbeatAt": "2026-01-01T00:00:30Z"
    }],
    "nextHeartbeatBeforeSeconds": 60
}))]
pub(super) struct HeartbeatAnswer {
    /// The backends that the heartbeat was of, by name.
    backends: Vec<LiveBackend>,
    /// Within how many seconds the next one must come. Send it in half the time.
    next_heartbeat_before_seconds: u64,
}

/// A backend and whether it receives triggers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveBackend {
    /// Its id.
    #[schema(value_type = Uuid)]
    id: BackendId,
    /// Its name.
    name: String,
    /// Whether it receives triggers. False only for one that was deactivated, for example by
    /// its answer 410: it must register again.
    active: bool,
    /// When it last registered or sent a heartbeat.
    last_heartbeat_at: DateTime<Utc>,
}

/// Send a heartbeat
///
/// Says that a backend is there. One that was inactive because heartbeats failed to come
/// receives triggers again at once, and what waited for it is due.
///
/// A heartbeat that makes a backend active is written to the audit log as `backend.activate`;
/// one that only moves the time is not.
#[utoipa::path(
    post,
    path = "/api/machine/heartbeat",
    tag = "Backends",
    request_body = Option<HeartbeatRequest>,
    responses(
        (status = 200, description = "The heartbeat was noted.", body = HeartbeatAnswer),
        (status = 404, description = "There is no such backend, the caller may not see it, or the machine user registered none. Register first.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The backend was deactivated, for example by its answer 410. Register it again.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn heartbeat(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    OptionalBody(request): OptionalBody<HeartbeatRequest>,
) -> Result<Json<HeartbeatAnswer>, Problem> {
    let of = request.parse().map_err(register_first)?;
    let backends = app.heartbeat(&caller, of).await.map_err(register_first)?;
    let now = app.now();
    let backends = backends
        .into_iter()
        .map(|backend| LiveBackend {
            active: app.is_backend_active(&backend, now),
            id: backend.id,
            name: backend.name,
            last_heartbeat_at: backend.last_heartbeat_at,
        })
        .collect();
    let seconds = app.config.cron.backend_heartbeat_timeout.as_secs();
    Ok(Json(HeartbeatAnswer { backends, next_heartbeat_before_seconds: seconds }))
}

impl HeartbeatRequest {
    fn parse(self) -> Result<HeartbeatOf> {
        Ok(HeartbeatOf {
            backend_id: self.id.as_deref().map(BackendId::parse).transpose()?,
            name: self.name,
            application_id: self.application_id.as_deref().map(ApplicationId::parse).transpose()?,
        })
    }
}

fn register_first(error: Error) -> Problem {
    let problem = Problem::from(error);
    match problem.status() {
        StatusCode::NOT_FOUND => problem.with_detail(
            "backend not found; register first, with POST /api/machine/register-backend",
        ),
        _ => problem,
    }
}
