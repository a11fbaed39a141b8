//! The REST surface for machines: a backend registers, sends heartbeats, asks who it is and
//! which tenants there are; services send events and queue resumes of workflows; the LINE platform
//! sends its webhooks.
//!
//! Names are camelCase going out; coming in, snake_case is read too. A field that is not known is
//! refused, as it may be a known one with a slip in it, which would mean something else; only events
//! keep what their senders add. Every error is a problem document ([`Problem`]). Handlers translate between HTTP and use cases and decide
//! nothing.

mod backend;
mod check;
mod door;
mod events;
mod heartbeat;
mod problem;
mod scheduled_action;
mod tenants;
#[cfg(test)]
mod tests;
mod webhook;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi;
use crate::app::App;

pub use door::BODY_MAX;
pub use problem::{PROBLEM_JSON, Problem};

/// The routes under `/api/machine` and `/api/line`, the OpenAPI document with its reference page
/// ([`openapi::router`]), and 404 for whatever else is under `/api`. More specific routes of
/// other routers may be merged; errors of theirs are their own.
///
/// A request's id is taken from the extension that tower-http's request id layer sets.
pub fn router() -> Router<Arc<App>> {
    let (machine, _) = documented().split_for_parts();
    machine
        .merge(openapi::router())
        .route("/api", any(nothing))
        .route("/api/", any(nothing))
        .route("/api/{*path}", any(nothing))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(problem::render))
}

/// The routes together with what is said about them.
pub(super) fn documented() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default()
        .routes(routes!(backend::register_backend))
        .routes(routes!(backend::delete_backend))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(check::check))
        .routes(routes!(tenants::tenants))
        .routes(routes!(tenants::tenants_alias))
        .routes(routes!(events::receive_events))
        .routes(routes!(scheduled_action::create))
        .routes(routes!(scheduled_action::show, scheduled_action::cancel))
        .routes(routes!(webhook::receive_webhook))
}

async fn nothing() -> StatusCode {
    StatusCode::NOT_FOUND
}
