//! What operators and their machines look at: metrics and health, on a port of their own.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use crate::app::App;
use crate::telemetry;

/// `/metrics` in the Prometheus text format, `/healthz` and `/readyz`.
pub fn router(app: Arc<App>) -> Router {
    Router::new().route("/metrics", get(metrics)).merge(health()).with_state(app)
}

/// `/healthz`: the process lives; it asks nobody. `/readyz`: the database answers and has the
/// schema that this program knows; 503 when not.
pub fn health() -> Router<Arc<App>> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], app.metrics.encode())
}

async fn alive() -> impl IntoResponse {
    answer(StatusCode::OK, "alive")
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.store.pending_migrations().await {
        Ok(0) => answer(StatusCode::OK, "ready"),
        Ok(_) => answer(StatusCode::SERVICE_UNAVAILABLE, "the database's schema is not up to date"),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            answer(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")
        }
    }
}

fn answer(status: StatusCode, text: &str) -> Response {
    (status, axum::Json(json!({ "status": text, "version": env!("CARGO_PKG_VERSION") }))).into_response()
}
