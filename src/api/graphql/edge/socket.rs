//! GraphQL over a websocket, by the protocol `graphql-transport-ws` of graphql-ws.
//!
//! One task a connection. It reads messages and sends what the running operations answer; while a
//! slow client keeps it from sending, nothing else happens, and a client that takes nothing for
//! [`SEND_WITHIN`] is let go.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Response, ServerError};
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::StreamExt;
use futures::stream::{AbortHandle, Abortable, BoxStream, SelectAll};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::http::Written;
use super::{Operation, Service, is_unauthenticated};
use crate::api::graphql::error::{Outcome, refusal};
use crate::api::graphql::session::Origin;
use crate::error::Error;

/// The name of the protocol in the handshake.
pub(super) const PROTOCOL: &str = "graphql-transport-ws";

/// How long a client may take to introduce itself.
const INIT_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take to accept one message.
const SEND_WITHIN: Duration = Duration::from_secs(30);
/// How often a client is asked whether it is still there, and after how many silent questions it
/// is taken to be gone.
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENT_PINGS: u32 = 3;
/// The longest id of an operation, in bytes.
const ID_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Received {
    ConnectionInit {
        #[serde(default)]
        payload: Value,
    },
    Ping,
    Pong,
    Subscribe {
        id: String,
        payload: Operation,
    },
    Complete {
        id: String,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Sent<'a> {
    ConnectionAck,
    Pong,
    Next { id: &'a str, payload: Written<'a> },
    Error { id: &'a str, payload: &'a [ServerError] },
    Complete { id: &'a str },
}

/// Why a connection ends: a close code and its reason; none: there is nobody to tell.
type End = Option<(u16, String)>;

/// The process ends; a client connects again, to another one.
fn going_away<T>() -> Result<T, End> {
    end(1001, "Going away")
}

fn end<T>(code: u16, reason: impl Into<String>) -> Result<T, End> {
    Err(Some((code, reason.into())))
}

/// What happens in an operation.
enum Event {
    Answer(String, Box<Response>, Outcome),
    Ended(String),
}

/// Speaks with a client until one of the two has enough. `presented` are the credentials of the
/// handshake; those of the introduction go before.
pub(super) async fn serve(
    service: Arc<Service>,
    mut socket: WebSocket,
    presented: Option<SecretString>,
    origin: Origin,
) {
    let stopping = service.app.stopping.clone();
    let begun = tokio::select! {
        begun = begin(&service, &mut socket, presented, &origin) => begun,
        () = stopping.cancelled() => going_away(),
    };
    let ended = match begun {
        Ok(presented) => {
            let mut connection = Connection {
                service,
                socket: &mut socket,
                presented,
                origin,
                running: HashMap::new(),
                events: SelectAll::new(),
                silent: 0,
                leaves: None,
            };
            connection.run().await
        }
        Err(ended) => ended,
    };
    if let Some((code, reason)) = ended {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(SEND_WITHIN, socket.send(Message::Close(Some(frame)))).await;
    }
}

/// Waits for the introduction and checks its credentials.
async fn begin(
    service: &Service,
    socket: &mut WebSocket,
    presented: Option<SecretString>,
    origin: &Origin,
) -> Result<Option<SecretString>, End> {
    if socket.protocol().is_none() {
        return end(4406, "Subprotocol not acceptable");
    }
    let payload = match timeout(INIT_WITHIN, introduction(socket)).await {
        Ok(payload) => payload?,
        Err(_) => return end(4408, "Connection initialisation timeout"),
    };
    let presented = authorization(&payload).or(presented);
    if let Err(error) = service.admit(presented.clone(), origin.clone()).await {
        if is_unauthenticated(&error) {
            return end(4403, "Forbidden");
        }
        tracing::warn!(?error, request_id = ?origin.request_id, "a websocket was not admitted");
        return end(1013, "Try again later");
    }
    send(socket, &Sent::ConnectionAck).await?;
    Ok(presented)
}

async fn introduction(socket: &mut WebSocket) -> Result<Value, End> {
    loop {
        match receive(socket.recv().await)? {
            None | Some(Received::Pong) => {}
            Some(Received::Ping) => send(socket, &Sent::Pong).await?,
            Some(Received::ConnectionInit { payload }) => return Ok(payload),
            Some(_) => return end(4401, "Unauthorized"),
        }
    }
}

/// The text under `Authorization`, however it is capitalised.
fn authorization(payload: &Value) -> Option<SecretString> {
    let mut fields = payload.as_object()?.iter();
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    value.as_str().map(SecretString::from)
}

/// None for what is no message of the protocol, such as the answer to a ping.
fn receive(message: Option<Result<Message, axum::Error>>) -> Result<Option<Received>, End> {
    match message {
        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
            Ok(received) => Ok(Some(received)),
            Err(_) => end(4400, "Invalid message"),
        },
        Some(Ok(Message::Binary(_))) => end(4400, "Invalid message"),
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
        Some(Ok(Message::Close(_))) | None => Err(None),
        // Too long, not UTF-8, or gone.
        Some(Err(_)) => end(1009, "Message refused"),
    }
}

async fn send(socket: &mut WebSocket, message: &Sent<'_>) -> Result<(), End> {
    let text = serde_json::to_string(message).map_err(|error| {
        tracing::error!(%error, "a message can't be written");
        Some((1011, "Internal error".to_owned()))
    })?;
    give(socket, Message::text(text)).await
}

async fn give(socket: &mut WebSocket, message: Message) -> Result<(), End> {
    match timeout(SEND_WITHIN, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(None),
    }
}

struct Connection<'a> {
    service: Arc<Service>,
    socket: &'a mut WebSocket,
    presented: Option<SecretString>,
    origin: Origin,
    running: HashMap<String, Running>,
    events: SelectAll<BoxStream<'static, Event>>,
    silent: u32,
    /// When it ends at the latest, once the process is ending.
    leaves: Option<Instant>,
}

