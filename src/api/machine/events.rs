//! `POST /api/machine/events`.

mod cloud;
mod many;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::cloud::CloudEvent;
use self::many::Many;
use super::door::{self, Authenticated, parse_below, read_up_to};
use super::problem::Problem;
use crate::app::{App, EventWords, NewEvent, RefusedEvents};
use crate::domain::rule::misfit::join;
use crate::error::{Error, Result};

/// The largest body, in bytes.
pub(super) const EVENTS_BODY_MAX: usize = 4 * 1024 * 1024;

const CLOUD_EVENT: &str = "application/cloudevents+json";
const CLOUD_EVENTS: &str = "application/cloudevents-batch+json";

/// Something that happened.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "eventId": "form-7-submission-31",
    "type": "form_submitted",
    "lineOaId": "0198c0de-0000-7000-8000-000000000008",
    "userId": "U0123456789abcdef0123456789abcdef",
    "occurredAt": "2026-01-01T12:00:00Z",
    "payload": { "formId": "7", "submissionId": "31", "answers": { "size": "M" } }
}))]
pub(super) struct EventRequest {
    /// The sender's id of the event, unique in the LINE OA: with it, an event is stored once.
    #[serde(alias = "event_id")]
    #[schema(value_type = String, required = true, min_length = 1, max_length = 200)]
    event_id: Option<String>,
    /// What happened: a source type of trigger rules, except `schedule`.
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, example = "form_submitted")]
    event_type: Option<String>,
    /// The LINE OA whose rules it meets.
    #[serde(alias = "line_oa_id")]
    #[schema(value_type = String, format = Uuid, required = true)]
    line_oa_id: Option<String>,
    /// LINE's id of the user that it happened to.
    #[serde(alias = "user_id")]
    #[schema(pattern = "^U[0-9a-f]{32}$")]
    user_id: Option<String>,
    /// When it happened, at most 24 hours ahead of the server's clock. Left out: now.
    #[serde(alias = "occurred_at")]
    #[schema(format = DateTime)]
    occurred_at: Option<String>,
    /// What else is known of it, as its type asks for; keys in snake_case are read too, and those
    /// that the type does not know are kept. At most 64 KiB and 64 levels.
    #[schema(value_type = Option<Object>)]
    payload: Option<Value>,
}

/// One event, or 1 to 1000 of them.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the reference is made of it")]
pub(super) enum EventsRequest {
    /// One.
    One(EventRequest),
    /// Many.
    Many(Vec<EventRequest>),
}

/// What became of the events.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "accepted": 2, "duplicates": ["form-7-submission-31"] }))]
pub(super) struct EventsAnswer {
    /// How many were stored.
    accepted: usize,
    /// The ids of those that were stored before, or that stand in the request once more.
    duplicates: Vec<String>,
}

