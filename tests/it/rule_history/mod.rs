//! What came of trigger rules, as people and machines read it over the API: events, cycles, queued
//! work and the log.

mod changes;
mod lists;
mod live;
mod scope;

use serde_json::{Value, json};

use crate::served::{LINE_USER, Role, Served};

async fn ask(served: &Served, query: &str, variables: Value) -> Value {
    served.client(Role::Member).data(query, variables).await
}

const LINKS: &str = "query($event: ID!, $execution: ID!, $action: ID!, $rule: ID!) {
    triggerRule(id: $rule) {
        name logs { totalCount } executions { totalCount nodes { triggerRule { name } } }
        scheduledActions(filter: { statuses: [PENDING] }) { nodes { triggerRule { id } } } }
    event(id: $event) {
        id eventId type userId payload origin status matched processedAt
        lineOa { id } user { userId } scheduledActions { totalCount } logs { totalCount } }
    scheduledTriggerExecution(id: $execution) {
        triggerRuleId triggerRuleName lineOa { id } audience { id } status
        totalUsers processedUsers failedUsers logs { nodes { status execution { id } eventId } } }
    scheduledAction(id: $action) {
        id actionType actionConfig sourceType sourceConfig triggerRuleId triggerRuleName triggerRule { id }
        event { eventId } lineOa { id } user { userId } workflow { id } application { id }
        backend { id } parent { id } copies { id } status attempts { number } attemptCount
        nextAttemptAt executeAt finishedAt
        logs { nodes {
            status triggerRuleName triggerRule { id } event { id } scheduledAction { id } application { id }
            lineOa { id } user { userId } execution { id } } } } }";

#[tokio::test]
async fn each_thing_says_what_it_was_and_leads_to_the_others() {
    let served = Served::new().await;
    let cycle = served.id("execution").parse().unwrap();
    let push = served.new_push();
    let mut of_cycle = served.new_log(&push);
    (of_cycle.trigger_on, of_cycle.event_id) = ("schedule", Some(cycle));
    (of_cycle.status, of_cycle.reason) = ("held_back", Some("frequency"));
    served.log(&[of_cycle]).await;
    let (event, action) = (served.id("event"), served.id("waitingAction"));
    let rule = json!({ "id": served.id("rule") });
    let ids = json!({
        "event": event, "execution": cycle, "action": action, "rule": rule["id"] });
    let data = ask(&served, LINKS, ids).await;
    let (line_oa, user) = (json!({ "id": served.id("lineOa") }), json!({ "userId": LINE_USER }));
    let shown = &data["event"];
    assert_eq!((&shown["eventId"], &shown["type"]), (&json!("first"), &json!("form_submitted")));
    assert_eq!(shown["payload"], json!({ "formId": "f" }));
    assert_eq!((&shown["status"], &shown["matched"]), (&json!("PROCESSED"), &json!(1)));
    assert_eq!((&shown["lineOa"], &shown["user"]), (&line_oa, &user));
    assert_eq!(shown["scheduledActions"]["totalCount"], 2);
    assert_eq!(shown["logs"]["totalCount"], 2);
    let shown = &data["scheduledTriggerExecution"];
    assert_eq!(shown["triggerRuleName"], "Greets who answers");
    assert_eq!((&shown["status"], &shown["failedUsers"]), (&json!("COMPLETED"), &json!(1)));
    assert_eq!(shown["audience"]["id"], served.id("audience"));
    let walked = json!({ "status": "HELD_BACK", "execution": { "id": cycle }, "eventId": null });
    assert_eq!(shown["logs"]["nodes"], json!([walked]));
    let shown = &data["scheduledAction"];
    assert_eq!(shown["actionConfig"], json!({ "text": "hello" }));
    assert_eq!(
        (&shown["triggerRuleId"], &shown["sourceType"]),
        (&json!(served.id("rule")), &json!("form_submitted"),)
    );
    assert_eq!(shown["triggerRule"], rule);
    assert_eq!(shown["event"]["eventId"], "first");
    assert_eq!(shown["workflow"]["id"], served.id("workflow"));
    assert_eq!(shown["nextAttemptAt"], shown["executeAt"]);
    assert_eq!((&shown["backend"], &shown["finishedAt"]), (&Value::Null, &Value::Null));
    let log = json!({
        "status": "QUEUED", "triggerRuleName": "Greets who answers", "triggerRule": rule,
        "event": { "id": event }, "scheduledAction": { "id": action }, "application": { "id": served.id("application") },
        "lineOa": line_oa, "user": user, "execution": null,
    });
    assert_eq!(shown["logs"]["nodes"], json!([log]));
    let shown = &data["triggerRule"];
    assert_eq!(shown["name"], "Greets who answers");
    assert_eq!(shown["logs"]["totalCount"], 3);
    let cycles =
        json!({ "totalCount": 1, "nodes": [{ "triggerRule": { "name": shown["name"] } }] });
    assert_eq!(shown["executions"], cycles);
    assert_eq!(shown["scheduledActions"]["nodes"], json!([{ "triggerRule": rule }]));
}

