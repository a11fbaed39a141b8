//! Serving HTTP on a listener.
//!
//! HTTP/1.1, with an end to clients that connect and say nothing, or take nothing: each connection must
//! have sent the head of its next request within a bound, and go on taking what it is answered; and only so
//! many are open at once.

mod impatient;

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

use self::impatient::Impatient;
use crate::api::Place;

/// How long a connection may take to send the head of its next request, idle time included.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// How long a client may take nothing of what it is sent.
const TAKES_WITHIN: Duration = Duration::from_secs(60);
/// How many connections are open at once; further ones wait to be accepted. Fewer where the process
/// may have few files open: half of them are for the database and for backends.
const CONNECTIONS: u64 = 10_000;
/// How many of them are for metrics and health: whoever fills the API does not keep these away.
const METRICS: u64 = 64;
/// What is assumed where the system does not say how many files may be open.
const FILES: u64 = 1_024;

/// How long accepting rests when it fails, for example because no file descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// How many clients of a process may be connected at once.
pub struct Room {
    /// To the API.
    pub api: usize,
    /// To metrics and health.
    pub metrics: usize,
}

impl Room {
    /// Lets the process have as many files open as the system allows it, up to what is of use, and
    /// gives half of them to clients.
    pub fn make() -> Self {
        Self::of(rlimit::increase_nofile_limit(CONNECTIONS * 4).unwrap_or(FILES))
    }

    fn of(files: u64) -> Self {
        let all = CONNECTIONS.min(files / 2);
        let metrics = METRICS.min(all / 2);
        let places = |count| usize::try_from(count).unwrap_or(Semaphore::MAX_PERMITS);
        Self { api: places(all - metrics), metrics: places(metrics) }
    }
}

/// Serves until `stop`, so many connections at once; then takes no new request, and returns when those
/// under way are answered and websockets have ended.
pub async fn serve(listener: TcpListener, router: Router, room: usize, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(room));
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
                let place = Place::new((place, connections.token()));
                tokio::spawn(converse(stream, peer, place, router.clone(), stop.clone()));
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

/// Serves one connection, until it ends or becomes something else, which keeps the place. What it ends
/// with is its client's business.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    place: Place,
    router: Router,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(place.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(Impatient::new(stream, TAKES_WITHIN)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_together_leave_half_of_the_files() {
        for files in [0, 1, 2, 20, 100, 1_024, 20_000, u64::MAX] {
            let Room { api, metrics } = Room::of(files);
            let all = (api + metrics) as u64;
            assert_eq!(all, CONNECTIONS.min(files / 2), "of {files} files");
        }
        let room = Room::of(1_024);
        assert_eq!((room.api, room.metrics), (448, 64));
    }
}
