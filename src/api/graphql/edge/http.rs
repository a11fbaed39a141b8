//! GraphQL over HTTP, by the draft of the specification of that name.
//!
//! A request that can't be taken is refused with the status that says so, whatever the client
//! accepts. A request that was taken is answered 200 as `application/json`; as
//! `application/graphql-response+json` only if it was executed, otherwise 400 for what is no
//! GraphQL and 422 for what does not fit the schema.

use std::net::SocketAddr;
use std::sync::Arc;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Response as Answer, ServerError, Value};
use axum::body::{Body, HttpBody};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use secrecy::SecretString;
use serde::Serialize;

use super::guard::{DOCUMENT_MAX, too_long};
use super::media::{Media, sends_json};
use super::{BODY_MAX, Operation, Service, Visitor, is_unauthenticated, origin, socket};
use crate::api::graphql::error::{Outcome, refusal};
use crate::api::graphql::session::Origin;
use crate::api::{Place, RequestId};
use crate::error::Error;

/// What a request is refused with.
type Refused = Box<Response>;

/// A query or a mutation.
pub(super) async fn post(
    State(service): State<Arc<Service>>,
    request: axum::extract::Request,
) -> Response {
    let answered = async {
        let media = accepted(request.headers())?;
        if !sends_json(request.headers()) {
            let reason = "send the request as application/json in UTF-8";
            return Err(refuse(media, StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
        }
        let (parts, body) = request.into_parts();
        let visitor = admit(&service, media, &parts.headers, &parts.extensions).await?;
        let body = read(media, body).await?;
        let request = parse(media, &body)?;
        Ok(respond(media, service.execute(request, visitor).await))
    };
    answered.await.unwrap_or_else(|refused: Refused| *refused)
}

/// A query, or a websocket.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: axum::extract::Request,
) -> Response {
    let (parts, _) = request.into_parts();
    if asks_for_websocket(&parts.headers) {
        return connect(service, upgrade, &parts.headers, &parts.extensions);
    }
    let answered = async {
        let media = accepted(&parts.headers)?;
        let visitor = admit(&service, media, &parts.headers, &parts.extensions).await?;
        let mut request = from_address(media, parts.uri.query().unwrap_or_default())?;
        if let Ok(OperationType::Mutation) = service.guard.check(&mut request) {
            let reason = "a mutation must be sent with POST";
            let mut refused = refuse(media, StatusCode::METHOD_NOT_ALLOWED, reason);
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Err(refused);
        }
        Ok(respond(media, service.execute(request, visitor).await))
    };
    answered.await.unwrap_or_else(|refused: Refused| *refused)
}

/// Whatever else a client offers to speak is no reason not to answer the request.
fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    offers
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case("websocket"))
}

fn connect(
    service: Arc<Service>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    headers: &HeaderMap,
    extensions: &axum::http::Extensions,
) -> Response {
    if !origin::may_connect(headers, &service.app.config) {
        let reason = "pages of this origin may not open a websocket; see cors.allowed_origins";
        return *refuse(Media::Json, StatusCode::FORBIDDEN, reason);
    }
    let presented = match presented(headers) {
        Ok(presented) => presented,
        Err(error) => return *refuse_with(Media::Json, &error, ""),
    };
    let origin = came_from(&service, extensions);
    let place = extensions.get::<Place>().cloned();
    match upgrade {
        Ok(upgrade) => upgrade
            .protocols([socket::PROTOCOL])
            .max_message_size(BODY_MAX)
            .max_frame_size(BODY_MAX)
            .on_upgrade(async move |socket| {
                socket::serve(service, socket, presented, origin).await;
                drop(place);
            }),
        Err(rejection) => {
            let reason = format!("no websocket can be opened: {}", rejection.body_text());
            *refuse(Media::Json, StatusCode::BAD_REQUEST, reason)
        }
    }
}

fn accepted(headers: &HeaderMap) -> Result<Media, Refused> {
    Media::accepted(headers).ok_or_else(|| {
        let reason = "accept application/graphql-response+json or application/json";
        refuse(Media::Json, StatusCode::NOT_ACCEPTABLE, reason)
    })
}

async fn admit(
    service: &Service,
    media: Media,
    headers: &HeaderMap,
    extensions: &axum::http::Extensions,
) -> Result<Visitor, Refused> {
    let origin = came_from(service, extensions);
    let request_id = origin.request_id.clone().unwrap_or_default();
    let admitted = match presented(headers) {
        Ok(presented) => service.admit(presented, origin).await,
        Err(error) => Err(error),
    };
    admitted.map_err(|error| refuse_with(media, &error, &request_id))
}

