//! LINE's webhook.

use bytes::Bytes;
use serde_json::{Value, json};
use trigger_manager::domain::event::EventOrigin;
use trigger_manager::line::signature;
use uuid::Uuid;

use super::{NEWCOMER, audited, metric, stored, users};
use crate::client::Answer;
use crate::served::{LINE_USER, Role, Served};

pub const SECRET: &str = "secret-of-the-channel";
const REFUSED: &str = "pfy_line_webhooks_refused_total";
/// Monday noon, as the platform counts.
const NOON: i64 = 1_772_452_800_000;

pub fn path(line_oa: &str) -> String {
    format!("/api/line/webhook/{line_oa}")
}

async fn deliver(served: &Served, events: Value) -> Answer {
    let body = json!({ "destination": "U1", "events": events }).to_string();
    let signature = signature::sign(&SECRET.into(), body.as_bytes());
    let headers = [(signature::HEADER, signature.as_str())];
    let path = path(served.id("lineOa"));
    served.client(Role::Anonymous).post_raw(&path, &headers, body.into()).await
}

/// An event of a user in a chat with the account, `at` seconds after noon.
fn event(kind: &str, user: &str, id: &str, at: i64) -> Value {
    json!({
        "type": kind, "mode": "active", "timestamp": NOON + at * 1000, "webhookEventId": id,
        "deliveryContext": { "isRedelivery": false },
        "source": { "type": "user", "userId": user },
        "follow": { "isUnblocked": false },
    })
}

#[tokio::test]
async fn a_new_friend_is_an_event_once_however_often_it_is_told() {
    let served = Served::new().await;
    let follow = json!([event("follow", NEWCOMER, "01A", -5)]);
    for _ in 0..3 {
        let answer = deliver(&served, follow.clone()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "{}"), "{answer:?}");
    }
    let events = stored(&served).await;
    assert_eq!(events.len(), 1);
    let told = &events[0];
    assert_eq!((told.event_id.as_str(), told.origin), ("01A", EventOrigin::LineWebhook));
    assert_eq!(told.event_type, "friend_track_event_inserted");
    assert_eq!(told.user_id.as_deref(), Some(NEWCOMER));
    assert_eq!(told.occurred_at.timestamp_millis(), NOON - 5000);
    let payload = json!({ "isUnblocked": false, "isFirst": true, "source": "line_webhook" });
    assert_eq!(told.payload, payload);
    assert!(users(&served).await.contains(&(NEWCOMER.to_owned(), json!("FOLLOWING"))));
    let audit = audited(&served, "line_webhook.receive").await;
    assert_eq!(audit.len(), 1);
    let row = &audit[0];
    assert_eq!((row.actor_type.as_str(), row.entity_type.as_str()), ("system", "line_oa"));
    assert_eq!(row.entity_id.to_string(), served.id("lineOa"));
    assert_eq!(row.project_id.unwrap().to_string(), served.id("project"));
    let after = json!({ "followed": 1, "unfollowed": 0, "newUsers": 1, "events": 1 });
    assert_eq!(row.after, Some(after));
    let series = "pfy_events_duplicate_total{origin=\"line_webhook\"}";
    assert_eq!(metric(&served, series).await, 2.0);
}

#[tokio::test]
async fn webhooks_that_come_at_once_store_an_event_once() {
    let served = Served::new().await;
    let (one, other) = (event("follow", NEWCOMER, "A", 0), event("follow", LINE_USER, "B", 0));
    let calls = (0..8).map(|n| {
        let events = if n % 2 == 0 { json!([one, other]) } else { json!([other, one]) };
        deliver(&served, events)
    });
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(stored(&served).await.len(), 2);
    assert_eq!(audited(&served, "line_webhook.receive").await.len(), 1);
}

#[tokio::test]
async fn who_comes_back_is_no_first_friend_whether_or_not_the_platform_says_so() {
    let served = Served::new().await;
    let first = |at: usize, events: &[trigger_manager::domain::event::Event]| {
        events[at].payload["isFirst"].clone()
    };
    deliver(&served, json!([event("follow", NEWCOMER, "A", 0)])).await;
    deliver(&served, json!([event("unfollow", NEWCOMER, "B", 1)])).await;
    assert!(users(&served).await.contains(&(NEWCOMER.to_owned(), json!("BLOCKED"))));
    deliver(&served, json!([event("follow", NEWCOMER, "C", 2)])).await;
    let mut unblocked = event("follow", LINE_USER, "D", 3);
    unblocked["follow"]["isUnblocked"] = json!(true);
    deliver(&served, json!([unblocked])).await;
    let events = stored(&served).await;
    let firsts: Vec<_> = (0..3).map(|at| first(at, &events)).collect();
    assert_eq!(firsts, [true, false, false]);
    assert_eq!(events[2].payload["isUnblocked"], true);
}

