//! What of an error is shown.

use async_graphql::{PathSegment, Response, ServerError};

use super::*;
use crate::api::graphql::error::{Fault, Outcome, publish};
use crate::error::Error;

fn published(fault: impl Into<Fault>) -> (Value, Outcome) {
    let error = fault.into().into_server_error(async_graphql::Pos { line: 1, column: 3 });
    let error = error.with_path(vec![PathSegment::Field("trigger".to_owned())]);
    let mut response = Response::from_errors(vec![error]);
    let outcome = publish(&mut response, "r-1", "");
    (serde_json::to_value(&response.errors[0]).unwrap(), outcome)
}

#[test]
fn our_own_errors_are_shown_as_they_are() {
    let (shown, _) = published(Error::invalid_code("CRON_SYNTAX", "cronExpression", "so and so"));
    assert_eq!(shown["message"], "so and so");
    let extensions = json!({ "code": "CRON_SYNTAX", "field": "cronExpression" });
    assert_eq!(shown["extensions"], extensions);
    let (shared, _) = published(Arc::new(Error::NotFound { what: "trigger" }));
    assert_eq!(shared["message"], "trigger not found");
    assert_eq!(shared["extensions"], json!({ "code": "NOT_FOUND" }));
    let (limited, _) = published(Error::RateLimited { reason: "wait a minute" });
    let extensions = json!({ "code": "RATE_LIMITED", "retryAfterSeconds": 60 });
    assert_eq!(limited["extensions"], extensions);
    let (busy, _) = published(Error::Busy);
    assert_eq!(busy["extensions"], json!({ "code": "BUSY", "retryAfterSeconds": 1 }));
}

#[test]
fn what_we_caused_is_one_sentence_and_the_request_id() {
    let secret = "SELECT * FROM \"user\" failed";
    let faults: [Fault; 4] = [
        Error::internal(secret).into(),
        Arc::new(Error::internal(secret)).into(),
        std::io::Error::other(secret).into(),
        Fault::new(secret),
    ];
    for fault in faults {
        let (shown, _) = published(fault);
        assert_eq!(shown["message"], "internal error");
        assert_eq!(shown["extensions"], json!({ "code": "INTERNAL", "requestId": "r-1" }));
        assert!(!shown.to_string().contains("SELECT"), "{shown}");
    }
}

#[test]
fn extensions_that_a_resolver_set_do_not_leave() {
    let mut error = ServerError::new("x", None);
    error.extensions.get_or_insert_default().set("sql", "SELECT 1");
    let mut response = Response::from_errors(vec![error]);
    publish(&mut response, "r-1", "");
    assert!(!serde_json::to_string(&response).unwrap().contains("SELECT"));
}

