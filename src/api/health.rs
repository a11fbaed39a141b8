//! Whether the process lives, and whether it can serve.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::app::App;

/// `GET /healthz`: 200 while the process answers at all; asks nobody. `GET /readyz`: 200 if the
/// database answers and its schema is as new as the program, else 503.
pub fn router(app: Arc<App>) -> Router {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(app)
}

async fn alive() -> Response {
    answer(StatusCode::OK, "ok")
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.ready().await {
        Ok(()) => answer(StatusCode::OK, "ok"),
        Err(error) => {
            tracing::warn!(?error, "not ready");
            answer(StatusCode::SERVICE_UNAVAILABLE, "unavailable")
        }
    }
}

fn answer(status: StatusCode, text: &str) -> Response {
    (status, [(CACHE_CONTROL, "no-store")], Json(json!({ "status": text }))).into_response()
}
