//! `GET /api/machine/check`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::door::Authenticated;
use super::problem::Problem;
use crate::app::App;
use crate::domain::id::MachineUserId;

/// Who the caller is, and whom it talks to.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "machineUser": {
        "id": "0198c0de-0000-7000-8000-000000000003",
        "username": "reports-production",
        "environment": "production"
    },
    "application": {
        "id": "0198c0de-0000-7000-8000-000000000002",
        "slug": "reports",
        "name": "Reports"
    },
    "project": {
        "id": "0198c0de-0000-7000-8000-000000000004",
        "slug": "shop",
        "name": "Shop"
    },
    "serverTime": "2026-01-01T00:00:00Z",
    "version": "0.1.0"
}))]
pub(super) struct CheckAnswer {
    /// The machine user that calls.
    machine_user: CheckedMachineUser,
    /// Its application.
    application: Named,
    /// Its application's project.
    project: Named,
    /// The server's time, for comparison with the caller's clock.
    server_time: DateTime<Utc>,
    /// The server's version.
    version: &'static str,
}

/// A machine user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckedMachineUser {
    /// Its id.
    #[schema(value_type = Uuid)]
    id: MachineUserId,
    /// Its name for Basic authentication.
    username: String,
    /// The environment's name.
    environment: String,
}

/// A thing by id and names.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    /// Its id.
    id: Uuid,
    /// Its name in addresses.
    slug: String,
    /// The name shown.
    name: String,
}

/// Check credentials
///
/// Says which machine user the credentials are of, and where it belongs. Changes nothing. For
/// machine users only.
#[utoipa::path(
    get,
    path = "/api/machine/check",
    tag = "Identity",
    responses((status = 200, description = "The credentials hold.", body = CheckAnswer)),
)]
pub(super) async fn check(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
) -> Result<Json<CheckAnswer>, Problem> {
    let identity = app.machine_identity(&caller.actor).await?;
    let (application, project) = (identity.application, identity.project);
    Ok(Json(CheckAnswer {
        machine_user: CheckedMachineUser {
            id: identity.id,
            username: identity.username,
            environment: identity.environment,
        },
        application: Named { id: application.id.0, slug: application.slug, name: application.name },
        project: Named { id: project.id.0, slug: project.slug, name: project.name },
        server_time: app.now(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