#[tokio::test]
async fn a_statement_that_fails_shows_no_sql() {
    let server = Server::empty().await;
    let sign_in = "mutation { signIn(email: \"a@b\", password: \"x\") { token } }";
    let answer = server.anonymous(sign_in).await;
    assert_eq!(answer.status, StatusCode::OK);
    let shown = &answer.json()["errors"][0];
    assert_eq!(shown["message"], "internal error");
    let extensions = json!({ "code": "INTERNAL", "requestId": answer.header("x-request-id") });
    assert_eq!(shown["extensions"], extensions);
    for word in ["user", "table", "SELECT", "sql"] {
        assert!(!answer.text.contains(word), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_database_that_can_not_be_had_is_503_at_the_door() {
    let server = Server::new().await;
    let bearer = server.bearer();
    server.app.store.clone().close().await.unwrap();
    let answer = server.ask_as(&bearer, "{ __typename }", Value::Null).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.code(), "BUSY");
}

#[tokio::test]
async fn a_field_without_credentials_says_what_is_missing() {
    let server = Server::new().await;
    let answer = server.anonymous("{ me { id } }").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.code(), "UNAUTHENTICATED");
    assert_eq!(answer.json()["errors"][0]["path"], json!(["me"]));
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_told_with_its_field_and_what_would_be_right() {
    let server = Server::new().await;
    let instant = "{ cronPreview(expression: \"@daily\", after: \"yesterday\") { timeZone } }";
    let triggers = "query($f: TriggerFilter) { triggers(filter: $f) { nodes { id } } }";
    let make = "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
    let first = "query($n: Int) { projects(first: $n) { nodes { id } } }";
    let known = "{ trigger(id: null) { id } }";
    let deliveries = "{ deliveries(filter: { statuses: [FAILED, LOST] }) { nodes { id } } }";
    let all = "PENDING, PROCESSING, COMPLETED, FAILED, EXPIRED, CANCELLED";
    let order = "query($d: OrderDirection = UP) { deliveries(order: { direction: $d }) {
        nodes { id } } }";
    let input = |field: &str, value: Value| {
        let mut input = json!({
            "applicationId": "x", "name": "A", "runKey": "a", "cronExpression": "@daily",
        });
        input[field] = value;
        json!({ "input": input })
    };
    for (query, variables, field, right) in [
        (instant, Value::Null, "after", "RFC 3339"),
        (known, Value::Null, "id", "of type ID"),
        (first, json!({ "n": "many" }), "first", "a whole number"),
        (triggers, json!({ "f": { "enabled": "yes" } }), "filter.enabled", "true or false"),
        (triggers, json!({ "f": { "colour": 1 } }), "filter.colour", "it has enabled, "),
        (deliveries, Value::Null, "filter.statuses[1]", all),
        (order, json!({}), "d", "one of ASC, DESC; \"UP\" is not"),
        (make, input("catchUp", json!("SOMETIMES")), "catchUp", "\"SOMETIMES\" is not"),
        (make, input("name", Value::Null), "name", "a text"),
        (make, json!({ "input": { "name": "A" } }), "applicationId", "is required"),
    ] {
        let answer = server.ask(query, variables).await;
        let error = &answer.json()["errors"][0];
        let extensions = json!({ "code": "BAD_USER_INPUT", "field": field });
        assert_eq!(error["extensions"], extensions, "{}", answer.text);
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(field) && message.contains(right), "{message}");
    }
    let query = "query($id: ID!) { trigger(id: $id) { id } }";
    for variables in [json!({}), json!({ "id": null })] {
        let answer = server.ask(query, variables).await;
        assert_eq!(answer.code(), "BAD_USER_INPUT", "{}", answer.text);
        assert_eq!(answer.json()["errors"][0]["extensions"]["field"], "id", "{}", answer.text);
        assert!(answer.text.contains("$id"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_null_character_is_refused_on_its_field_before_it_meets_a_database() {
    let server = Server::new().await;
    let literal = r#"{ triggers(filter: { nameContains: "a\u0000b" }) { nodes { id } } }"#;
    let query = "query($filter: TriggerFilter) { triggers(filter: $filter) { nodes { id } } }";
    let make = "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
    let many = "query($ids: [ID!]) { projects { nodes { id } } }";
    for (query, variables, field) in [
        (literal, Value::Null, "filter.nameContains"),
        (query, json!({ "filter": { "runKey": "a\0b" } }), "filter.runKey"),
        (query, json!({ "filter": { "run\0Key": "a" } }), "filter"),
        (make, json!({ "input": { "name": "a\0b" } }), "name"),
        (many, json!({ "ids": ["a", "b\0"] }), "ids[1]"),
    ] {
        let answer = server.ask(query, variables).await;
        let extensions = json!({ "code": "BAD_USER_INPUT", "field": field });
        assert_eq!(answer.json()["errors"][0]["extensions"], extensions, "{}", answer.text);
    }
    let harmless = r#"{ triggers(filter: { nameContains: "a\\u0000b" }) { nodes { id } } }"#;
    let answer = server.ask(harmless, Value::Null).await;
    assert!(answer.json()["errors"].is_null(), "{}", answer.text);
}
