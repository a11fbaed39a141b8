//! What of an error is shown.

use async_graphql::{PathSegment, Response, ServerError};

use super::*;
use crate::api::graphql::error::{Fault, Outcome, publish};
use crate::error::Error;

fn published(fault: impl Into<Fault>) -> (Value, Outcome) {
    let error = fault.into().into_server_error(async_graphql::Pos { line: 1, column: 3 });
    let error = error.with_path(vec![PathSegment::Field("trigger".to_owned())]);
    let mut response = Response::from_errors(vec![error]);
    let outcome = publish(&mut response, "r-1");
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
    publish(&mut response, "r-1");
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
async fn values_that_do_not_fit_are_named_as_the_clients() {
    let server = Server::new().await;
    let instant = "{ cronPreview(expression: \"@daily\", after: \"yesterday\") { timeZone } }";
    let answer = server.anonymous(instant).await;
    assert_eq!(answer.code(), "BAD_USER_INPUT", "{}", answer.text);
    assert!(answer.text.contains("RFC 3339"), "{}", answer.text);
    let query = "query($id: ID!) { trigger(id: $id) { id } }";
    for variables in [json!({}), json!({ "id": null })] {
        let answer = server.ask(query, variables).await;
        assert_eq!(answer.code(), "BAD_USER_INPUT", "{}", answer.text);
        assert!(answer.text.contains("$id"), "{}", answer.text);
    }
    let query = "query($n: Int) { projects(first: $n) { nodes { id } } }";
    let answer = server.ask(query, json!({ "n": "many" })).await;
    assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED", "{}", answer.text);
}

#[tokio::test]
async fn a_null_character_is_refused_before_it_meets_a_database() {
    let server = Server::new().await;
    let literal = r#"{ triggers(filter: { nameContains: "a\u0000b" }) { nodes { id } } }"#;
    let answer = server.ask(literal, Value::Null).await;
    assert_eq!(answer.code(), "BAD_USER_INPUT", "{}", answer.text);
    let query = "query($f: TriggerFilter) { triggers(filter: $f) { nodes { id } } }";
    let answer = server.ask(query, json!({ "f": { "runKey": "a\0b" } })).await;
    assert_eq!(answer.code(), "BAD_USER_INPUT", "{}", answer.text);
    let harmless = r#"{ triggers(filter: { nameContains: "a\\u0000b" }) { nodes { id } } }"#;
    let answer = server.ask(harmless, Value::Null).await;
    assert!(answer.json()["errors"].is_null(), "{}", answer.text);
}
