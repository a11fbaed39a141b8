//! What people, backends and services do meanwhile: calls of the API, each with a request id of
//! its own, and what came of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use trigger_manager::egress::{AddressPolicy, Egress, EgressConfig, Outgoing, Sent};
use uuid::Uuid;

use crate::processes::Fleet;
use crate::settings::ADMINISTRATOR;

/// How long a call is repeated that gets no answer.
const INSIST: Duration = Duration::from_secs(300);

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was done.
    Accepted,
    /// It was not done, as the answer says.
    Refused(String),
    /// There is no answer that says whether it was done.
    Unknown(String),
}

/// A call that was to change something.
#[derive(Debug, Clone)]
pub struct Call {
    pub request_id: String,
    pub what: &'static str,
    /// What it is about: an event's id, a trigger's id.
    pub about: String,
    /// Whether a new row of the audit log is owed: not for what was done before.
    pub changes: bool,
    pub outcome: Outcome,
    pub ended: DateTime<Utc>,
}

/// A client of all APIs, which takes them in turn.
pub struct Client {
    fleet: Arc<Fleet>,
    http: Egress,
    policy: AddressPolicy,
    turn: AtomicUsize,
    calls: Mutex<Vec<Call>>,
}

impl Client {
    pub fn new(fleet: Arc<Fleet>) -> Result<Self> {
        let policy = AddressPolicy::new(vec!["127.0.0.0/8".parse()?]);
        let http = Egress::new(EgressConfig {
            policy: policy.clone(),
            timeout: Duration::from_secs(20),
            max_response_bytes: 1 << 20,
            max_idle_per_host: 8,
            user_agent: "fire".to_owned(),
        })?;
        let (turn, calls) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { fleet, http, policy, turn, calls })
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("nobody panics").clone()
    }

    async fn send(
        &self,
        path: &str,
        (bearer, id): (&str, &str),
        body: &Value,
    ) -> Result<(u16, Value)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let apis = &self.fleet.apis;
        let base = apis[turn % apis.len()].address().context("this API is away")?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::AUTHORIZATION, format!("Bearer {bearer}").parse()?);
        headers.insert("x-request-id", id.parse()?);
        let url = self.policy.parse_url(&format!("{base}{path}"))?;
        let body = serde_json::to_vec(body)?.into();
        let method = Method::POST;
        match self.http.send(Outgoing { method, url, headers, body, timeout: None }).await {
            Sent::Answered { status, body, complete: true, .. } => {
                Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
            }
            Sent::Answered { status, .. } => bail!("half an answer with {status}"),
            Sent::Failed { detail, .. } => bail!("{detail}"),
        }
    }

    fn note(&self, call: Call) {
        self.calls.lock().expect("nobody panics").push(call);
    }

    /// A mutation, once.
    pub async fn mutate(
        &self,
        (what, about): (&'static str, &str),
        query: &str,
        variables: &Value,
    ) -> (Outcome, Value) {
        let request_id = format!("fire-{}", Uuid::now_v7());
        let body = json!({ "query": query, "variables": variables });
        let sent = self.send("/graphql", (ADMINISTRATOR, &request_id), &body).await;
        let (outcome, data) = match sent {
            Err(error) => (Outcome::Unknown(format!("{error:#}")), Value::Null),
            Ok((200, mut answer)) if answer.get("errors").is_none() => {
                (Outcome::Accepted, answer["data"][what].take())
            }
            Ok((status, answer)) => {
                let text = format!("{status} {answer}");
                let code = answer.pointer("/errors/0/extensions/code").and_then(Value::as_str);
                match code {
                    None | Some("INTERNAL" | "BUSY") => (Outcome::Unknown(text), Value::Null),
                    Some(_) => (Outcome::Refused(text), Value::Null),
                }
            }
        };
        let about = data["id"].as_str().unwrap_or(about).to_owned();
        let (outcome_too, ended) = (outcome.clone(), Utc::now());
        self.note(Call { request_id, what, about, changes: true, outcome, ended });
        (outcome_too, data)
    }

    /// A mutation, until there is an answer.
    pub async fn insist(
        &self,
        (what, about): (&'static str, &str),
        query: &str,
        variables: &Value,
    ) -> Result<Option<Value>> {
        let until = Instant::now() + INSIST;
        loop {
            match self.mutate((what, about), query, variables).await {
                (Outcome::Accepted, data) => return Ok(Some(data)),
                (Outcome::Refused(text), _) if text.contains("NOT_FOUND") => return Ok(None),
                (Outcome::Refused(text), _) => bail!("{what} was refused: {text}"),
                (Outcome::Unknown(text), _) if Instant::now() > until => {
                    bail!("{what} got no answer: {text}")
                }
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// A machine call, until there is an answer. Answers how often it was sent.
    pub async fn post(
        &self,
        (path, bearer): (&'static str, &str),
        about: &str,
        body: &Value,
    ) -> Result<Value> {
        let until = Instant::now() + INSIST;
        loop {
            let request_id = format!("fire-{}", Uuid::now_v7());
            let sent = self.send(path, (bearer, &request_id), body).await;
            let (outcome, answer) = match sent {
                Ok((200..300, answer)) => (Outcome::Accepted, answer),
                Ok((status @ 400..500, answer)) if status != 429 => {
                    (Outcome::Refused(format!("{status} {answer}")), answer)
                }
                Ok((status, answer)) => (Outcome::Unknown(format!("{status} {answer}")), answer),
                Err(error) => (Outcome::Unknown(format!("{error:#}")), Value::Null),
            };
            let changes = answer["accepted"].as_u64().unwrap_or(1) > 0;
            let (told, about, ended) = (outcome.clone(), about.to_owned(), Utc::now());
            self.note(Call { request_id, what: path, about, changes, outcome, ended });
            match told {
                Outcome::Accepted => return Ok(answer),
                Outcome::Refused(text) => bail!("{path} was refused: {text}"),
                Outcome::Unknown(text) if Instant::now() > until => {
                    bail!("{path} got no answer: {text}")
                }
                Outcome::Unknown(_) => sleep(Duration::from_millis(200)).await,
            }
        }
    }
}
