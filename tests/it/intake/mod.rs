//! How events and the work of workflows come in over HTTP.

mod cloud;
mod events;
mod hostile;
mod kept;
mod resume;
mod webhook;

use serde_json::{Value, json};
use trigger_manager::app::AuditFilter;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::AuditLog;
use trigger_manager::domain::event::Event;
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::store::event;

use crate::client::Answer;
use crate::served::{Role, Served};

const EVENTS: &str = "/api/machine/events";
/// A user that nobody knows yet.
const NEWCOMER: &str = "U00000000000000000000000000000002";

/// An event that is right in every part.
fn form(served: &Served, id: &str) -> Value {
    json!({
        "eventId": id,
        "type": "form_submitted",
        "lineOaId": served.id("lineOa"),
        "userId": NEWCOMER,
        "occurredAt": "2026-03-02T11:00:00.123456789Z",
        "payload": { "formId": 7, "submissionId": "s", "answers": { "a_b": 1 } },
    })
}

/// Sends events as the machine user.
async fn send(served: &Served, body: &Value) -> Answer {
    served.client(Role::Machine).post(EVENTS, body).await
}

/// The stored events, oldest first, without the one that the world begins with.
async fn stored(served: &Served) -> Vec<Event> {
    let request = PageRequest { limit: 200, ..Default::default() };
    let (db, filter) = (served.test.app.store.read(), event::Filter::default());
    let page = event::list(db, Scope::Everything, &filter, Direction::Ascending, &request);
    let events = page.await.unwrap().rows.into_iter().map(|(_, event)| event);
    events.filter(|event| event.id.to_string() != served.id("event")).collect()
}

/// The rows of the audit log with this action, latest first.
async fn audited(served: &Served, action: &str) -> Vec<AuditLog> {
    let request = PageRequest { limit: 200, ..Default::default() };
    let filter = AuditFilter { action: Some(action.to_owned()), ..Default::default() };
    let page = served.test.app.audit_logs(Scope::Everything, &filter, &request);
    page.await.unwrap().rows.into_iter().map(|(_, row)| row).collect()
}

/// The value of a series, 0 if there is none.
async fn metric(served: &Served, series: &str) -> f64 {
    let text = served.monitor.get("/metrics").await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |value| value.trim().parse().unwrap())
}

/// The users that the LINE OA knows, with their follow state.
async fn users(served: &Served) -> Vec<(String, Value)> {
    let query = "query($id: ID!) { lineUsers(lineOaId: $id) { nodes { userId followState } } }";
    let data = served.administrator().data(query, json!({ "id": served.id("lineOa") })).await;
    let nodes = data["lineUsers"]["nodes"].as_array().unwrap().clone();
    let users = nodes
        .into_iter()
        .map(|mut node| (node["userId"].as_str().unwrap().to_owned(), node["followState"].take()));
    users.collect()
}
