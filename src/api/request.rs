//! What holds for every request: an id, a span in the log, a count, an end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Instrument;
use uuid::Uuid;

use crate::app::App;

/// The header that carries a request's id, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client.
const ID_MAX: usize = 64;
/// No request is answered later.
const WITHIN: Duration = Duration::from_secs(30);

/// The id of a request, which log lines, the audit log and answers carry. An extension of every
/// request.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// The client's id if it is 1 to 64 letters, digits and `-_.`, else a fresh one.
    fn of(request: &Request) -> Self {
        let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let fits = |id: &&str| {
            (1..=ID_MAX).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        match given.filter(fits) {
            Some(id) => Self(id.into()),
            None => Self(Uuid::now_v7().to_string().into()),
        }
    }
}

/// Gives the request an id, watches it, and answers for it when it panics or takes too long.
pub(super) async fn observe(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = RequestId::of(&request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let span = tracing::info_span!("request", id = %id.0, %method, route);
    request.extensions_mut().insert(id.clone());
    let answered = AssertUnwindSafe(timeout(WITHIN, next.run(request))).catch_unwind();
    let mut response = match answered.instrument(span.clone()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            let detail = "the request took too long and was given up; what it had changed by then stays changed: look before you repeat it";
            failed(route, StatusCode::SERVICE_UNAVAILABLE, detail, &id)
        }
        // The panic's own message is in the log already.
        Err(_) => failed(route, StatusCode::INTERNAL_SERVER_ERROR, "internal error", &id),
    };
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (status, took) = (response.status(), began.elapsed());
    app.metrics.http_request(route, &method, status, took);
    span.in_scope(|| tracing::debug!(status = status.as_u16(), ?took, "answered"));
    response
}

fn failed(
    route: Option<&str>,
    status: StatusCode,
    detail: &'static str,
    id: &RequestId,
) -> Response {
    let code = if status.as_u16() == 503 { "BUSY" } else { "INTERNAL" };
    match status {
        StatusCode::INTERNAL_SERVER_ERROR => {
            tracing::error!(request_id = %id.0, route, "a request was not answered");
        }
        // Its client may be as slow as the server: nothing to wake somebody for.
        _ => tracing::warn!(request_id = %id.0, route, "a request took too long and was given up"),
    }
    if matches!(route, Some("/graphql" | "/query")) {
        let extensions = json!({ "code": code, "requestId": &*id.0 });
        let body = json!({ "errors": [{ "message": detail, "extensions": extensions }] });
        return (status, Json(body)).into_response();
    }
    problem(status, detail, json!({ "code": code, "requestId": &*id.0 }))
}

/// What is answered where there is no route.
pub(super) async fn not_found() -> Response {
    let detail = "there is nothing here; see /graphql and /graphiql";
    problem(StatusCode::NOT_FOUND, detail, json!({ "code": "NOT_FOUND" }))
}

/// A problem document (RFC 9457) with members of its own.
fn problem(status: StatusCode, detail: &str, mut body: Value) -> Response {
    body["type"] = "about:blank".into();
    body["title"] = status.canonical_reason().unwrap_or_default().into();
    body["status"] = status.as_u16().into();
    body["detail"] = detail.into();
    let kind = [(CONTENT_TYPE, "application/problem+json")];
    (status, kind, body.to_string()).into_response()
}
