//! What operators and their machines look at: metrics and health, on a port of their own.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::api::health;
use crate::app::App;
use crate::telemetry;

/// `/metrics` in the Prometheus text format, `/healthz` and `/readyz`.
pub fn router(app: Arc<App>) -> Router {
    let metrics = Router::new().route("/metrics", get(metrics)).with_state(app.clone());
    metrics.merge(health::router(app))
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], app.metrics.encode())
}