#[tokio::test]
async fn a_call_of_several_backends_shows_its_copies_and_each_copy_the_call() {
    let served = Served::new().await;
    let call: trigger_manager::domain::id::ScheduledActionId =
        served.id("waitingAction").parse::<uuid::Uuid>().unwrap().into();
    let backends = ["backend", "failingBackend"]
        .map(|name| served.id(name).parse::<uuid::Uuid>().unwrap().into())
        .to_vec();
    let now = served.test.app.now();
    let addressed = [(call, backends)];
    crate::served::within!(served, |tx| {
        trigger_manager::store::scheduled_action::address(&*tx, &addressed, now)
    });
    let query = "query($id: ID!) { scheduledAction(id: $id) {
        backend { id } parent { id } copies { id backend { id } parentId parent { id } } } }";
    let mut data = ask(&served, query, json!({ "id": call })).await;
    let shown = data["scheduledAction"].take();
    assert_eq!(shown["backend"]["id"], served.id("backend"));
    assert_eq!(shown["parent"], Value::Null);
    assert_eq!(shown["copies"].as_array().unwrap().len(), 1);
    let copy = &shown["copies"][0];
    assert_eq!(copy["backend"]["id"], served.id("failingBackend"));
    assert_eq!((&copy["parentId"], &copy["parent"]["id"]), (&json!(call), &json!(call)));
}

#[tokio::test]
async fn history_names_a_rule_that_was_deleted_and_outlives_its_line_oa() {
    let served = Served::new().await;
    let mut rule = served.new_rule();
    rule.id = served.id("rule").parse::<uuid::Uuid>().unwrap().into();
    rule.deleted_date = Some(served.test.app.now());
    crate::served::within!(served, |tx| trigger_manager::store::rule::update(&*tx, &rule));
    let query = "{ triggerLogs { nodes { triggerRuleId triggerRuleName lineOa { id } } }
        scheduledActions { nodes { triggerRuleName lineOa { id } user { userId } } } }";
    let data = ask(&served, query, Value::Null).await;
    for list in ["triggerLogs", "scheduledActions"] {
        assert_eq!(data[list]["nodes"][0]["triggerRuleName"], "Greets who answers", "{list}");
    }
    let delete = "mutation($id: ID!) { deleteLineOa(id: $id) { id } }";
    let id = json!({ "id": served.id("lineOa") });
    served.client(Role::Maintainer).data(delete, id).await;
    let data = ask(&served, query, Value::Null).await;
    let gone = json!({
        "triggerRuleId": served.id("rule"), "triggerRuleName": null, "lineOa": null,
    });
    assert_eq!(data["triggerLogs"]["nodes"], json!([gone, gone]));
}
