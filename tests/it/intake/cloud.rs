//! CloudEvents 1.0 in their three modes.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{EVENTS, NEWCOMER, stored};
use crate::client::Answer;
use crate::served::{Role, Served};

const JSON: (&str, &str) = ("content-type", "application/json");
const ONE: (&str, &str) = ("content-type", "application/cloudevents+json; charset=utf-8");
const BATCH: (&str, &str) = ("content-type", "application/cloudevents-batch+json");

async fn send(served: &Served, headers: &[(&str, &str)], body: &Value) -> Answer {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    served.client(Role::Machine).post_raw(EVENTS, headers, body).await
}

fn cloud(served: &Served, id: &str) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "/forms", "type": "form_submitted",
        "subject": NEWCOMER, "time": "2026-03-02T11:00:00Z", "lineoaid": served.id("lineOa"),
        "datacontenttype": "application/json", "traceparent": "anything",
        "data": { "formId": "f", "submissionId": "s", "answers": {} },
    })
}

#[tokio::test]
async fn the_three_modes_say_the_same() {
    let served = Served::new().await;
    let answer = send(&served, &[ONE], &cloud(&served, "structured")).await;
    assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(1)), "{answer:?}");
    let batch = json!([cloud(&served, "batch"), cloud(&served, "structured")]);
    let answer = send(&served, &[BATCH], &batch).await;
    assert_eq!(answer.json(), json!({ "accepted": 1, "duplicates": ["structured"] }));
    let headers = [
        JSON,
        ("ce-specversion", "1.0"),
        ("ce-id", "%E2%82%AC"),
        ("ce-source", "/forms"),
        ("ce-type", "form_submitted"),
        ("ce-subject", NEWCOMER),
        ("ce-time", "2026-03-02T11:00:00Z"),
        ("ce-lineoaid", served.id("lineOa")),
    ];
    let answer = send(&served, &headers, &cloud(&served, "")["data"]).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let events = stored(&served).await;
    let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["structured", "batch", "€"]);
    for event in &events {
        assert_eq!(event.payload, cloud(&served, "")["data"]);
        assert_eq!(event.user_id.as_deref(), Some(NEWCOMER));
        assert_eq!(event.occurred_at.to_rfc3339(), "2026-03-02T11:00:00+00:00");
    }
}

#[tokio::test]
async fn an_event_of_headers_alone_has_an_empty_payload() {
    let served = Served::new().await;
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", "e"),
        ("ce-source", "/friends"),
        ("ce-type", "friend_track_event_inserted"),
        ("ce-lineoaid", served.id("lineOa")),
    ];
    assert_eq!(send(&served, &headers, &Value::Null).await.status, 202);
    assert_eq!(stored(&served).await[0].payload, json!({}));
    // Data without a content type is no JSON, as far as anybody knows.
    assert_eq!(send(&served, &headers, &json!({})).await.status, 415);
}

#[tokio::test]
async fn what_does_not_fit_is_named_in_the_words_of_cloudevents() {
    let served = Served::new().await;
    let misfits = [
        ("specversion", json!("0.3"), "specversion"),
        ("specversion", Value::Null, "specversion"),
        ("source", Value::Null, "source"),
        ("id", json!(""), "id"),
        ("type", json!("schedule"), "type"),
        ("subject", json!("ada"), "subject"),
        ("time", json!("soon"), "time"),
        ("lineoaid", Value::Null, "lineoaid"),
        ("datacontenttype", json!("text/xml"), "datacontenttype"),
        ("data_base64", json!("e30="), "data_base64"),
        ("data", json!("text"), "data"),
        ("data", json!({ "submissionId": "s" }), "data.formId"),
    ];
    for (attribute, value, field) in misfits {
        let mut bad = cloud(&served, "bad");
        bad[attribute] = value;
        let one = send(&served, &[ONE], &bad).await;
        let list = send(&served, &[BATCH], &json!([cloud(&served, "good"), bad])).await;
        for (answer, path) in [(one, field.to_owned()), (list, format!("events[1].{field}"))] {
            assert_eq!((answer.status, &answer.json()["field"]), (422, &json!(path)), "{answer:?}");
        }
    }
    assert!(stored(&served).await.is_empty());
    // One is not the other.
    let list = json!([cloud(&served, "e")]);
    for (mode, body) in [(ONE, list), (BATCH, cloud(&served, "e"))] {
        let answer = send(&served, &[mode], &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INVALID"), "{answer:?}");
    }
}
