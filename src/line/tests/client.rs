//! What goes out, and where to.

use super::*;
use crate::line::Outcome;

#[tokio::test]
async fn a_push_arrives_with_token_key_and_body() {
    let pair = Pair::start().await;
    let key = Uuid::now_v7();
    let answer = pair.call(&hello(), key).await;
    assert_eq!(answer.outcome, Outcome::Done);
    assert_eq!((answer.status, answer.message), (Some(200), None));
    let [accepted] = &pair.platform.accepted()[..] else { panic!("not one") };
    assert_eq!((accepted.to.as_str(), accepted.token.as_str()), (USER, TOKEN));
    assert_eq!(accepted.messages, [json!({ "type": "text", "text": "Hello" })]);
    assert_eq!(accepted.retry_key, Some(key.to_string()));
    assert_eq!(answer.request_id.as_ref(), Some(&accepted.request_id));
    let [seen] = &pair.platform.requests()[..] else { panic!("not one") };
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v2/bot/message/push"));
}

#[tokio::test]
async fn equal_calls_are_equal_bytes_whatever_the_order_of_their_keys() {
    let pair = Pair::start().await;
    let (a, b) = (r#"[{"type":"text","text":"x"}]"#, r#"[{"text":"x","type":"text"}]"#);
    for text in [a, b, a] {
        pair.once(&push(serde_json::from_str(text).unwrap())).await;
    }
    let seen = pair.platform.requests();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.body == seen_body(&seen.body)), "not JSON");
    assert!(seen.iter().all(|other| other.body == seen[0].body));
}

fn seen_body(body: &[u8]) -> bytes::Bytes {
    let value: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(value["to"], USER);
    bytes::Bytes::copy_from_slice(body)
}

#[tokio::test]
async fn a_rich_menu_is_linked_and_unlinked_without_a_retry_key() {
    let pair = Pair::start().await;
    assert_eq!(pair.once(&link("richmenu-a")).await.outcome, Outcome::Done);
    assert_eq!(pair.platform.rich_menu_of(TOKEN, USER).as_deref(), Some("richmenu-a"));
    assert_eq!(pair.once(&link("richmenu-b")).await.outcome, Outcome::Done);
    assert_eq!(pair.platform.rich_menu_of(TOKEN, USER).as_deref(), Some("richmenu-b"));
    for _ in 0..2 {
        assert_eq!(pair.once(&unlink()).await.outcome, Outcome::Done, "also when there is none");
        assert_eq!(pair.platform.rich_menu_of(TOKEN, USER), None);
    }
    let seen = pair.platform.requests();
    let methods: Vec<_> = seen.iter().map(|seen| seen.method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "DELETE", "DELETE"]);
    assert_eq!(seen[0].path, format!("/v2/bot/user/{USER}/richmenu/richmenu-a"));
    assert_eq!(seen[3].path, format!("/v2/bot/user/{USER}/richmenu"));
    assert!(seen.iter().all(|seen| seen.retry_key.is_none() && seen.body.is_empty()));
}

#[tokio::test]
async fn ids_stay_inside_their_segment_of_the_path() {
    let pair = Pair::start().await;
    pair.once(&link("richmenu-a/../../b?c#d %2e")).await;
    let path = &pair.platform.requests()[0].path;
    let start = format!("/v2/bot/user/{USER}/richmenu/richmenu-a%2F");
    assert!(path.starts_with(&start), "{path}");
    assert_eq!(path.matches('/').count(), 6, "{path}");
    let menu = pair.platform.rich_menu_of(TOKEN, USER);
    assert_eq!(menu.as_deref(), Some("richmenu-a/../../b?c#d %2e"));
}

#[tokio::test]
async fn ids_that_would_change_the_path_are_refused_without_a_request() {
    let pair = Pair::start().await;
    for id in ["", ".", "..", &"x".repeat(3000)] {
        let answer = pair.once(&link(id)).await;
        assert!(matches!(answer.outcome, Outcome::Refused { .. }), "{id}: {answer:?}");
        assert_eq!(answer.status, None);
    }
    assert!(pair.platform.requests().is_empty());
}

#[tokio::test]
async fn the_path_of_the_base_is_put_before_the_platforms_own() {
    let pair = Pair::start().await;
    for prefix in ["/a/b", "/a/b/"] {
        let base = format!("{}{prefix}", pair.platform.base_url());
        let client = client(&base, AMPLE).unwrap();
        let answer = client.call(&pair.channel, &hello(), Uuid::now_v7(), Duration::MAX).await;
        assert_eq!(answer.status, Some(404));
    }
    assert!(pair.platform.requests().iter().all(|seen| seen.path == "/a/b/v2/bot/message/push"));
}

#[tokio::test]
async fn a_token_that_is_no_header_value_is_unauthorized_without_a_request() {
    let pair = Pair::start().await;
    let broken = channel("two\nlines");
    let answer = pair.client.call(&broken, &hello(), Uuid::now_v7(), Duration::MAX).await;
    assert_eq!((answer.outcome, answer.status), (Outcome::Unauthorized, None));
    assert!(!answer.message.unwrap().contains("lines"));
    assert!(pair.platform.requests().is_empty());
}

#[test]
fn the_token_is_not_shown() {
    assert!(!format!("{:?}", channel("very-secret")).contains("very-secret"));
}

#[tokio::test]
async fn the_address_policy_of_callbacks_counts_here_too() {
    let strict = |base: &str| LineClient::new(egress(&[]), &config(base, AMPLE));
    for base in ["http://127.0.0.1:1", "http://localhost:1", "http://10.0.0.1", "http://[::1]/x"] {
        let error = strict(base).err().unwrap();
        assert_eq!(error.code(), "CALLBACK_ADDRESS_REFUSED", "{base}");
        assert_eq!(error.field(), Some("line.api_base"));
    }
    assert!(strict("https://api.line.me").is_ok());
}
