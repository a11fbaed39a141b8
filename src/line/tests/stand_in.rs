//! What the stand-in checks, where the client never errs.

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::*;
use crate::egress::{Outgoing, Sent};
use crate::line::stand_in::Fault;

/// Sends what no client of ours would; the status and the message.
async fn raw(
    platform: &StandIn,
    (method, path): (Method, &str),
    headers: &[(&'static str, &str)],
    body: &str,
) -> (u16, String) {
    let egress = egress(&["127.0.0.0/8"]);
    let url = egress.policy().parse_url(&format!("{}{path}", platform.base_url())).unwrap();
    let mut map = HeaderMap::new();
    for (name, value) in [("authorization", "Bearer token-of-the-channel")].iter().chain(headers) {
        map.insert(*name, value.parse().unwrap());
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    let request = Outgoing { method, url, headers: map, body, timeout: None };
    let Sent::Answered { status, headers, body, .. } = egress.send(request).await else {
        panic!("no answer")
    };
    assert!(headers.contains_key("x-line-request-id"), "{status}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const PUSH: (Method, &str) = (Method::POST, "/v2/bot/message/push");

#[tokio::test]
async fn a_push_must_have_the_right_form() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let text = json!({ "type": "text", "text": "x" });
    let body = |to: &str, messages: Value| json!({ "to": to, "messages": messages }).to_string();
    for bad in [
        String::new(),
        "[]".to_owned(),
        json!({ "messages": [text] }).to_string(),
        body("U1", json!([text])),
        json!({ "to": USER }).to_string(),
        body(USER, json!([])),
        body(USER, json!([text, text, text, text, text, text])),
        body(USER, json!(["x"])),
        body(USER, json!([{ "type": "text", "text": "" }])),
        body(USER, json!([{ "type": "text", "text": "x".repeat(5001) }])),
    ] {
        let (status, message) = raw(&platform, PUSH, &[JSON], &bad).await;
        assert_eq!(status, 400, "{bad}");
        assert!(!message.is_empty());
    }
    let five = body(USER, json!([text, text, text, text, { "type": "sticker" }]));
    assert_eq!(raw(&platform, PUSH, &[], &five).await.0, 400, "without a content type");
    assert!(platform.accepted().is_empty());
    assert_eq!(raw(&platform, PUSH, &[JSON], &five).await.0, 200);
    let longest = body(USER, json!([{ "type": "text", "text": "é".repeat(5000) }]));
    assert_eq!(raw(&platform, PUSH, &[JSON], &longest).await.0, 200);
    assert_eq!(platform.accepted().len(), 2);
}

#[tokio::test]
async fn a_body_over_two_megabytes_is_too_large() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let large = " ".repeat(2 * 1024 * 1024 + 1);
    assert_eq!(raw(&platform, PUSH, &[JSON], &large).await.0, 413);
}

#[tokio::test]
async fn a_retry_key_is_a_uuid_and_belongs_to_pushes_of_one_channel() {
    let platform = StandIn::start([TOKEN, "another"]).await.unwrap();
    let body = json!({ "to": USER, "messages": [{ "type": "text", "text": "x" }] }).to_string();
    let key = ("x-line-retry-key", "123e4567-e89b-12d3-a456-426614174000");
    let odd = ("x-line-retry-key", "mine");
    assert_eq!(raw(&platform, PUSH, &[JSON, odd], &body).await.0, 400);
    assert_eq!(raw(&platform, PUSH, &[JSON, key], &body).await.0, 200);
    assert_eq!(raw(&platform, PUSH, &[JSON, key], &body).await.0, 409);
    let other = ("authorization", "Bearer another");
    assert_eq!(raw(&platform, PUSH, &[JSON, key, other], &body).await.0, 200);
    let menu = format!("/v2/bot/user/{USER}/richmenu");
    assert_eq!(raw(&platform, (Method::DELETE, &menu), &[key], "").await.0, 400);
    let linked = format!("{menu}/richmenu-a");
    assert_eq!(raw(&platform, (Method::POST, &linked), &[key], "").await.0, 400);
    assert_eq!(platform.rich_menu_of(TOKEN, USER), None);
    assert_eq!(platform.accepted().len(), 2);
}

#[tokio::test]
async fn a_retry_key_that_was_forgotten_protects_from_nothing() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let body = json!({ "to": USER, "messages": [{ "type": "text", "text": "x" }] }).to_string();
    let key = ("x-line-retry-key", "123e4567-e89b-12d3-a456-426614174000");
    assert_eq!(raw(&platform, PUSH, &[JSON, key], &body).await.0, 200);
    platform.forget_keys();
    assert_eq!(raw(&platform, PUSH, &[JSON, key], &body).await.0, 200);
    assert_eq!(raw(&platform, PUSH, &[JSON, key], &body).await.0, 409);
    assert_eq!(platform.accepted().len(), 2);
}

#[tokio::test]
async fn without_a_retry_key_a_push_is_sent_each_time() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let body = json!({ "to": USER, "messages": [{ "type": "text", "text": "x" }] }).to_string();
    for _ in 0..2 {
        assert_eq!(raw(&platform, PUSH, &[JSON], &body).await.0, 200);
    }
    assert_eq!(platform.accepted().len(), 2);
}

#[tokio::test]
async fn a_call_that_it_does_not_know_is_not_found_and_takes_no_fault() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    platform.fail_next(1, Fault::ErrorBefore);
    assert_eq!(raw(&platform, (Method::GET, "/v2/bot/info"), &[], "").await.0, 404);
    assert_eq!(raw(&platform, (Method::GET, PUSH.1), &[], "").await.0, 404);
    assert_eq!(raw(&platform, PUSH, &[JSON], "{}").await.0, 500);
    assert_eq!(platform.requests().len(), 3);
}

#[tokio::test]
async fn one_can_wait_for_what_is_accepted() {
    let pair = Pair::start().await;
    let (_, ()) = tokio::join!(
        async {
            pair.once(&hello()).await;
            pair.once(&hello()).await
        },
        pair.platform.until_accepted(2)
    );
    let accepted = pair.platform.accepted();
    assert_eq!(accepted.len(), 2);
    assert!(accepted[0].at <= accepted[1].at);
}
