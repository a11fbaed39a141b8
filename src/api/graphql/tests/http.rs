//! Statuses, media types and methods.

use super::*;

const NEWER: (&str, &str) = ("accept", "application/graphql-response+json");

#[tokio::test]
async fn a_well_formed_request_is_answered_200_as_plain_json() {
    let server = Server::new().await;
    for query in ["{ __typename }", "{ nonsense }", "{", "{ me { id } }"] {
        let answer = server.anonymous(query).await;
        assert_eq!(answer.status, StatusCode::OK, "{query}");
        assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn the_newer_type_tells_by_status_whether_it_was_executed() {
    let server = Server::new().await;
    for (query, status, data) in [
        ("{ __typename }", 200, true),
        ("{ me { id } }", 200, true),
        ("{", 400, false),
        ("{ nonsense }", 422, false),
        ("query($a: ID!) { trigger(id: $a) { id } }", 422, false),
    ] {
        let answer = server.post(json!({ "query": query }).to_string(), &[NEWER]).await;
        assert_eq!(answer.status.as_u16(), status, "{query}: {}", answer.text);
        assert_eq!(answer.json().get("data").is_some(), data, "{query}");
        let kind = "application/graphql-response+json; charset=utf-8";
        assert_eq!(answer.header("content-type"), kind);
    }
}

#[tokio::test]
async fn an_unknown_field_is_named() {
    let server = Server::new().await;
    let answer = server.anonymous("{ nonsense }").await;
    assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED");
    assert!(answer.text.contains("nonsense"), "{}", answer.text);
}

#[tokio::test]
async fn bodies_that_are_no_request_are_400() {
    let server = Server::new().await;
    for body in [
        "",
        " ",
        "null",
        "1",
        "\"{ __typename }\"",
        "{",
        "[]",
        "[\"{ __typename }\"]",
        "[{\"query\":\"{ __typename }\"}]",
        "{}",
        "{\"query\":null}",
        "{\"query\":1}",
        "{\"query\":\"{ __typename }\",\"variables\":[]}",
        "{\"query\":\"{ __typename }\",\"variables\":\"a\"}",
        "{\"query\":\"{ __typename }\",\"operationName\":1}",
        "{\"query\":\"{ __typename }\",\"extensions\":[]}",
    ] {
        let answer = server.post(body, &[]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}: {}", answer.text);
        assert_eq!(answer.code(), "BAD_REQUEST", "{body}");
    }
}

#[tokio::test]
async fn only_json_is_taken() {
    let server = Server::new().await;
    let body = json!({ "query": "{ __typename }" }).to_string();
    for kind in ["text/plain", "application/graphql", "multipart/form-data; boundary=x", ""] {
        let answer = server.post(body.clone(), &[("content-type", kind)]).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    let answer = server.post(body, &[("accept", "text/html")]).await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn what_is_too_long_is_413() {
    let server = Server::new().await;
    let pad = " ".repeat(1024 * 1024);
    let answer = server.post(format!("{{\"query\":\"{{ __typename }}\"{pad}}}"), &[]).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let document = format!("{{ __typename }} #{}", "x".repeat(64 * 1024));
    let answer = server.anonymous(&document).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let fits = format!("{{ __typename }} #{}", "x".repeat(64 * 1024 - 17));
    assert_eq!(server.anonymous(&fits).await.status, StatusCode::OK);
}

#[tokio::test]
async fn get_answers_queries_only() {
    let server = Server::new().await;
    let query = "/graphql?query=query($e:String!)%7BcronPreview(expression:$e)%7BtimeZone%7D%7D\
        &variables=%7B%22e%22:%22@daily%22%7D";
    let answer = server.get(query, &[]).await;
    assert_eq!(answer.json()["data"]["cronPreview"]["timeZone"], "Europe/Amsterdam");
    let mutation = "/query?query=mutation%7BdeleteTrigger(id:1)%7Bid%7D%7D";
    let answer = server.get(mutation, &[]).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("allow"), "POST");
    for wrong in ["/graphql", "/graphql?query=%7B__typename%7D&variables=1"] {
        assert_eq!(server.get(wrong, &[]).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let put = Request::put("/graphql").body(Body::empty()).unwrap();
    assert_eq!(server.send(put).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn what_else_a_client_offers_to_speak_is_no_reason_not_to_answer() {
    let server = Server::new().await;
    for offer in ["h2c", "TLS/1.0", "websockets", ""] {
        let headers = [("connection", "upgrade"), ("upgrade", offer)];
        let answer = server.get("/graphql?query=%7B__typename%7D", &headers).await;
        assert_eq!(answer.status, StatusCode::OK, "{offer}: {}", answer.text);
        assert_eq!(answer.json()["data"]["__typename"], "Query", "{offer}");
    }
}

#[tokio::test]
async fn a_websocket_that_can_not_be_opened_is_told_why_with_a_code() {
    let server = Server::new().await;
    for offer in ["websocket", "WebSocket", "h2c, websocket"] {
        let answer = server.get("/graphql", &[("upgrade", offer)]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{offer}");
        assert_eq!(answer.code(), "BAD_REQUEST", "{offer}: {}", answer.text);
        assert!(answer.text.contains("no websocket can be opened"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_subscription_needs_a_websocket() {
    let server = Server::new().await;
    let query = "subscription { occurrences(applicationId: 1) { id } }";
    let answer = server.post(json!({ "query": query }).to_string(), &[NEWER]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED");
}

#[tokio::test]
async fn credentials_that_do_not_hold_are_401_also_where_none_are_needed() {
    let server = Server::new().await;
    let body = json!({ "query": "{ __typename }" }).to_string();
    for wrong in ["Bearer nonsense", "Bearer pfy_nonsense", "nonsense", "Basic bTpt", "Bearer ä"] {
        let answer = server.post(body.clone(), &[("authorization", wrong)]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{wrong}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert_eq!(answer.code(), "UNAUTHENTICATED");
        assert!(answer.json().get("data").is_none());
    }
    let bearer = server.bearer();
    let twice = [("authorization", bearer.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(server.post(body, &twice).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_begins_with_a_password() {
    let server = Server::new().await;
    let bearer = server.stranger().await;
    let me = server.ask_as(&bearer, "{ me { email administrator } }", Value::Null).await;
    let expected = json!({ "email": "eve@example.com", "administrator": false });
    assert_eq!(me.json()["data"]["me"], expected);
    let wrong = "mutation { signIn(email: \"eve@example.com\", password: \"no\") { token } }";
    let answer = server.anonymous(wrong).await;
    assert_eq!(answer.code(), "UNAUTHENTICATED");
}
