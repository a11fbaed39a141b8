//! Bodies that nobody sends by accident.

use bytes::Bytes;
use serde_json::json;
use trigger_manager::line::signature;

use super::{EVENTS, form, stored, webhook};
use crate::served::{Role, Served};

const ACTIONS: &str = "/api/machine/scheduled-actions";
const KINDS: [&str; 3] =
    ["application/json", "application/cloudevents+json", "application/cloudevents-batch+json"];

/// With how each may be refused: it depends on what is expected, a list or an object, which is looked at
/// first, and on how large a body may be.
fn bodies() -> Vec<(Vec<u8>, &'static [u16])> {
    let text = |text: &str| text.as_bytes().to_vec();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(20_000), close.repeat(20_000));
    vec![
        (text(""), &[400, 422]),
        (text("nul"), &[400]),
        (text("null"), &[422]),
        (text("7"), &[422]),
        (text("\"text\""), &[422]),
        (text("{"), &[400, 422]),
        (text("[1]"), &[422]),
        (text("[[\"e\", \"form_submitted\"]]"), &[422]),
        (text("{}{}"), &[400, 422]),
        (text("{\"eventId\": NaN}"), &[400, 422]),
        (text("{\"payload\": {\"a\": 1e999}}"), &[400, 422]),
        (text("{\"payload\": {\"a\": \"\\ud800\"}}"), &[400, 422]),
        (text("{\"eventId\": \"a\", \"eventId\": \"b\"}"), &[422]),
        (text("{\"eventId\": \"a\", \"event_id\": \"b\"}"), &[422]),
        (b"{\"eventId\": \"\xff\xfe\"}".to_vec(), &[400, 422]),
        (b"\xef\xbb\xbf{}".to_vec(), &[400]),
        (text(&deep("[", "]")), &[400, 422]),
        (text(&deep("{\"payload\":", "1}")), &[400, 413, 422]),
        (text(&format!("[{}]", vec!["{}"; 500_000].join(","))), &[413, 422]),
    ]
}

#[tokio::test]
async fn hostile_bodies_are_refused_and_harm_nothing() {
    let served = Served::new().await;
    let client = served.client(Role::Machine);
    let mut misfits = Vec::new();
    for (body, expected) in bodies() {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        for kind in KINDS {
            for path in [EVENTS, ACTIONS] {
                let body = Bytes::from(body.clone());
                let answer = client.post_raw(path, &[("content-type", kind)], body).await;
                if !expected.contains(&answer.status) {
                    misfits.push(format!("{path} {kind} {shown}: {}", answer.status));
                }
                assert_eq!(answer.json()["status"], answer.status, "{answer:?}");
            }
        }
        let secret = webhook::SECRET.into();
        let signature = signature::sign(&secret, &body);
        let headers = [(signature::HEADER, signature.as_str())];
        let path = webhook::path(served.id("lineOa"));
        let answer = client.post_raw(&path, &headers, body.into()).await;
        assert!([200, 413, 422].contains(&answer.status), "{shown}: {answer:?}");
    }
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    assert!(stored(&served).await.is_empty());
    assert_eq!(super::send(&served, &form(&served, "e")).await.status, 202);
}

#[tokio::test]
async fn numbers_at_the_ends_of_their_range_are_kept_or_refused() {
    let served = Served::new().await;
    let numbers = ["0", "-0.0", "18446744073709551615", "1e308", "5e-324", "1e18", "0.1"];
    for (at, number) in numbers.iter().enumerate() {
        let mut event = form(&served, &format!("e{at}"));
        event["payload"]["answers"] =
            serde_json::from_str(&format!("{{\"n\": {number}}}")).unwrap();
        let answer = super::send(&served, &event).await;
        assert_eq!(answer.status, 202, "{number} {answer:?}");
    }
    served.test.run().await;
    let events = stored(&served).await;
    assert_eq!(events.len(), numbers.len());
    assert!(events.iter().all(|event| event.error.is_none()), "{events:?}");
}

#[tokio::test]
async fn a_body_may_have_four_mebibytes_and_other_types_than_json_none() {
    let served = Served::new().await;
    let client = served.client(Role::Machine);
    let mut event = form(&served, "e").to_string().into_bytes();
    event.resize(4 * 1024 * 1024, b' ');
    let json = [("content-type", "application/json")];
    let answer = client.post_raw(EVENTS, &json, event.clone().into()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    event.push(b' ');
    let answer = client.post_raw(EVENTS, &json, event.into()).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "PAYLOAD_TOO_LARGE"));
    let body = Bytes::from(json!([form(&served, "f")]).to_string());
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = client.post_raw(EVENTS, &[("content-type", kind)], body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "UNSUPPORTED_MEDIA_TYPE"));
    }
    // Whoever is nobody is told so before the body is read.
    let anonymous = served.client(Role::Anonymous);
    assert_eq!(anonymous.post_raw(EVENTS, &json, body).await.status, 401);
    assert_eq!(stored(&served).await.len(), 1);
}
