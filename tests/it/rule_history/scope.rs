//! Nothing crosses projects, and machine users see only what is for their application's backends.

use serde_json::{Value, json};
use trigger_manager::app::CreateLineOa;
use trigger_manager::store::cycle;
use uuid::Uuid;

use super::ask;
use crate::served::{Role, Served, within};

const LISTS: &str = "{
    scheduledActions { nodes {
        id triggerRuleName event { id } lineOa { id } user { userId } application { id } } }
    scheduledTriggerExecutions { nodes { id } }
    triggerLogs { nodes {
        scheduledActionId triggerRuleName event { id } lineOa { id } user { userId } } } }";

fn ids(list: &Value, field: &str) -> Vec<String> {
    let nodes = list["nodes"].as_array().unwrap().iter();
    let mut ids: Vec<_> = nodes.map(|node| node[field].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_machine_user_sees_what_is_for_its_own_backends_and_no_one_of_people() {
    let served = Served::new().await;
    let push = served.new_push();
    let mut neighbours = served.new_call();
    neighbours.concern.application_id = Some(served.id("sibling").parse::<Uuid>().unwrap().into());
    served.queue(&[&push, &neighbours]).await;
    served.log(&[served.new_log(&push), served.new_log(&neighbours)]).await;
    let data = served.client(Role::Machine).data(LISTS, Value::Null).await;
    let mut own = ["waitingAction", "cancelledAction"].map(|name| served.id(name).to_owned());
    own.sort();
    assert_eq!(ids(&data["scheduledActions"], "id"), own);
    assert_eq!(ids(&data["triggerLogs"], "scheduledActionId"), own);
    assert_eq!(data["scheduledTriggerExecutions"]["nodes"], json!([]));
    for list in ["scheduledActions", "triggerLogs"] {
        for node in data[list]["nodes"].as_array().unwrap() {
            for hidden in ["triggerRuleName", "event", "lineOa", "user"] {
                assert_eq!(node[hidden], Value::Null, "{list} shows {hidden}");
            }
        }
    }
    let other = served.client(Role::Sibling).data(LISTS, Value::Null).await;
    assert_eq!(ids(&other["scheduledActions"], "id"), [neighbours.id.to_string()]);
    assert_eq!(ids(&other["triggerLogs"], "scheduledActionId"), [neighbours.id.to_string()]);
    let one = "query($id: ID!) { scheduledAction(id: $id) { id } }";
    for hidden in [push.id, neighbours.id] {
        let real = served.client(Role::Machine).graphql(one, json!({ "id": hidden })).await;
        let missing = json!({ "id": Uuid::now_v7() });
        let missing = served.client(Role::Machine).graphql(one, missing).await;
        assert_eq!((real.code().as_str(), &real.body), ("NOT_FOUND", &missing.body));
    }
}

#[tokio::test]
async fn what_belongs_to_another_line_oa_or_project_does_not_show() {
    let served = Served::new().await;
    let new = CreateLineOa {
        project_id: served.id("project").parse::<Uuid>().unwrap().into(),
        name: "Second".into(),
        channel_id: "2".into(),
        channel_secret: "s".into(),
        channel_access_token: "t".into(),
    };
    let second = served.test.app.create_line_oa(&served.test.caller, new).await.unwrap();
    let mut event = served.new_event("first");
    event.line_oa_id = second.id;
    served.store_event(&event).await;
    let mut foreign = served.new_cycle();
    (foreign.organization_id, foreign.line_oa_id) = (Uuid::now_v7().into(), Uuid::now_v7().into());
    foreign.trigger_rule_id = Uuid::now_v7().into();
    within!(served, |tx| cycle::insert(&*tx, &foreign));
    let mut push = served.new_push();
    push.concern.line_oa_id = Some(second.id);
    let mut elsewhere = served.new_push();
    elsewhere.concern.organization_id = Some(Uuid::now_v7().into());
    served.queue(&[&push, &elsewhere]).await;
    served.log(&[served.new_log(&push), served.new_log(&elsewhere)]).await;
    let query = "query($id: ID!) {
        events(lineOaId: $id) { nodes { id } }
        scheduledActions(filter: { lineOaId: $id }) { nodes { id } }
        triggerLogs(filter: { lineOaId: $id }) { nodes { scheduledActionId } } }";
    let data = ask(&served, query, json!({ "id": second.id })).await;
    let expected = json!({
        "events": { "nodes": [{ "id": event.id }] },
        "scheduledActions": { "nodes": [{ "id": push.id }] },
        "triggerLogs": { "nodes": [{ "scheduledActionId": push.id }] },
    });
    assert_eq!(data, expected);
    let all = ask(&served, LISTS, Value::Null).await.to_string();
    for hidden in [foreign.id.to_string(), elsewhere.id.to_string()] {
        assert!(!all.contains(&hidden), "{all}");
    }
    let everything = served.administrator().data(LISTS, Value::Null).await.to_string();
    assert!(everything.contains(&elsewhere.id.to_string()), "it is there");
}