#[tokio::test]
async fn late_news_changes_no_state_but_is_told() {
    let served = Served::new().await;
    deliver(&served, json!([event("unfollow", NEWCOMER, "B", 9)])).await;
    deliver(&served, json!([event("follow", NEWCOMER, "A", 1)])).await;
    assert!(users(&served).await.contains(&(NEWCOMER.to_owned(), json!("BLOCKED"))));
    let events = stored(&served).await;
    assert_eq!(events[0].payload["isFirst"], true, "what is known happened after it");
}

#[tokio::test]
async fn who_does_something_is_known_and_the_rest_does_nothing() {
    let served = Served::new().await;
    let nothing = json!([
        { "type": "follow", "mode": "standby", "timestamp": NOON, "webhookEventId": "s",
          "source": { "type": "user", "userId": NEWCOMER } },
        { "type": "message", "timestamp": NOON, "webhookEventId": "g",
          "source": { "type": "group", "groupId": "C1", "userId": NEWCOMER } },
        { "type": "message", "source": { "type": "user", "userId": "ada" } },
        { "type": "message", "source": { "type": "user", "userId": LINE_USER } },
        { "what": 1 }, 7, null,
    ]);
    for events in [json!([]), nothing, Value::Null] {
        assert_eq!(deliver(&served, events).await.status, 200);
    }
    assert_eq!(users(&served).await.len(), 1);
    assert!(audited(&served, "line_webhook.receive").await.is_empty());
    for kind in ["message", "postback", "somethingNew"] {
        assert_eq!(deliver(&served, json!([event(kind, NEWCOMER, kind, 0)])).await.status, 200);
    }
    assert!(users(&served).await.contains(&(NEWCOMER.to_owned(), json!("UNKNOWN"))));
    assert_eq!(audited(&served, "line_webhook.receive").await.len(), 1);
    assert!(stored(&served).await.is_empty());
}

#[tokio::test]
async fn times_and_ids_that_can_not_be_are_none() {
    let served = Served::new().await;
    let mut event = event("follow", NEWCOMER, "x\u{0}", 0);
    event["timestamp"] = json!(i64::MAX);
    assert_eq!(deliver(&served, json!([event])).await.status, 200);
    event["timestamp"] = json!(NOON + 3_600_000 * 48);
    event["webhookEventId"] = json!("y".repeat(300));
    assert_eq!(deliver(&served, json!([event])).await.status, 200);
    let events = stored(&served).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].occurred_at, served.test.app.now());
    assert_eq!(
        events[0].event_id,
        format!("follow:{NEWCOMER}:{}", served.test.app.now().timestamp_millis())
    );
}

#[tokio::test]
async fn whoever_is_not_the_platform_learns_nothing_and_leaves_no_trace() {
    let served = Served::new().await;
    let body = Bytes::from(json!({ "events": [event("follow", NEWCOMER, "A", 0)] }).to_string());
    let right = signature::sign(&SECRET.into(), &body);
    let of_another_secret = signature::sign(&"another-secret".into(), &body);
    let of_another_body = signature::sign(&SECRET.into(), b"{}");
    let real = served.id("lineOa").to_owned();
    let missing = Uuid::now_v7().to_string();
    let tries = [
        (&real, None),
        (&real, Some("")),
        (&real, Some("not base64!")),
        (&real, Some(of_another_secret.as_str())),
        (&real, Some(of_another_body.as_str())),
        (&missing, Some(right.as_str())),
        (&"none".to_owned(), Some(right.as_str())),
    ];
    let mut answers = Vec::new();
    for (id, signature) in tries {
        let headers: Vec<_> = signature.map(|text| (signature::HEADER, text)).into_iter().collect();
        let client = served.client(Role::Anonymous);
        let answer = client.post_raw(&path(id), &headers, body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHENTICATED"), "{answer:?}");
        // The answer repeats the path that was asked for.
        answers.push(answer.body.replace(&path(id), "PATH"));
    }
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:#?}");
    assert_eq!(metric(&served, REFUSED).await, 7.0);
    assert!(stored(&served).await.is_empty());
    assert!(audited(&served, "line_webhook.receive").await.is_empty());
    assert_eq!(users(&served).await.len(), 1);
}

#[tokio::test]
async fn a_webhook_has_a_mebibyte_at_most() {
    let served = Served::new().await;
    let mut body = json!({ "events": [] }).to_string().into_bytes();
    for (size, status) in [(1024 * 1024, 200), (1024 * 1024 + 1, 413)] {
        body.resize(size, b' ');
        let signature = signature::sign(&SECRET.into(), &body);
        let headers = [(signature::HEADER, signature.as_str())];
        let client = served.client(Role::Anonymous);
        let path = path(served.id("lineOa"));
        let answer = client.post_raw(&path, &headers, body.clone().into()).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}
