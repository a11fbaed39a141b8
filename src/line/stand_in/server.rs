//! The stand-in's HTTP.

use std::io;
use std::net::SocketAddr;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, post};
use axum::{Json, Router};
use futures::stream;

use super::state::{Call, Incoming, Reply};
use super::{Fault, Shared};

const BODY_MAX: usize = 2 * 1024 * 1024;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-line-request-id");
const ACCEPTED_REQUEST_ID: HeaderName = HeaderName::from_static("x-line-accepted-request-id");

/// Listens and answers until it is stopped.
pub(super) async fn start(shared: Shared, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let ended = shared.stop.clone().cancelled_owned();
    let router = Router::new()
        .route("/v2/bot/message/push", post(push))
        .route("/v2/bot/user/{user_id}/richmenu/{rich_menu_id}", post(link))
        .route("/v2/bot/user/{user_id}/richmenu", delete(unlink))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(shared);
    tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(ended).await });
    Ok(address)
}

async fn push(State(shared): State<Shared>, request: Request) -> Response {
    answer(shared, Some(Call::Push), request).await
}

async fn link(
    State(shared): State<Shared>,
    Path((user_id, rich_menu_id)): Path<(String, String)>,
    request: Request,
) -> Response {
    answer(shared, Some(Call::Link { user_id, rich_menu_id }), request).await
}

async fn unlink(
    State(shared): State<Shared>,
    Path(user_id): Path<String>,
    request: Request,
) -> Response {
    answer(shared, Some(Call::Unlink { user_id }), request).await
}

async fn unknown(State(shared): State<Shared>, request: Request) -> Response {
    answer(shared, None, request).await
}

async fn answer(shared: Shared, call: Option<Call>, request: Request) -> Response {
    let incoming = incoming(request).await;
    let (reply, fault) = {
        let mut state = shared.state();
        let answered = state.answer(call, incoming);
        shared.accepted.send_replace(state.accepted_total);
        answered
    };
    match fault {
        Some(Fault::SilenceAfter) => shared.stop.cancelled().await,
        Some(Fault::CutAfter) => return cut(),
        _ => {}
    }
    response(reply)
}

async fn incoming(request: Request) -> Incoming {
    let (parts, body) = request.into_parts();
    let header = |name| text(&parts.headers, name);
    let token =
        header("authorization").and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned));
    let (retry_key, content_type) = (header("x-line-retry-key"), header("content-type"));
    let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
    let body = to_bytes(body, BODY_MAX).await.ok();
    Incoming { method, path, token, retry_key, content_type, body }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn response(reply: Reply) -> Response {
    let mut response = (reply.status, Json(reply.body)).into_response();
    let mut name = |name, id: Option<String>| {
        if let Some(value) = id.and_then(|id| HeaderValue::try_from(id).ok()) {
            response.headers_mut().insert(name, value);
        }
    };
    name(REQUEST_ID, Some(reply.request_id));
    name(ACCEPTED_REQUEST_ID, reply.accepted_request_id);
    response
}

/// Closes the connection where the body should follow.
fn cut() -> Response {
    let broken = stream::iter([Err::<Bytes, _>(io::Error::other("cut"))]);
    Body::from_stream(broken).into_response()
}
