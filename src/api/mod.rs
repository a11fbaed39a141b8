//! What the server answers over HTTP.

pub mod console;
pub mod graphql;
pub mod health;
pub mod machine;
pub mod openapi;
mod request;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method};
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::cors::CorsLayer;

use self::request::{ANSWERED_WITHIN, REQUEST_ID};
pub use self::request::{Place, RequestId};
use crate::app::App;
use crate::config::CorsConfig;

/// How long a browser may remember what pages of another origin may do.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(3600);

/// All routes. Each answer carries an `x-request-id`: the request's own, if it has a fitting one.
/// No request is answered later than after 30 s; a websocket is no request any more.
pub fn router(app: Arc<App>) -> Router {
    let graphiql = app.config.graphql.graphiql;
    let mut routes = Router::new()
        .merge(graphql::router(Arc::clone(&app)))
        .merge(health::router(Arc::clone(&app)));
    if graphiql {
        routes = routes.merge(console::router());
    }
    let routes = routes.method_not_allowed_fallback(request::method_not_allowed);
    let routes = routes.merge(machine::router().with_state(Arc::clone(&app)));
    around(app, routes.fallback(request::not_found))
}

/// What stands around the routes. From the inside out: whoever panics or takes too long is answered
/// for, pages of other origins may read that answer like any other, and every answer has an id and
/// is counted.
fn around(app: Arc<App>, routes: Router) -> Router {
    let routes = routes.layer(from_fn(request::answer));
    let routes = match cross_origin(&app.config.cors) {
        Some(layer) => routes.layer(layer),
        None => routes,
    };
    routes.layer(from_fn_with_state(app, request::observe))
}

/// What pages of the configured origins may do; none: pages of others may do nothing. Credentials
/// are headers that the page itself sets, never cookies.
fn cross_origin(config: &CorsConfig) -> Option<CorsLayer> {
    let origins = config.allowed_origins.iter();
    let origins: Vec<_> = origins.filter_map(|o| HeaderValue::from_str(o).ok()).collect();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::DELETE])
            .allow_headers([AUTHORIZATION, CONTENT_TYPE, REQUEST_ID])
            .expose_headers([REQUEST_ID, RETRY_AFTER])
            .max_age(PREFLIGHT_MAX_AGE)
    })
}