/// The credentials of the request. Refused: what is no text, and more than one.
fn presented(headers: &HeaderMap) -> Result<Option<SecretString>, Error> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let refused = Error::Unauthenticated {
        reason: "send one header Authorization, with Bearer and a token in visible ASCII",
    };
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(|text| Some(text.into())).map_err(|_| refused),
        _ => Err(refused),
    }
}

/// Behind a proxy the peer is the proxy, and says nothing about the client.
fn came_from(service: &Service, extensions: &axum::http::Extensions) -> Origin {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    Origin {
        address: peer.filter(|_| service.app.config.public_url.is_none()),
        request_id: extensions.get::<RequestId>().map(|id| id.0.to_string()),
    }
}

async fn read(media: Media, body: Body) -> Result<Bytes, Refused> {
    let too_long = || {
        let reason = format!("the body is longer than {BODY_MAX} bytes");
        refuse(media, StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    // Nobody waits for a body that says of itself that it is too large.
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_long());
    }
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(_) => Err(refuse(media, StatusCode::BAD_REQUEST, "the body did not arrive whole")),
    }
}

fn parse(media: Media, body: &[u8]) -> Result<Request, Refused> {
    let refuse = |reason: String| refuse(media, StatusCode::BAD_REQUEST, reason);
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(b'[') => return Err(refuse("send one operation; batches are not supported".into())),
        _ => return Err(refuse("the body must be a JSON object".into())),
    }
    let operation = serde_json::from_slice::<Operation>(body).map_err(|error| {
        refuse(format!(
            "the body must be a JSON object with the text query, and optionally the text \
             operationName and the object variables: {error}"
        ))
    })?;
    into_request(media, operation)
}

/// The parameters of a GET request, as the draft names them.
fn from_address(media: Media, query: &str) -> Result<Request, Refused> {
    let mut operation =
        Operation { query: None, operation_name: None, variables: None, _extensions: None };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            "query" => operation.query = Some(value.into_owned()),
            "operationName" => operation.operation_name = Some(value.into_owned()),
            "variables" => {
                operation.variables = serde_json::from_str(&value).map_err(|error| {
                    let reason = format!("variables must be a JSON object: {error}");
                    refuse(media, StatusCode::BAD_REQUEST, reason)
                })?;
            }
            _ => {}
        }
    }
    into_request(media, operation)
}

fn into_request(media: Media, operation: Operation) -> Result<Request, Refused> {
    match operation.into_request() {
        None => {
            let reason = "query is missing: the text of the GraphQL document";
            Err(refuse(media, StatusCode::BAD_REQUEST, reason))
        }
        Some(request) if request.query.len() > DOCUMENT_MAX => {
            let reason = too_long(request.query.len());
            Err(refuse(media, StatusCode::PAYLOAD_TOO_LARGE, reason))
        }
        Some(request) => Ok(request),
    }
}

/// A request that was not taken. The code is the name of the status.
fn refuse(media: Media, status: StatusCode, reason: impl Into<String>) -> Refused {
    let mut error = ServerError::new(reason, None);
    let code = status.canonical_reason().unwrap_or_default().to_ascii_uppercase().replace(' ', "_");
    error.extensions.get_or_insert_default().set("code", code);
    Box::new(write(media, status, &Answer::from_errors(vec![error]), false))
}

/// A request that was not taken because of `error`. Never asks for Basic: a browser would open
/// its own dialogue.
fn refuse_with(media: Media, error: &Error, request_id: &str) -> Refused {
    let status = match error {
        error if is_unauthenticated(error) => StatusCode::UNAUTHORIZED,
        Error::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::Busy | Error::Skewed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = write(media, status, &refusal(error, request_id), false);
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    Box::new(response)
}

fn respond(media: Media, (answer, outcome): (Answer, Outcome)) -> Response {
    let status = match (media, outcome) {
        (Media::Json, _) | (_, Outcome::Executed) => StatusCode::OK,
        (Media::GraphQl, Outcome::NotParsed) => StatusCode::BAD_REQUEST,
        (Media::GraphQl, Outcome::Refused) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    write(media, status, &answer, outcome == Outcome::Executed)
}

/// A response as it is sent. One that was not executed has no `data`, not even null
/// (GraphQL specification, "Response Format").
#[derive(Serialize)]
pub(super) struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ServerError],
}

impl<'a> Written<'a> {
    pub(super) fn new(answer: &'a Answer, executed: bool) -> Self {
        Self { data: executed.then_some(&answer.data), errors: &answer.errors }
    }
}

fn write(media: Media, status: StatusCode, answer: &Answer, executed: bool) -> Response {
    let headers = [(CONTENT_TYPE, media.content_type()), (CACHE_CONTROL, "no-store")];
    match serde_json::to_vec(&Written::new(answer, executed)) {
        Ok(body) => (status, headers, body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer can't be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
