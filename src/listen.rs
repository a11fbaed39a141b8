//! Serving HTTP on a listener.
//!
//! HTTP/1.1, with an end to clients that connect and say nothing: each connection must have sent
//! the head of its next request within a bound, and only so many are open at once.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// How long a connection may take to send the head of its next request, idle time included.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// How many connections are open at once; further ones wait to be accepted. Fewer where the process
/// may have few files open: half of them are for the database and for backends.
const CONNECTIONS: u64 = 10_000;
/// What is assumed where the system does not say how many files may be open.
const FILES: u64 = 1_024;

/// Lets the process have as many files open as the system allows it, up to what is of use. Answers
/// how many clients may be connected at once.
pub fn make_room() -> usize {
    let files = rlimit::increase_nofile_limit(CONNECTIONS * 4).unwrap_or(FILES);
    usize::try_from(CONNECTIONS.min(files / 2)).unwrap_or(usize::MAX)
}
/// How long accepting rests when it fails, for example because no file descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// Serves until `stop`; then takes no new request, and returns when those under way are answered.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(make_room()));
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    converse(stream, peer, router, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                let _ = tokio::time::timeout(REST, stop.cancelled()).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection. What it ends with is its client's business.
async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
