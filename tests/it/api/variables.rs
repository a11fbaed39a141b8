//! Variables that are not sent: what they would say is not said, which is not the same as null.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::served::{Role, Served};

const UPDATE: &str = "mutation($id: ID!, $name: String, $zone: String) {
    updateTrigger(id: $id, input: { name: $name, timeZone: $zone }) { name timeZone } }";

/// The first error of a document that the maintainer sends.
async fn refused(served: &Served, query: &str, variables: Value) -> Value {
    let answer = served.client(Role::Maintainer).graphql(query, variables).await;
    let error = answer.json()["errors"][0].take();
    assert!(error.is_object(), "{answer:?}");
    error
}

#[tokio::test]
async fn a_time_zone_that_is_not_sent_stays_and_one_that_is_null_goes() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let id = served.id("trigger");
    let update = async |variables: Value| {
        let found = maintainer.data(UPDATE, variables).await;
        (found["updateTrigger"]["name"].clone(), found["updateTrigger"]["timeZone"].clone())
    };
    let zone = json!("Asia/Tokyo");
    let variables = json!({ "id": id, "name": "A", "zone": zone });
    assert_eq!(update(variables).await, (json!("A"), zone.clone()));
    assert_eq!(update(json!({ "id": id, "name": "B" })).await, (json!("B"), zone.clone()));
    assert_eq!(update(json!({ "id": id })).await, (json!("B"), zone));
    assert_eq!(update(json!({ "id": id, "zone": null })).await, (json!("B"), Value::Null));
}

#[tokio::test]
async fn a_websocket_leaves_out_what_is_not_sent_too() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let id = served.id("trigger");
    maintainer.data(UPDATE, json!({ "id": id, "zone": "Asia/Tokyo" })).await;
    for (variables, left) in [
        (json!({ "id": id, "name": "B" }), json!("Asia/Tokyo")),
        (json!({ "id": id, "zone": null }), Value::Null),
    ] {
        let found = maintainer.subscribe(UPDATE, variables).await.event().await;
        assert_eq!(found["updateTrigger"], json!({ "name": "B", "timeZone": left }));
    }
    let watch = "subscription($id: ID) { occurrences(applicationId: $id) { id } }";
    let told = maintainer.subscribe(watch, json!({})).await.next().await;
    assert_eq!(told["type"], "error", "{told}");
    assert!(told.to_string().contains("is required but not provided"), "{told}");
}

#[tokio::test]
async fn a_password_that_is_not_sent_holds_and_one_that_is_null_does_not() {
    let served = Served::new().await;
    let update = "mutation($id: ID!, $name: String, $password: String) {
        updateMachineUser(id: $id, input: { name: $name, password: $password }) { username } }";
    let maintainer = served.client(Role::Maintainer);
    let id = served.id("anotherMachineUser");
    let password = "a password of a machine";
    let variables = json!({ "id": id, "password": password });
    let found = maintainer.data(update, variables).await;
    let username = found["updateMachineUser"]["username"].as_str().unwrap();
    let basic = STANDARD.encode(format!("{username}:{password}"));
    let basic = served.client(Role::Anonymous).authorized(&format!("Basic {basic}"));
    for (variables, status) in [
        (json!({ "id": id, "name": "B" }), 200),
        (json!({ "id": id }), 200),
        (json!({ "id": id, "password": null }), 401),
    ] {
        maintainer.data(update, variables.clone()).await;
        let checked = basic.get("/api/machine/check").await;
        assert_eq!(checked.status, status, "{variables}: {checked:?}");
    }
}

#[tokio::test]
async fn a_rules_workflow_that_is_not_sent_stays_and_one_that_is_null_goes() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let create =
        "mutation($input: CreateTriggerRuleInput!) { createTriggerRule(input: $input) { id } }";
    let config = json!({ "messages": [{ "type": "text", "text": "Thank you" }] });
    let input = json!({
        "lineOaId": served.id("lineOa"), "name": "Thanks", "sourceType": "form_submitted",
        "actionType": "send_message", "actionConfig": config,
        "workflowId": served.id("workflow"), "workflowNodePath": "start/1",
    });
    let made = maintainer.data(create, json!({ "input": input })).await;
    let id = made["createTriggerRule"]["id"].clone();
    let update = "mutation($id: ID!, $name: String, $workflow: ID, $path: String) {
        updateTriggerRule(id: $id, input: {
            name: $name, workflowId: $workflow, workflowNodePath: $path
        }) { name workflowNodePath workflow { id } } }";
    let kept = json!({ "id": served.id("workflow") });
    for (variables, expected) in [
        (json!({ "id": id, "name": "B" }), ("start/1".into(), kept.clone())),
        (json!({ "id": id, "path": null }), (Value::Null, kept)),
        (json!({ "id": id, "workflow": null, "path": null }), (Value::Null, Value::Null)),
    ] {
        let found = maintainer.data(update, variables.clone()).await;
        let rule = &found["updateTriggerRule"];
        assert_eq!(rule["name"], "B", "{variables}");
        let left = (rule["workflowNodePath"].clone(), rule["workflow"].clone());
        assert_eq!(left, expected, "{variables}");
    }
}

