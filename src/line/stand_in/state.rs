//! What the stand-in remembers, and how it answers from it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Accepted, Fault, Seen, push};
use crate::domain::line;

const KEPT: usize = 100_000;

pub(super) struct State {
    pub tokens: HashSet<String>,
    pub faults: VecDeque<Fault>,
    pub month_used_up: bool,
    pub accepted: VecDeque<Accepted>,
    pub accepted_total: usize,
    pub seen: VecDeque<Seen>,
    /// By token and user.
    pub menus: HashMap<(String, String), String>,
    /// What was answered to the first request with a key, by token and key.
    keys: HashMap<(String, String), First>,
    /// The keys, oldest first.
    order: VecDeque<(String, String)>,
    sent: u64,
    started: Instant,
}

struct First {
    request_id: String,
    sent: Value,
}

/// What is called.
pub(super) enum Call {
    Push,
    Link { user_id: String, rich_menu_id: String },
    Unlink { user_id: String },
}

/// A request.
pub(super) struct Incoming {
    pub method: String,
    pub path: String,
    pub token: Option<String>,
    pub retry_key: Option<String>,
    pub content_type: Option<String>,
    /// None if it was too large.
    pub body: Option<Bytes>,
}

/// What is answered.
pub(super) struct Reply {
    pub status: StatusCode,
    pub request_id: String,
    pub accepted_request_id: Option<String>,
    pub body: Value,
}

impl Reply {
    fn ok(body: Value) -> Self {
        Self::new(StatusCode::OK, body)
    }

    pub fn problem(status: StatusCode, message: &str) -> Self {
        Self::new(status, json!({ "message": message }))
    }

    fn new(status: StatusCode, body: Value) -> Self {
        Self { status, request_id: Uuid::new_v4().to_string(), accepted_request_id: None, body }
    }
}

impl State {
    pub fn new(tokens: impl Iterator<Item = String>) -> Self {
        Self {
            tokens: tokens.collect(),
            faults: VecDeque::new(),
            month_used_up: false,
            accepted: VecDeque::new(),
            accepted_total: 0,
            seen: VecDeque::new(),
            menus: HashMap::new(),
            keys: HashMap::new(),
            order: VecDeque::new(),
            sent: 0,
            started: Instant::now(),
        }
    }

    /// Answers a request, does what it asks, and notes it down. The fault is left to the caller
    /// where it is about the connection.
    pub fn answer(&mut self, call: Option<Call>, incoming: Incoming) -> (Reply, Option<Fault>) {
        let fault = call.as_ref().and_then(|_| self.faults.pop_front());
        let reply = match (fault, call) {
            (_, None) => Reply::problem(StatusCode::NOT_FOUND, "Not found"),
            (Some(Fault::ErrorBefore), _) => internal(),
            (Some(Fault::RateLimited), _) => {
                limit("The API rate limit has been exceeded. Try again later.")
            }
            (Some(Fault::MonthlyLimit), _) => monthly(),
            (Some(Fault::Unauthorized), _) => unauthorized(),
            (Some(Fault::ErrorAfter), Some(call)) => {
                self.perform(call, &incoming);
                internal()
            }
            (_, Some(call)) => self.perform(call, &incoming),
        };
        let Incoming { method, path, token, retry_key, body, .. } = incoming;
        let (body, status) = (body.unwrap_or_default(), reply.status.as_u16());
        keep(&mut self.seen, Seen { method, path, token, retry_key, body, status });
        (reply, fault)
    }

    fn perform(&mut self, call: Call, incoming: &Incoming) -> Reply {
        let Some(token) = incoming.token.clone().filter(|token| self.tokens.contains(token)) else {
            return unauthorized();
        };
        match (call, &incoming.retry_key) {
            (Call::Push, _) => self.push(token, incoming),
            (_, Some(_)) => {
                bad_request("The header X-Line-Retry-Key is not supported by this endpoint")
            }
            (Call::Link { user_id, rich_menu_id }, None) => self.link(token, user_id, rich_menu_id),
            (Call::Unlink { user_id }, None) => self.unlink(token, user_id),
        }
    }