struct Running {
    handle: AbortHandle,
    /// Not known before it begins.
    kind: Arc<OnceLock<OperationType>>,
}

impl Running {
    fn goes_on_for_ever(&self) -> bool {
        self.kind.get() == Some(&OperationType::Subscription)
    }
}

/// Never, without a time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Connection<'_> {
    async fn run(&mut self) -> End {
        let mut pings = interval(PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset_at(Instant::now() + PING_EVERY);
        let stopping = self.service.app.stopping.clone();
        loop {
            let step = tokio::select! {
                message = self.socket.recv() => {
                    self.silent = 0;
                    match receive(message) {
                        Ok(Some(received)) => self.take(received).await,
                        Ok(None) => Ok(()),
                        Err(ended) => Err(ended),
                    }
                }
                Some(event) = self.events.next(), if !self.events.is_empty() => {
                    self.tell(event).await
                }
                _ = pings.tick() => self.ping().await,
                () = stopping.cancelled(), if self.leaves.is_none() => self.leave(),
                () = until(self.leaves) => going_away(),
            };
            let step = step.and_then(|()| self.has_left());
            if let Err(ended) = step {
                return ended;
            }
        }
    }

    /// Takes nothing new. What ends by itself may end within the grace; subscriptions end now.
    fn leave(&mut self) -> Result<(), End> {
        self.leaves = Some(Instant::now() + self.service.app.config.shutdown.grace);
        self.running.retain(|_, one| {
            let ends = !one.goes_on_for_ever();
            if !ends {
                one.handle.abort();
            }
            ends
        });
        Ok(())
    }

    fn has_left(&self) -> Result<(), End> {
        if self.leaves.is_some() && self.running.is_empty() { going_away() } else { Ok(()) }
    }

    async fn ping(&mut self) -> Result<(), End> {
        self.silent += 1;
        if self.silent > SILENT_PINGS {
            return Err(None);
        }
        give(self.socket, Message::Ping(bytes::Bytes::new())).await
    }

    async fn take(&mut self, received: Received) -> Result<(), End> {
        match received {
            Received::ConnectionInit { .. } => end(4429, "Too many initialisation requests"),
            Received::Ping => send(self.socket, &Sent::Pong).await,
            Received::Pong => Ok(()),
            Received::Complete { id } => {
                if let Some(running) = self.running.remove(&id) {
                    running.handle.abort();
                }
                Ok(())
            }
            Received::Subscribe { id, payload } => self.start(id, payload).await,
        }
    }

    async fn start(&mut self, id: String, operation: Operation) -> Result<(), End> {
        if id.is_empty() || id.len() > ID_MAX {
            return end(4400, "Invalid message");
        }
        if self.running.contains_key(&id) {
            let shown: String = id.chars().take(40).collect();
            return end(4409, format!("Subscriber for {} already exists", shown.escape_debug()));
        }
        let Some(request) = operation.into_request() else {
            return end(4400, "Invalid message");
        };
        let most = self.service.app.config.graphql.subscriptions_per_connection;
        if self.running.len() >= most {
            return self.refuse(&id, most).await;
        }
        if self.leaves.is_some() {
            let request_id = self.origin.request_id.as_deref().unwrap_or_default();
            let errors = refusal(&Error::Busy, request_id).errors;
            return send(self.socket, &Sent::Error { id: &id, payload: &errors }).await;
        }
        let kind = Arc::default();
        let answers = Arc::clone(&self.service).stream(
            request,
            self.presented.clone(),
            self.origin.clone(),
            Arc::clone(&kind),
        );
        let (handle, registration) = AbortHandle::new_pair();
        let (named, ended) = (id.clone(), id.clone());
        let events = answers
            .map(move |(answer, outcome)| Event::Answer(named.clone(), Box::new(answer), outcome))
            .chain(futures::stream::once(async move { Event::Ended(ended) }));
        self.events.push(Abortable::new(events, registration).boxed());
        self.running.insert(id, Running { handle, kind });
        Ok(())
    }

    async fn refuse(&mut self, id: &str, most: usize) -> Result<(), End> {
        let reason = format!("at most {most} operations may run on one connection");
        let mut error = ServerError::new(reason, None);
        error.extensions.get_or_insert_default().set("code", "TOO_MANY_OPERATIONS");
        send(self.socket, &Sent::Error { id, payload: &[error] }).await
    }

    async fn tell(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Answer(id, answer, Outcome::Executed) => {
                let payload = Written::new(&answer, true);
                send(self.socket, &Sent::Next { id: &id, payload }).await
            }
            // An error ends an operation; there is no completion after it.
            Event::Answer(id, answer, _) => {
                if let Some(running) = self.running.remove(&id) {
                    running.handle.abort();
                }
                send(self.socket, &Sent::Error { id: &id, payload: &answer.errors }).await
            }
            Event::Ended(id) => {
                self.running.remove(&id);
                send(self.socket, &Sent::Complete { id: &id }).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_found_however_they_are_capitalised() {
        for name in ["Authorization", "authorization", "AUTHORIZATION"] {
            let found = authorization(&json!({ "a": 1, name: "Bearer x" })).unwrap();
            assert_eq!(found.expose_secret(), "Bearer x");
        }
        assert!(authorization(&json!({ "Authorization": 7 })).is_none());
        assert!(authorization(&Value::Null).is_none());
    }
}
