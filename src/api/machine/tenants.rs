//! `GET /api/machine/application/{id}/tenants` and its alias.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::door::Authenticated;
use super::problem::Problem;
use crate::app::App;
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, TenantId};

/// Which tenants are wanted.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TenantsQuery {
    /// An environment's name, or `all`. Left out: a machine user's own environment; for a user,
    /// all.
    #[param(max_length = 100, example = "production")]
    environment: Option<String>,
}

/// A tenant of an application.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "0198c0de-0000-7000-8000-000000000005",
    "slug": "acme",
    "name": "Acme",
    "environment": "production"
}))]
pub(super) struct TenantAnswer {
    /// Its id.
    #[schema(value_type = Uuid)]
    id: TenantId,
    /// Its name in addresses, unique in application and environment.
    slug: String,
    /// The name shown.
    name: String,
    /// Its environment's name.
    environment: String,
}

/// List an application's tenants
///
/// All of them, by slug: what a backend loops over when a trigger's work is per tenant.
#[utoipa::path(
    get,
    path = "/api/machine/application/{id}/tenants",
    tag = "Tenants",
    params(("id" = Uuid, Path, description = "The application's id."), TenantsQuery),
    responses(
        (status = 200, description = "The tenants.", body = [TenantAnswer]),
        (status = 404, description = "There is no such application, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn tenants(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<TenantsQuery>,
) -> Result<Json<Vec<TenantAnswer>>, Problem> {
    answer(&app, &caller, &id, query).await
}

/// List an application's tenants (alias)
///
/// The same as `GET /api/machine/application/{id}/tenants`.
#[utoipa::path(
    get,
    path = "/api/machine/applications/{id}/tenants",
    tag = "Tenants",
    params(("id" = Uuid, Path, description = "The application's id."), TenantsQuery),
    responses(
        (status = 200, description = "The tenants.", body = [TenantAnswer]),
        (status = 404, description = "There is no such application, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn tenants_alias(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<TenantsQuery>,
) -> Result<Json<Vec<TenantAnswer>>, Problem> {
    answer(&app, &caller, &id, query).await
}

async fn answer(
    app: &App,
    caller: &Caller,
    id: &str,
    query: TenantsQuery,
) -> Result<Json<Vec<TenantAnswer>>, Problem> {
    let id = ApplicationId::parse(id)?;
    let tenants = app.every_tenant(&caller.actor, id, query.environment.as_deref()).await?;
    let tenants = tenants.into_iter().map(|tenant| TenantAnswer {
        id: tenant.id,
        slug: tenant.slug,
        name: tenant.name,
        environment: tenant.environment,
    });
    Ok(Json(tenants.collect()))
}
