//! What every error of the REST surface looks like: RFC 9457 problem documents.
//!
//! A [`Problem`] is made where something goes wrong; [`render`], the layer around all routes,
//! knows the request and writes it out. Answers that the router itself makes (an unknown path,
//! a method that is not there) become problems there too.

use std::error::Error as StdError;
use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::RequestId;
use crate::domain::rule::misfit::cut;
use crate::error::{BUSY_SECONDS, Error, MESSAGE_MAX, RATE_LIMITED_SECONDS};

/// The media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// How to authenticate, as a 401 says it (RFC 9110, section 11.6.1).
const CHALLENGE: &str = "Bearer, Basic realm=\"machine\"";

/// What a client reads when something went wrong (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "type": "about:blank",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "callbacks may not reach a loopback address; use a public address, or one of an allowed network",
    "instance": "/api/machine/register-backend",
    "code": "CALLBACK_ADDRESS_REFUSED",
    "field": "callbackUrl",
    "requestId": "0198c0de-7d2f-7000-8000-0242ac120002"
}))]
pub struct Problem {
    /// Always `about:blank`: the problem is told apart by `code`.
    #[serde(rename = "type", serialize_with = "about_blank")]
    #[schema(value_type = String)]
    kind: (),
    /// The status in words.
    #[schema(value_type = String)]
    title: &'static str,
    /// The HTTP status.
    #[serde(serialize_with = "number")]
    #[schema(value_type = u16, minimum = 400, maximum = 599)]
    status: StatusCode,
    /// What is wrong and what would be right, for people.
    #[schema(value_type = String)]
    detail: Box<str>,
    /// The path of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    instance: Option<Box<str>>,
    /// What is wrong, for programs: a stable word in upper case.
    #[schema(value_type = String)]
    code: &'static str,
    /// The field of the input that does not fit, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    field: Option<Box<str>>,
    /// The request's id, which the server's log carries too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    request_id: Option<Box<str>>,
    #[serde(skip)]
    #[schema(ignore)]
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

fn about_blank<S: serde::Serializer>(_: &(), serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("about:blank")
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    /// A problem of that status.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: (),
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into().into(),
            instance: None,
            code,
            field: None,
            request_id: None,
            cause: None,
        }
    }

    /// The same problem with another sentence.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into().into();
        self
    }

    /// The same problem, about that field.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into());
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What a bare status of the router or of an extractor means.
    fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("NOT_FOUND", "there is nothing at this path"),
            StatusCode::METHOD_NOT_ALLOWED => (
                "METHOD_NOT_ALLOWED",
                "this path does not take this method; the header Allow names those that it takes",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => ("PAYLOAD_TOO_LARGE", "the body is too large"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                ("UNSUPPORTED_MEDIA_TYPE", "the body must be application/json")
            }
            status if status.is_client_error() => ("BAD_REQUEST", "the request can't be read"),
            _ => ("INTERNAL", "internal error"),
        };
        Self::new(status, code, detail)
    }

    fn retry_after(&self) -> Option<u32> {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => Some(BUSY_SECONDS),
            StatusCode::TOO_MANY_REQUESTS => Some(RATE_LIMITED_SECONDS),
            _ => None,
        }
    }

    /// The only place where an internal error is logged.
    fn log(&self) {
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            let cause = self.cause.as_ref().map(|cause| chain(cause.as_ref()));
            let (path, request_id) = (self.instance.as_deref(), self.request_id.as_deref());
            tracing::error!(error = cause, path, request_id, "a request failed");
        }
    }

    fn write(&self) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        let body = Json(self).into_response().into_body();
        (self.status, headers, body).into_response()
    }
}

/// 422 for a value that does not fit, so that 400 means "can't be read at all"; 404 for what may
/// not be seen; an internal error is a fixed sentence.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::NotFound { .. } => StatusCode::NOT_FOUND,
            Error::Conflict { .. } => StatusCode::CONFLICT,
            Error::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
            Error::Forbidden { .. } => StatusCode::FORBIDDEN,
            Error::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::Busy | Error::Skewed => StatusCode::SERVICE_UNAVAILABLE,
            Error::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut problem = Self::new(status, error.code(), cut(&error.to_string(), MESSAGE_MAX));
        problem.field = error.field().map(Into::into);
        if let Error::Internal(cause) = error {
            problem.cause = Some(cause.into());
        }
        problem
    }
}

impl IntoResponse for Problem {
    /// The status alone; `render` writes the document.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The layer around all routes: writes problems out, and keeps answers out of caches, since
/// they are each caller's own.
pub(in crate::api) async fn render(request: Request, next: Next) -> Response {
    let path = match request.extensions().get::<OriginalUri>() {
        Some(original) => original.path().to_owned(),
        None => request.uri().path().to_owned(),
    };
    let request_id = request_id(request.extensions());
    let mut response = next.run(request).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let problem = response.extensions_mut().remove::<Problem>();
        let mut problem = problem.unwrap_or_else(|| Problem::of_status(status));
        problem.instance = Some(path.into());
        problem.request_id = request_id.map(Into::into);
        problem.log();
        response = problem.write();
    }
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The id that the request came with or was given.
pub(super) fn request_id(extensions: &axum::http::Extensions) -> Option<String> {
    extensions.get::<RequestId>().map(|id| id.0.to_string())
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
