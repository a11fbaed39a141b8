//! Attributes of users, and the events that tell of them.

use serde_json::{Value, json};

use super::{maintainer, rows};
use crate::client::Answer;
use crate::served::{LINE_USER, Role, Served};

const SET: &str = "mutation($input: SetLineUserAttributesInput!) {
    setLineUserAttributes(input: $input) { userId attributes lineOa { id } } }";

async fn set(served: &Served, user: &str, attributes: Value) -> Answer {
    let line_oa = served.id("lineOa");
    let input = json!({ "lineOaId": line_oa, "userId": user, "attributes": attributes });
    maintainer(served).graphql(SET, json!({ "input": input })).await
}

/// The payloads of the stored events, oldest first.
async fn told(served: &Served) -> Vec<Value> {
    let sql = "SELECT payload, user_id, origin, status, event_type FROM event \
               WHERE event_type = 'attribute_changed' ORDER BY id";
    let mut payloads = Vec::new();
    for row in rows(served, sql).await {
        let text = |column: &str| row.try_get::<String>("", column).unwrap();
        let kind = [text("event_type"), text("origin"), text("status")];
        assert_eq!(kind, ["attribute_changed", "internal", "pending"]);
        assert_eq!(text("user_id"), LINE_USER);
        payloads.push(row.try_get("", "payload").unwrap());
    }
    payloads.sort_by_key(|payload: &Value| payload["attribute"].to_string());
    payloads
}

fn payload(attribute: &str, old: Value, new: Value) -> Value {
    json!({ "attribute": attribute, "oldValue": old, "newValue": new })
}

#[tokio::test]
async fn what_really_changes_is_told_once_an_attribute_and_the_rest_stays() {
    let served = Served::new().await;
    let first = json!({ "plan": "gold", "visits": 1, "tags": ["a"], "gone": null });
    let answer = set(&served, LINE_USER, first).await.data();
    let attributes = json!({ "plan": "gold", "visits": 1, "tags": ["a"] });
    assert_eq!(answer["setLineUserAttributes"]["attributes"], attributes);
    let none = Value::Null;
    let expected = [
        payload("plan", none.clone(), json!("gold")),
        payload("tags", none.clone(), json!(["a"])),
        payload("visits", none.clone(), json!(1)),
    ];
    assert_eq!(told(&served).await, expected);
    assert_eq!(set(&served, LINE_USER, attributes).await.code(), "");
    assert_eq!(told(&served).await, expected, "the same values are no change");
    let counted = served.test.app.metrics.encode();
    let received = "pfy_events_received_total{origin=\"internal\",type=\"attribute_changed\"} 3";
    assert!(counted.lines().any(|line| line == received), "{counted}");
    let second = json!({ "plan": null, "visits": 1.5, "tags": ["a"] });
    let answer = set(&served, LINE_USER, second).await.data();
    let left = json!({ "visits": 1.5, "tags": ["a"] });
    assert_eq!(answer["setLineUserAttributes"]["attributes"], left);
    let told = told(&served).await;
    assert_eq!(told.len(), 5);
    assert!(told.contains(&payload("plan", json!("gold"), none)), "{told:?}");
    assert!(told.contains(&payload("visits", json!(1), json!(1.5))), "{told:?}");
}

#[tokio::test]
async fn a_refused_change_leaves_neither_user_nor_event() {
    let served = Served::new().await;
    let unknown = "U0000000000000000000000000000abcd";
    let long = json!({ "k": "x".repeat(40_000) });
    let names: serde_json::Map<_, _> = (0..201).map(|n| (n.to_string(), json!(n))).collect();
    for (user, attributes, field) in [
        (unknown, json!([1]), "attributes"),
        (unknown, json!({ "": 1 }), "attributes"),
        (unknown, long, "attributes"),
        (unknown, json!(names), "attributes"),
        ("U123", json!({ "a": 1 }), "userId"),
    ] {
        let answer = set(&served, user, attributes).await;
        assert_eq!(answer.code(), "INVALID", "{}", answer.body);
        let error = &answer.json()["errors"][0];
        assert_eq!(error["extensions"]["field"], field, "{}", answer.body);
    }
    // The door refuses it already, wherever it stands.
    let null_character = set(&served, unknown, json!({ "a": ["b\u{0}"] })).await;
    assert_eq!(null_character.code(), "BAD_USER_INPUT", "{}", null_character.body);
    assert_ne!(set(&served, unknown, Value::Null).await.code(), "");
    assert_eq!(told(&served).await, Vec::<Value>::new());
    let query = "query($id: ID!, $user: String!) { lineUser(lineOaId: $id, userId: $user) {
        userId } }";
    let variables = json!({ "id": served.id("lineOa"), "user": unknown });
    let missing = served.client(Role::Member).graphql(query, variables).await;
    assert_eq!(missing.code(), "NOT_FOUND");
    assert_eq!(missing.json()["errors"][0]["message"], "LINE user not found");
}

#[tokio::test]
async fn a_user_that_was_not_known_becomes_so_and_the_audit_row_has_no_state_before() {
    let served = Served::new().await;
    let unknown = "U0000000000000000000000000000abcd";
    assert_eq!(set(&served, unknown, json!({})).await.code(), "");
    set(&served, unknown, json!({})).await;
    let log = "{ auditLogs(filter: { entityType: \"line_user\" }) {
        nodes { action before after entityId } } }";
    let log = served.administrator().data(log, Value::Null).await;
    let rows = log["auditLogs"]["nodes"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["before"], Value::Null);
    assert_eq!(rows[1]["after"]["userId"], unknown);
    assert_eq!(rows[0]["before"]["userId"], unknown);
    assert_eq!(rows[0]["entityId"], served.id("lineOa"));
}

#[tokio::test]
async fn what_two_say_at_once_of_different_attributes_is_both_kept() {
    let served = Served::new().await;
    let unknown = "U0000000000000000000000000000abcd";
    let (one, other) = (json!({ "one": 1 }), json!({ "other": 2 }));
    let (a, b) = tokio::join!(set(&served, unknown, one), set(&served, unknown, other));
    assert_eq!((a.code().as_str(), b.code().as_str()), ("", ""));
    let merged = set(&served, unknown, json!({})).await.data();
    let attributes = &merged["setLineUserAttributes"]["attributes"];
    assert_eq!(*attributes, json!({ "one": 1, "other": 2 }));
}