/// Send events
///
/// One event, an array of 1 to 1000, or CloudEvents 1.0: structured
/// (`application/cloudevents+json`), a batch (`application/cloudevents-batch+json`), or binary
/// (`ce-…` headers, the data as JSON body). Of a CloudEvent, `id` is the event's id, `subject` the
/// user, `time` when it happened, `data` the payload, and the extension `lineoaid` names the LINE
/// OA; `source` must be there and is not kept, so ids must be unique whatever the source.
///
/// Answered when all events are stored; they meet the rules right after. One event that does not
/// fit refuses all, and `field` says which one, such as `events[3].payload.startsAt`. An event whose
/// id is stored already does nothing, so that it is safe to repeat a request. A body has at most
/// 4 MiB.
///
/// A machine user names LINE OAs of its application's project; a user needs the maintainer or owner
/// role there. What was stored is written to the audit log as `event.receive`, one row a request.
#[utoipa::path(
    post,
    path = "/api/machine/events",
    tag = "Events",
    request_body(content(
        (EventsRequest = "application/json"),
        (CloudEvent = "application/cloudevents+json"),
        (Vec<CloudEvent> = "application/cloudevents-batch+json"),
    )),
    responses(
        (status = 202, description = "All events are stored, now or before.", body = EventsAnswer),
        (status = 404, description = "There is no such LINE OA, or the caller may not name it.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body has more than 4 MiB.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn receive_events(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<(StatusCode, Json<EventsAnswer>), Problem> {
    let sent = Sent::read(request).await?;
    let (words, many) = (sent.words, sent.many);
    let received = app.receive_events(&caller, sent.events, words).await;
    let received = received.map_err(|refused| problem(refused, words, many))?;
    let (accepted, duplicates) = (received.accepted, received.duplicates);
    Ok((StatusCode::ACCEPTED, Json(EventsAnswer { accepted, duplicates })))
}

/// Events as they were sent.
struct Sent {
    events: Vec<NewEvent>,
    words: &'static EventWords,
    /// Whether they came in a list.
    many: bool,
}

impl Sent {
    async fn read(request: Request) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let kind = door::essence(&headers);
        let binary = kind != CLOUD_EVENT && kind != CLOUD_EVENTS && cloud::is_binary(&headers);
        if !(door::is_json(&headers) || binary && kind.is_empty()) {
            return Err(door::no_json());
        }
        let bytes = read_up_to(request, EVENTS_BODY_MAX).await?;
        if binary {
            if kind.is_empty() && !bytes.is_empty() {
                return Err(door::no_json());
            }
            return Self::cloud(vec![cloud::binary(&headers, &bytes)?], false);
        }
        match kind.as_str() {
            CLOUD_EVENT => Self::cloud(vec![door::parse(&bytes)?], false),
            CLOUD_EVENTS => Self::cloud(list::<CloudEvent>(&bytes)?, true),
            _ if is_list(&bytes) => {
                let events = list::<EventRequest>(&bytes)?.into_iter().map(NewEvent::from);
                Ok(Self { events: events.collect(), words: &EventWords::OURS, many: true })
            }
            _ => {
                let event: EventRequest =
                    door::parse(&bytes).map_err(|problem| one_or_many(problem, &bytes))?;
                Ok(Self { events: vec![event.into()], words: &EventWords::OURS, many: false })
            }
        }
    }

    fn cloud(given: Vec<CloudEvent>, many: bool) -> Result<Self, Problem> {
        let mut events = Vec::with_capacity(given.len());
        for (at, event) in given.into_iter().enumerate() {
            events.push(event.told().map_err(|error| below(&root(Some(at), many), error))?);
        }
        Ok(Self { events, words: &EventWords::CLOUD_EVENTS, many })
    }
}

fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"[")
}

fn list<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, Problem> {
    Ok(parse_below::<Many<T>>("events", bytes)?.take()?)
}

/// Of what is JSON and neither, the answer says both.
fn one_or_many(problem: Problem, bytes: &[u8]) -> Problem {
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    match problem.status() {
        StatusCode::UNPROCESSABLE_ENTITY if !is_object => {
            problem.with_detail("the body must be an event, a JSON object, or an array of them")
        }
        _ => problem,
    }
}

/// Where an event stands in the request.
fn root(at: Option<usize>, many: bool) -> String {
    match at {
        Some(at) if many => format!("events[{at}]"),
        _ => String::new(),
    }
}

/// What was wrong of an event, seen from the request.
fn below(root: &str, error: Error) -> Error {
    match error {
        Error::Invalid { code, field, reason } => {
            let reason = match reason.starts_with(&*field) {
                true => join(root, &reason),
                false => reason,
            };
            Error::Invalid { code, field: join(root, &field).into(), reason }
        }
        other => other,
    }
}

fn problem(refused: RefusedEvents, words: &EventWords, many: bool) -> Problem {
    let root = root(refused.at, many);
    let problem = Problem::from(below(&root, refused.error));
    if problem.status() != StatusCode::NOT_FOUND {
        return problem;
    }
    let field = join(&root, words.line_oa_id);
    problem.with_detail(format!("{field}: LINE OA not found")).with_field(field)
}

impl From<EventRequest> for NewEvent {
    fn from(request: EventRequest) -> Self {
        Self {
            event_id: request.event_id,
            event_type: request.event_type,
            line_oa_id: request.line_oa_id,
            user_id: request.user_id,
            occurred_at: request.occurred_at,
            payload: request.payload,
        }
    }
}
