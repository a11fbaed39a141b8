//! Backends that write down every request, and answer by the dice.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures::stream;
use tokio::task::JoinHandle;
use trigger_manager::egress::{SigningSecret, sign};

use super::dice::Dice;
use crate::app::{CALLBACK_TOKEN, SIGNING_SECRET};

/// How a backend answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mood {
    /// Always 200.
    Healthy,
    /// Often not.
    Flaky,
    /// Never 2xx.
    Broken,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    /// The delivery.
    pub id: String,
    pub attempt: i32,
    pub body: Bytes,
    /// What is wrong with its token or signature.
    pub forged: Option<&'static str>,
    pub status: u16,
    pub at: DateTime<Utc>,
    /// Places in the order of everything: when it arrived, and when its sender had the answer.
    pub from: usize,
    pub until: Option<usize>,
    /// Why its sender may not know what became of it.
    pub excuse: Option<&'static str>,
}

impl Request {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

struct Log {
    dice: Dice,
    moods: [Mood; 2],
    time: DateTime<Utc>,
    all: Vec<Request>,
    tick: usize,
}

/// What all backends have received.
#[derive(Clone)]
pub struct Requests(Arc<Mutex<Log>>);

impl Requests {
    pub fn new(dice: Dice, time: DateTime<Utc>) -> Self {
        let moods = [Mood::Healthy; 2];
        Self(Arc::new(Mutex::new(Log { dice, moods, time, all: Vec::new(), tick: 0 })))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }

    pub fn set_time(&self, time: DateTime<Utc>) {
        self.log().time = time;
    }

    pub fn set_moods(&self, moods: [Mood; 2]) {
        self.log().moods = moods;
    }

    pub fn len(&self) -> usize {
        self.log().all.len()
    }

    pub fn all(&self) -> Vec<Request> {
        self.log().all.clone()
    }

    /// The sender has an answer, or never will.
    pub fn ended(&self, number: Option<usize>, excuse: Option<&'static str>) {
        let mut log = self.log();
        log.tick += 1;
        let tick = log.tick;
        if let Some(request) = number.and_then(|number| log.all.get_mut(number)) {
            request.until.get_or_insert(tick);
            request.excuse = request.excuse.or(excuse);
        }
    }
}

/// The backends' server, for as long as this lives.
pub struct Backends {
    pub base: String,
    server: JoinHandle<()>,
}

impl Backends {
    pub async fn start(requests: Requests) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(requests);
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, server }
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(requests): State<Requests>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    let mut log = requests.log();
    let path = uri.path().to_owned();
    let mood = log.moods[usize::from(path == "/b1")];
    let roll = if mood == Mood::Flaky { log.dice.below(100) } else { 0 };
    let (status, cut) = match (mood, roll) {
        (Mood::Broken, _) => (503, false),
        (_, 0..60) => (200, false),
        (_, 60..66) => (200, true),
        (_, 66..80) => (500, false),
        (_, 80..98) => (429, false),
        _ => (410, false),
    };
    log.tick += 1;
    let request = Request {
        id: header("webhook-id"),
        attempt: header("x-trigger-attempt").parse().unwrap(),
        forged: forged(&headers, &body),
        status,
        at: log.time,
        from: log.tick,
        until: None,
        excuse: cut.then_some("its answer was cut off"),
        path,
        body,
    };
    log.all.push(request);
    if cut {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
        return Body::from_stream(broken).into_response();
    }
    let status = StatusCode::from_u16(status).unwrap();
    match status {
        StatusCode::TOO_MANY_REQUESTS => (status, [("retry-after", "7")]).into_response(),
        _ => status.into_response(),
    }
}

fn forged(headers: &HeaderMap, body: &[u8]) -> Option<&'static str> {
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    if header("authorization") != format!("Bearer {CALLBACK_TOKEN}") {
        return Some("the token is not the backend's");
    }
    let secret = SigningSecret::parse(SIGNING_SECRET).unwrap();
    let at = header("webhook-timestamp").parse().unwrap();
    let right = sign(&secret, &header("webhook-id"), at, body);
    (header("webhook-signature") != right).then_some("the signature does not fit")
}
