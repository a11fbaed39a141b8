//! What holds for every request: an id, a span in the log, a count, an end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Instrument;
use uuid::Uuid;

use crate::app::App;
use crate::error::{BUSY_SECONDS, Error};

/// The header that carries a request's id, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client.
const ID_MAX: usize = 64;
/// No request is answered later.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const TOO_LONG: &str = "the request took too long and was given up; what it had changed by then \
                        stays changed: look before you repeat it";

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

/// The place of a connection among those that may be open, which the end of the process waits for. An
/// extension of every request: what goes on after the answer, such as a websocket, keeps it until it ends.
#[derive(Clone)]
pub struct Place {
    _held: Arc<dyn Send + Sync>,
}

impl Place {
    /// One that is free again, and not waited for, once `held` is dropped: with its last clone.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self { _held: Arc::new(held) }
    }
}

/// Gives the request an id, watches it and counts it.
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
    let mut response = next.run(request).instrument(span.clone()).await;
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (status, took) = (response.status(), began.elapsed());
    app.metrics.http_request(route, &method, status, took);
    span.in_scope(|| tracing::debug!(status = status.as_u16(), ?took, "answered"));
    response
}

/// Answers for a request that panics or takes too long.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let asked = Asked::of(&request);
    match AssertUnwindSafe(timeout(ANSWERED_WITHIN, next.run(request))).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => asked.took_too_long(),
        // The panic's own message is in the log already.
        Err(_) => asked.broke_off(),
    }
}

/// What has to be known of a request that is answered for.
struct Asked {
    id: Option<RequestId>,
    route: Option<MatchedPath>,
    path: String,
    /// Whether it may be repeated without a look at what came of it.
    safe: bool,
}

impl Asked {
    fn of(request: &Request) -> Self {
        Self {
            id: request.extensions().get().cloned(),
            route: request.extensions().get().cloned(),
            path: request.uri().path().to_owned(),
            safe: request.method().is_safe(),
        }
    }

    /// Its client may be as slow as the server: nothing to wake somebody for. Who may have changed
    /// something is not told when to repeat it: clients do so by themselves.
    fn took_too_long(&self) -> Response {
        let (request_id, route) = (self.id(), self.route());
        tracing::warn!(request_id, route, "a request took too long and was given up");
        let mut response = self.write(StatusCode::SERVICE_UNAVAILABLE, TOO_LONG, &Error::Busy);
        if self.safe {
            response.headers_mut().insert(RETRY_AFTER, BUSY_SECONDS.into());
        }
        response
    }

    fn broke_off(&self) -> Response {
        let (request_id, route) = (self.id(), self.route());
        tracing::error!(request_id, route, "a request was not answered");
        let error = Error::internal("it broke off");
        self.write(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), &error)
    }

    /// As GraphQL writes errors where that was asked, otherwise as a problem document.
    fn write(&self, status: StatusCode, detail: &str, error: &Error) -> Response {
        let mut members = json!({ "code": error.code(), "requestId": self.id() });
        if !matches!(self.route(), Some("/graphql" | "/query")) {
            return problem(status, detail, &self.path, members);
        }
        if let Some(seconds) = error.retry_after_seconds().filter(|_| self.safe) {
            members["retryAfterSeconds"] = seconds.into();
        }
        let body = json!({ "errors": [{ "message": detail, "extensions": members }] });
        (status, Json(body)).into_response()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_ref().map(|id| &*id.0)
    }

    fn route(&self) -> Option<&str> {
        self.route.as_ref().map(MatchedPath::as_str)
    }
}

/// What is answered where there is no route.
pub(super) async fn not_found(uri: Uri) -> Response {
    let detail = "there is nothing here; see /graphql and /graphiql";
    problem(StatusCode::NOT_FOUND, detail, uri.path(), json!({ "code": "NOT_FOUND" }))
}

/// What is answered where a route does not take the method.
pub(super) async fn method_not_allowed(uri: Uri) -> Response {
    let detail = "this path does not take this method; the header Allow names those that it takes";
    let code = json!({ "code": "METHOD_NOT_ALLOWED" });
    problem(StatusCode::METHOD_NOT_ALLOWED, detail, uri.path(), code)
}

/// A problem document (RFC 9457) about the request of that path, with members of its own.
fn problem(status: StatusCode, detail: &str, path: &str, mut body: Value) -> Response {
    body["type"] = "about:blank".into();
    body["title"] = status.canonical_reason().unwrap_or_default().into();
    body["status"] = status.as_u16().into();
    body["detail"] = detail.into();
    body["instance"] = path.into();
    let kind = [(CONTENT_TYPE, "application/problem+json")];
    (status, kind, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Method;

    use super::*;

    #[tokio::test]
    async fn only_who_changed_nothing_is_told_when_to_repeat_what_took_too_long() {
        for (method, told) in [(Method::GET, true), (Method::POST, false), (Method::DELETE, false)]
        {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method.clone();
            let response = Asked::of(&request).took_too_long();
            assert_eq!(response.headers().contains_key(RETRY_AFTER), told, "{method}");
            let body = to_bytes(response.into_body(), 4096).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains("look before you repeat it"));
        }
    }
}