    fn link(&mut self, token: String, user_id: String, rich_menu_id: String) -> Reply {
        if line::user_id("userId", &user_id).is_err() {
            return bad_request("The user ID is invalid");
        }
        if !rich_menu_id.starts_with("richmenu-") {
            return Reply::problem(StatusCode::NOT_FOUND, "The rich menu was not found");
        }
        self.menus.insert((token, user_id), rich_menu_id);
        Reply::ok(json!({}))
    }

    /// A user without a menu is fine: the state that was asked for is there.
    fn unlink(&mut self, token: String, user_id: String) -> Reply {
        if line::user_id("userId", &user_id).is_err() {
            return bad_request("The user ID is invalid");
        }
        self.menus.remove(&(token, user_id));
        Reply::ok(json!({}))
    }

    fn push(&mut self, token: String, incoming: &Incoming) -> Reply {
        let Some(body) = &incoming.body else {
            return Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, "The request body is too large");
        };
        let (to, messages) = match push::read(incoming.content_type.as_deref(), body) {
            Ok(push) => push,
            Err(problem) => return Reply::new(StatusCode::BAD_REQUEST, problem),
        };
        if let Some(key) = &incoming.retry_key {
            if key.parse::<Uuid>().is_err() {
                return bad_request("The header X-Line-Retry-Key must be a UUID");
            }
            if let Some(first) = self.keys.get(&(token.clone(), key.clone())) {
                return repeated(first);
            }
        }
        if self.month_used_up {
            return monthly();
        }
        let sent: Vec<_> = messages.iter().map(|_| self.sent_message()).collect();
        let reply = Reply::ok(json!({ "sentMessages": sent }));
        if let Some(key) = &incoming.retry_key {
            self.remember((token.clone(), key.clone()), &reply);
        }
        let accepted = Accepted {
            token,
            to,
            messages,
            retry_key: incoming.retry_key.clone(),
            request_id: reply.request_id.clone(),
            at: self.started.elapsed(),
        };
        self.accepted_total += 1;
        keep(&mut self.accepted, accepted);
        reply
    }

    pub fn forget_keys(&mut self) {
        self.keys.clear();
        self.order.clear();
    }

    fn sent_message(&mut self) -> Value {
        self.sent += 1;
        json!({ "id": self.sent.to_string(), "quoteToken": format!("quote-{}", self.sent) })
    }

    fn remember(&mut self, key: (String, String), reply: &Reply) {
        let first = First {
            request_id: reply.request_id.clone(),
            sent: reply.body["sentMessages"].clone(),
        };
        self.keys.insert(key.clone(), first);
        if let Some(oldest) = keep(&mut self.order, key) {
            self.keys.remove(&oldest);
        }
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T) -> Option<T> {
    list.push_back(item);
    (list.len() > KEPT).then(|| list.pop_front()).flatten()
}

fn repeated(first: &First) -> Reply {
    let body =
        json!({ "message": "The retry key is already accepted", "sentMessages": first.sent });
    Reply {
        accepted_request_id: Some(first.request_id.clone()),
        ..Reply::new(StatusCode::CONFLICT, body)
    }
}

fn bad_request(message: &str) -> Reply {
    Reply::problem(StatusCode::BAD_REQUEST, message)
}

fn internal() -> Reply {
    Reply::problem(StatusCode::INTERNAL_SERVER_ERROR, "Internal error")
}

fn unauthorized() -> Reply {
    Reply::problem(StatusCode::UNAUTHORIZED, "Authentication failed")
}

fn limit(message: &str) -> Reply {
    Reply::problem(StatusCode::TOO_MANY_REQUESTS, message)
}

fn monthly() -> Reply {
    limit("You have reached your monthly limit.")
}
