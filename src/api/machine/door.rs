//! What stands before every handler: who calls, and what the body says.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use url::form_urlencoded;

use super::problem::{Problem, request_id};
use crate::app::App;
use crate::domain::audit::Caller;
use crate::domain::rule::misfit::{cut, join};
use crate::error::Error;

/// The largest body, in bytes, where an endpoint names no other.
pub const BODY_MAX: usize = 64 * 1024;

/// Whoever calls. Comes first among a handler's arguments, so that nobody unknown has a body
/// read. Refused with 401 as [`App::authenticate`] says, with 503 whoever would change something
/// while the server's clock is wrong, and with 422 a parameter of the query that is not known.
pub(super) struct Authenticated(pub Caller);

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or(""));
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
        // Behind a proxy the peer is the proxy, and says nothing about the client.
        let client = peer.filter(|_| app.config.public_url.is_none());
        let actor = app.authenticate_from(header, client).await?;
        if !parts.method.is_safe() {
            app.clock_holds()?;
        }
        known_parameters(parts)?;
        Ok(Self(Caller { actor, request_id: request_id(&parts.extensions) }))
    }
}

/// Refuses a parameter of the query that the endpoint does not know, as bodies do with their fields;
/// only those of events keep what their senders add.
fn known_parameters(parts: &Parts) -> Result<(), Problem> {
    let known = match parts.uri.path() {
        path if path.ends_with("/events") => return Ok(()),
        path if path.ends_with("/tenants") => "environment",
        _ => "none",
    };
    let query = parts.uri.query().unwrap_or("");
    let mut given = form_urlencoded::parse(query.as_bytes());
    let Some((name, _)) = given.find(|(name, _)| name != known) else { return Ok(()) };
    let name = cut(&name, 50);
    let reason = format!("{name} is no parameter that is known; known is {known}");
    Err(Error::invalid(name, reason).into())
}

/// A JSON object. Refused: another content type (415), more than [`BODY_MAX`] bytes (413), what
/// is no JSON (400, with line and column), what is no object or has a value of the wrong type
/// (422, with the field). A `T` that denies fields that are not known has them refused like that,
/// with those that are known.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(no_json());
        }
        parse(&read(request, state).await?).map(Self)
    }
}

/// As [`Body`], but no body at all, or `null`, stands for an empty object.
pub(super) struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if is_json(request.headers()) {
            let bytes = read(request, state).await?;
            let nothing = matches!(bytes.trim_ascii(), b"" | b"null");
            return parse(if nothing { b"{}" } else { &bytes }).map(Self);
        }
        if read(request, state).await?.is_empty() {
            return parse(b"{}").map(Self);
        }
        Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UNSUPPORTED_MEDIA_TYPE",
            "a body must be JSON, with the header Content-Type: application/json",
        ))
    }
}

/// The body must be JSON and is sent as something else.
pub(super) fn no_json() -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UNSUPPORTED_MEDIA_TYPE",
        "the body must be JSON, with the header Content-Type: application/json",
    )
}

/// `application/json` or `application/…+json`, whatever its parameters.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let essence = essence(headers);
    essence == "application/json"
        || essence.strip_prefix("application/").is_some_and(|subtype| subtype.ends_with("+json"))
}

/// The media type of the body in lower case, without its parameters.
pub(super) fn essence(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// The router's body limit counts while reading; what the length header says is believed if it is too
/// much.
async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    declared(request.body(), BODY_MAX)?;
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(BODY_MAX),
        _ => broken(),
    })
}

/// A body of at most `most` bytes, counted while reading, in the place of the router's limit.
pub(super) async fn read_up_to(request: Request, most: usize) -> Result<Bytes, Problem> {
    declared(request.body(), most)?;
    match Limited::new(request.into_body(), most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(most)),
        Err(_) => Err(broken()),
    }
}

/// Nobody waits for a body that says of itself that it is too large.
fn declared(body: &axum::body::Body, most: usize) -> Result<(), Problem> {
    if body.size_hint().lower() > most as u64 { Err(too_large(most)) } else { Ok(()) }
}

fn too_large(most: usize) -> Problem {
    let detail = format!("the body must have at most {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
}

fn broken() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", "the body did not arrive whole")
}

/// Reads an object.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => Error::invalid("body", "the body must be a JSON object").into(),
            Err(error) => malformed(&error),
        });
    }
    parse_below("", bytes)
}

/// Reads any JSON. Paths of what does not fit begin with `root`.
pub(super) fn parse_below<T: DeserializeOwned>(root: &str, bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if !error.is_data() {
            return malformed(&error);
        }
        let said = error.to_string();
        if let Some(unknown) = unknown(&said) {
            return unknown.into();
        }
        let path = join(root, if path == "." { "" } else { &path });
        let field = if path.is_empty() { "body".to_owned() } else { path };
        Error::invalid(field, said).into()
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// What the library says of a key that an object may not have, in our words; none when it speaks of
/// something else. Of two spellings of a key it is enough to know one.
fn unknown(said: &str) -> Option<Error> {
    let (key, known) = said.strip_prefix("unknown field `")?.rsplit_once("`, expected ")?;
    let known: Vec<_> =
        known.split('`').skip(1).step_by(2).filter(|name| !name.contains('_')).collect();
    let key = cut(key, 50);
    let reason = format!("{key} is not known; known are {}", known.join(", "));
    Some(Error::invalid(key, reason))
}

fn malformed(error: &serde_json::Error) -> Problem {
    let detail = format!("the body is not JSON: {error}");
    Problem::new(StatusCode::BAD_REQUEST, "MALFORMED_JSON", detail)
}
