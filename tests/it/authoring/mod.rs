//! Trigger rules as people write them, over the API: made, changed, switched off, deleted, tried.

mod dry_run;
mod life;
mod refusals;
mod schedules;

use serde_json::{Value, json};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::event::{Event, EventOrigin, EventStatus};
use trigger_manager::domain::id::{EventId, LineOaId, TriggerRuleId};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::domain::scheduled_action::ScheduledAction;
use trigger_manager::store::{event, rule, scheduled_action};

use crate::client::{Answer, Client};
use crate::served::{LINE_USER, Role, Served};

const CREATE: &str = "mutation($input: CreateTriggerRuleInput!) {
    createTriggerRule(input: $input) { id name description sourceType sourceConfig actionType
        actionConfig enabled frequency cooldownSeconds workflowNodePath nextFireAt createdAt
        updatedAt deletedAt scheduleDescription effectiveTimeZone
        workflow { id } audience { id } lineOa { id } } }";
const UPDATE: &str = "mutation($id: ID!, $input: UpdateTriggerRuleInput!) {
    updateTriggerRule(id: $id, input: $input) { id name description sourceType sourceConfig
        actionType actionConfig enabled frequency cooldownSeconds workflowNodePath nextFireAt
        updatedAt scheduleDescription effectiveTimeZone workflow { id } audience { id } } }";
const DELETE: &str = "mutation($id: ID!) { deleteTriggerRule(id: $id) { id deletedAt } }";

fn maintainer(served: &Served) -> &Client {
    served.client(Role::Maintainer)
}

/// A rule that answers each form with a message.
fn draft(served: &Served) -> Value {
    json!({
        "lineOaId": served.id("lineOa"), "name": "Thanks", "sourceType": "form_submitted",
        "actionType": "send_message", "actionConfig": message("Thank you"),
    })
}

fn message(text: &str) -> Value {
    json!({ "messages": [{ "type": "text", "text": text }] })
}

/// `input` with the keys of `other` over its own.
fn with(mut input: Value, other: Value) -> Value {
    input.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    input
}

async fn try_create(served: &Served, other: Value) -> Answer {
    let input = with(draft(served), other);
    maintainer(served).graphql(CREATE, json!({ "input": input })).await
}

async fn create(served: &Served, other: Value) -> Value {
    try_create(served, other).await.data()["createTriggerRule"].take()
}

async fn try_update(served: &Served, id: &Value, input: Value) -> Answer {
    maintainer(served).graphql(UPDATE, json!({ "id": id, "input": input })).await
}

async fn update(served: &Served, id: &Value, input: Value) -> Value {
    try_update(served, id, input).await.data()["updateTriggerRule"].take()
}

/// A rule as it is stored.
async fn stored(served: &Served, id: &Value) -> TriggerRule {
    let id: TriggerRuleId = id.as_str().unwrap().parse().unwrap();
    let db = served.test.app.store.read();
    rule::find_all(db, Scope::Everything, &[id]).await.unwrap().remove(0)
}

/// The user of the world sends a form, and what is due is done.
async fn form_sent(served: &Served, form: &str) {
    let test = &served.test;
    let id = EventId::new();
    let line_oa_id: LineOaId = served.id("lineOa").parse().unwrap();
    let event = Event {
        id,
        event_id: id.to_string(),
        event_type: "form_submitted".into(),
        line_oa_id,
        organization_id: test.application.project_id,
        user_id: Some(LINE_USER.into()),
        occurred_at: test.app.now(),
        payload: json!({ "formId": form, "answers": { "name": "Ada" } }),
        subject: None,
        origin: EventOrigin::Api,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: test.app.now(),
        processed_at: None,
    };
    let tx = test.app.store.begin().await.unwrap();
    event::insert(&*tx, &[event]).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    test.run().await;
}

/// What a rule has queued, oldest first.
async fn queued(served: &Served, id: &Value) -> Vec<ScheduledAction> {
    let filter = scheduled_action::Filter {
        trigger_rule_id: Some(id.as_str().unwrap().parse().unwrap()),
        ..Default::default()
    };
    let (db, page) = (served.test.app.store.read(), PageRequest::default());
    let found = scheduled_action::list(db, Scope::Everything, &filter, Direction::Ascending, &page);
    found.await.unwrap().rows.into_iter().map(|(_, row)| row).collect()
}