#[tokio::test]
async fn what_is_not_sent_has_the_default_of_its_place() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let create = "mutation($application: ID!, $text: String, $on: Boolean, $missed: CatchUp) {
        createTrigger(input: {
            applicationId: $application, name: \"A\", runKey: \"a\", cronExpression: \"@daily\",
            description: $text, enabled: $on, catchUp: $missed
        }) { description enabled catchUp } }";
    let application = served.id("application");
    let found = maintainer.data(create, json!({ "application": application })).await;
    let expected = json!({ "description": "", "enabled": false, "catchUp": "ALL" });
    assert_eq!(found["createTrigger"], expected);
    let error = refused(&served, create, json!({ "application": application, "on": null })).await;
    assert_eq!(error["extensions"]["field"], "enabled", "{error}");
    let preview = "query($count: Int) { cronPreview(expression: \"@daily\", count: $count) {
        occurrences { at } } }";
    for (variables, count) in [(json!({}), 5), (json!({ "count": 2 }), 2)] {
        let found = maintainer.data(preview, variables).await;
        assert_eq!(found["cronPreview"]["occurrences"].as_array().unwrap().len(), count);
    }
    let error = refused(&served, preview, json!({ "count": null })).await;
    assert_eq!(error["extensions"]["field"], "count", "{error}");
    let ordered = "query($by: DeliveryOrderField) {
        deliveries(order: { field: $by, direction: DESC }) { totalCount } }";
    let found = maintainer.data(ordered, Value::Null).await;
    assert_eq!(found["deliveries"]["totalCount"], 2);
}

#[tokio::test]
async fn fragments_that_operations_share_leave_out_what_is_not_sent() {
    let served = Served::new().await;
    let query = "query one($count: Int, $zone: String) { ...preview }
        query two($count: Int!, $zone: String) { ...preview ...version }
        fragment preview on Query {
            cronPreview(expression: \"@daily\", count: $count, timeZone: $zone) { ...due } }
        fragment due on CronPreview { timeZone occurrences { at } }
        fragment version on Query { __typename }";
    let ask = async |name: &str, variables: Value| {
        let body = json!({ "query": query, "operationName": name, "variables": variables });
        served.client(Role::Anonymous).post("/graphql", &body).await.data()["cronPreview"].take()
    };
    let count = |preview: &Value| preview["occurrences"].as_array().unwrap().len();
    let one = ask("one", json!({ "zone": "Asia/Tokyo" })).await;
    assert_eq!((count(&one), &one["timeZone"]), (5, &json!("Asia/Tokyo")));
    assert_eq!(count(&ask("two", json!({ "count": 3 })).await), 3);
}

#[tokio::test]
async fn what_must_be_given_is_refused_as_missing() {
    let served = Served::new().await;
    let query = "mutation($id: ID) { deleteTrigger(id: $id) { id } }";
    let error = refused(&served, query, json!({})).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"id\"") && message.contains("required"), "{message}");
    assert_eq!(error["locations"], json!([{ "line": 1, "column": 21 }]));
    let query = "mutation($application: ID, $name: String!) { createTrigger(input: {
        applicationId: $application, name: $name, runKey: \"a\", cronExpression: \"@daily\"
    }) { id } }";
    let error = refused(&served, query, json!({ "name": "A" })).await;
    let extensions = json!({ "code": "BAD_USER_INPUT", "field": "applicationId" });
    assert_eq!(error["extensions"], extensions, "{error}");
    let query = "query($status: DeliveryStatus) {
        deliveries(filter: { statuses: [FAILED, $status] }) { totalCount } }";
    let error = refused(&served, query, json!({})).await;
    assert_eq!(error["extensions"]["field"], "filter.statuses[1]", "a null in a list: {error}");
}

#[tokio::test]
async fn a_document_is_as_valid_as_it_is_with_all_its_variables() {
    let served = Served::new().await;
    for (query, part) in [
        ("query($n: Int) { triggers(frist: $n) { totalCount } }", "frist"),
        (
            "query($n: Int) { triggers(filter: { colour: 1, enabled: $n }) { totalCount } }",
            "colour",
        ),
        ("query($n: Nothing) { triggers(first: $n) { totalCount } }", "Nothing"),
        ("query($n: Int, $m: Int) { triggers(first: $n) { totalCount } }", "$m"),
        ("query($n: Int) { triggers(first: $n, last: $m) { totalCount } }", "$m"),
        ("query($n: Int) { triggers(first: $n) { ...f } }", "f"),
        (
            "query($n: Int) { triggers(first: $n) { totalCount } }
            fragment f on Query { __typename }",
            "f",
        ),
    ] {
        let error = refused(&served, query, json!({})).await;
        assert!(error["message"].as_str().unwrap().contains(part), "{query}: {error}");
        assert!(error["path"].is_null(), "nothing is executed: {error}");
    }
}

#[tokio::test]
async fn a_condition_has_its_default_and_is_refused_without_a_value() {
    let served = Served::new().await;
    let member = served.client(Role::Member);
    for (directive, default, shown) in [
        ("include", "true", true),
        ("include", "false", false),
        ("skip", "true", false),
        ("skip", "false", true),
    ] {
        let query = format!(
            "query($if: Boolean = {default}) {{
                a: __typename b: executorStatus @{directive}(if: $if) {{ timeZone }} }}"
        );
        let found = member.data(&query, json!({})).await;
        assert_eq!(found["b"].is_object(), shown, "{query}");
        let query = query.replace(&format!(" = {default}"), "");
        let error = refused(&served, &query, json!({})).await;
        assert!(error["message"].as_str().unwrap().contains("\"if\""), "{error}");
    }
}

#[tokio::test]
async fn a_number_that_is_too_large_is_told_with_its_argument() {
    let served = Served::new().await;
    let variable = "query($many: Int) {\n triggers(last: $many) { totalCount } }";
    let literal = "{ triggers(filter: { enabled: true }, last: 3000000000) { totalCount } }";
    for query in [variable, literal] {
        let variables =
            if query == variable { json!({ "many": 3_000_000_000_u64 }) } else { json!({}) };
        let error = refused(&served, query, variables).await;
        let extensions = json!({ "code": "BAD_USER_INPUT", "field": "last" });
        assert_eq!(error["extensions"], extensions, "{error}");
    }
}
