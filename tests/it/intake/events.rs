//! `POST /api/machine/events`: what is stored, what is refused, what others can't tell.

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};
use trigger_manager::app::CreateLineOa;
use trigger_manager::domain::event::{EventOrigin, EventStatus};
use trigger_manager::domain::id::ProjectId;
use uuid::Uuid;

use super::{EVENTS, NEWCOMER, audited, form, metric, send, stored, users};
use crate::client::REQUEST_ID;
use crate::served::{Role, Served};

#[tokio::test]
async fn an_event_is_stored_when_it_is_answered_and_its_user_is_known() {
    let served = Served::new().await;
    let answer = send(&served, &form(&served, "e1")).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({ "accepted": 1, "duplicates": [] }));
    let event = stored(&served).await.remove(0);
    assert_eq!(event.event_id, "e1");
    assert_eq!(event.event_type, "form_submitted");
    assert_eq!(event.line_oa_id.to_string(), served.id("lineOa"));
    assert_eq!(event.organization_id.to_string(), served.id("project"));
    assert_eq!(event.user_id.as_deref(), Some(NEWCOMER));
    let at: DateTime<Utc> = "2026-03-02T11:00:00.123456Z".parse().unwrap();
    assert_eq!(event.occurred_at, at, "to the microsecond");
    let payload = json!({ "formId": 7, "submissionId": "s", "answers": { "a_b": 1 } });
    assert_eq!(event.payload, payload);
    assert_eq!((event.origin, event.status), (EventOrigin::Api, EventStatus::Pending));
    assert_eq!(event.received_at, served.test.app.now());
    assert!(users(&served).await.contains(&(NEWCOMER.to_owned(), json!("UNKNOWN"))));
    let audit = audited(&served, "event.receive").await;
    assert_eq!(audit.len(), 1);
    assert_eq!((audit[0].entity_type.as_str(), audit[0].entity_id), ("event", event.id.0));
    assert_eq!(audit[0].request_id.as_deref(), Some(REQUEST_ID));
    let after = json!({
        "lineOaId": served.id("lineOa"), "count": 1, "duplicates": 0,
        "types": { "form_submitted": 1 },
    });
    assert_eq!(audit[0].after, Some(after));
    let series = "pfy_events_received_total{origin=\"api\",type=\"form_submitted\"}";
    assert_eq!(metric(&served, series).await, 1.0);
    served.test.run().await;
    assert_eq!(stored(&served).await[0].status, EventStatus::Processed);
}

#[tokio::test]
async fn the_same_event_again_does_nothing_and_is_named() {
    let served = Served::new().await;
    let (mut first, second) = (form(&served, "a"), form(&served, "b"));
    let answer = send(&served, &json!([first, second, first])).await;
    assert_eq!(answer.json(), json!({ "accepted": 2, "duplicates": ["a"] }));
    first["payload"]["formId"] = json!("another");
    first["userId"] = json!("U00000000000000000000000000000003");
    for body in [first.clone(), json!([first])] {
        let answer = send(&served, &body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.json(), json!({ "accepted": 0, "duplicates": ["a"] }));
    }
    let events = stored(&served).await;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.payload["formId"] == 7), "{events:?}");
    assert_eq!(users(&served).await.len(), 2, "a duplicate makes nobody known");
    let audit = audited(&served, "event.receive").await;
    assert_eq!(audit.len(), 1, "what did nothing is not recorded");
    assert_eq!(audit[0].after.as_ref().unwrap()["duplicates"], 1);
    assert_eq!(metric(&served, "pfy_events_duplicate_total{origin=\"api\"}").await, 3.0);
}

#[tokio::test]
async fn an_event_that_is_sent_many_times_at_once_is_stored_once() {
    let served = Served::new().await;
    let body = json!([form(&served, "a"), form(&served, "b")]);
    let calls = (0..8).map(|_| send(&served, &body));
    let answers = futures::future::join_all(calls).await;
    let accepted = answers.iter().map(|answer| answer.json()["accepted"].as_u64().unwrap());
    assert_eq!(accepted.sum::<u64>(), 2, "{answers:?}");
    assert_eq!(stored(&served).await.len(), 2);
}

#[tokio::test]
async fn both_spellings_are_read_and_what_may_be_left_out_has_a_meaning() {
    let served = Served::new().await;
    let body = json!({
        "event_id": "e", "type": "friend_track_event_inserted", "line_oa_id": served.id("lineOa"),
        "user_id": null, "payload": null, "unknown": 1,
    });
    assert_eq!(send(&served, &body).await.status, 202);
    let body = json!({
        "eventId": "f", "type": "form_submitted", "lineOaId": served.id("lineOa"),
        "occurred_at": "2026-03-03T12:00:30+00:00",
        "payload": { "form_id": "f", "submission_id": "s", "extra_key": [] },
    });
    assert_eq!(send(&served, &body).await.status, 202);
    let events = stored(&served).await;
    assert_eq!((&events[0].user_id, &events[0].payload), (&None, &json!({})));
    assert_eq!(events[0].occurred_at, served.test.app.now());
    assert_eq!(events[1].payload, json!({ "formId": "f", "submissionId": "s", "extraKey": [] }));
    assert_eq!(events[1].occurred_at, served.test.app.now() + Duration::hours(24));
}

#[tokio::test]
async fn a_booking_is_stored_with_its_subject() {
    let served = Served::new().await;
    let mut body = form(&served, "e");
    body["type"] = json!("booking_event");
    body["payload"] =
        json!({ "bookingId": 7, "status": "booked", "startsAt": "2026-04-01T12:00:00Z" });
    assert_eq!(send(&served, &body).await.status, 202);
    assert_eq!(stored(&served).await[0].subject.as_deref(), Some("7"));
}

/// What an event must not be: the part that is replaced, by what, the code and the field.
fn misfits() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let deep = (0..64).fold(json!(1), |inner, _| json!([inner]));
    let booking = json!({ "bookingId": "b", "status": "s", "startsAt": "soon" });
    vec![
        ("eventId", Value::Null, "INVALID", "eventId"),
        ("eventId", json!(""), "INVALID", "eventId"),
        ("eventId", json!(" "), "INVALID", "eventId"),
        ("eventId", json!("x".repeat(201)), "INVALID", "eventId"),
        ("eventId", json!("a\u{0}b"), "INVALID", "eventId"),
        ("eventId", json!(7), "INVALID", "eventId"),
        ("type", Value::Null, "INVALID", "type"),
        ("type", json!("form"), "UNKNOWN_EVENT_TYPE", "type"),
        ("type", json!("schedule"), "UNKNOWN_EVENT_TYPE", "type"),
        ("lineOaId", Value::Null, "INVALID", "lineOaId"),
        ("lineOaId", json!("none"), "NOT_FOUND", "lineOaId"),
        ("userId", json!("ada"), "INVALID", "userId"),
        ("userId", json!(""), "INVALID", "userId"),
        ("occurredAt", json!("yesterday"), "INVALID", "occurredAt"),
        ("occurredAt", json!("2026-03-02T12:00:00"), "INVALID", "occurredAt"),
        ("occurredAt", json!("2026-03-03T12:00:31Z"), "INVALID", "occurredAt"),
        ("occurredAt", json!("1969-12-31T23:59:59Z"), "INVALID", "occurredAt"),
        ("occurredAt", json!("0000-01-01T00:00:00+23:59"), "INVALID", "occurredAt"),
        ("payload", json!([]), "INVALID", "payload"),
        ("payload", json!({ "submissionId": "s" }), "INVALID", "payload.formId"),
        ("payload", json!({ "formId": {} }), "INVALID", "payload.formId"),
        ("payload", json!({ "formId": 1, "form_id": 1 }), "INVALID", "payload.formId"),
        ("payload", json!({ "a": ["x\u{0}"] }), "INVALID", "payload.a[0]"),
        ("payload", json!({ "a\u{0}": 1 }), "INVALID", "payload"),
        ("payload", json!({ "a": deep }), "INVALID", "payload.a[0][0][0][0]"),
        ("payload", json!({ "a": "x".repeat(64 * 1024) }), "INVALID", "payload"),
        ("booking", booking, "INVALID", "payload.startsAt"),
    ]
}

#[tokio::test]
async fn one_event_that_does_not_fit_refuses_all_and_is_named_with_its_path() {
    let served = Served::new().await;
    for (part, value, code, field) in misfits() {
        let mut bad = form(&served, "bad");
        if part == "booking" {
            bad["type"] = json!("booking_event");
            bad["payload"] = value;
        } else {
            bad[part] = value;
        }
        let single = send(&served, &bad).await;
        let batch = json!([form(&served, "good"), bad, { "eventId": "also bad" }]);
        let batch = send(&served, &batch).await;
        for (answer, path) in [(single, field.to_owned()), (batch, format!("events[1].{field}"))] {
            let problem = answer.json();
            let status = if code == "NOT_FOUND" { 404 } else { 422 };
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{problem}");
            assert_eq!(problem["field"], path, "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.len() > path.len() + 10 || part == "eventId", "{detail}");
        }
    }
    let unknown = json!({ "eventId": "e", "type": "x", "lineOaId": served.id("lineOa") });
    let detail = send(&served, &unknown).await.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("booking_event") && !detail.contains("schedule"), "{detail}");
    assert!(stored(&served).await.is_empty());
    assert!(audited(&served, "event.receive").await.is_empty());
    assert_eq!(users(&served).await.len(), 1, "the one that was known before");
}

#[tokio::test]
async fn a_request_takes_a_thousand_events_and_no_more() {
    let served = Served::new().await;
    let many =
        |count: usize| Value::Array((0..count).map(|n| form(&served, &format!("e{n}"))).collect());
    for count in [0, 1001] {
        let answer = send(&served, &many(count)).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INVALID"), "{answer:?}");
        assert_eq!(answer.json()["field"], "events");
        let said = format!("they are {count}");
        assert!(answer.json()["detail"].as_str().unwrap().ends_with(&said), "{answer:?}");
    }
    let answer = send(&served, &many(1000)).await;
    assert_eq!(answer.json(), json!({ "accepted": 1000, "duplicates": [] }));
    assert_eq!(audited(&served, "event.receive").await[0].after.as_ref().unwrap()["count"], 1000);
}

#[tokio::test]
async fn line_oas_of_others_are_like_missing_ones_and_the_projects_own_are_not() {
    let served = Served::new().await;
    let application = served.id("otherApplication").parse().unwrap();
    let application = trigger_manager::domain::id::ApplicationId(application);
    let app = &served.test.app;
    let scope = trigger_manager::domain::access::Scope::Everything;
    let project_id: ProjectId = app.application(scope, application).await.unwrap().project_id;
    let new = CreateLineOa {
        project_id,
        name: "Other".into(),
        channel_id: "99".into(),
        channel_secret: "another-secret".into(),
        channel_access_token: "another-token".into(),
    };
    let other = app.create_line_oa(&served.test.caller, new).await.unwrap().id.to_string();
    let ask = async |role: Role, line_oa: &str| {
        let mut event = form(&served, "e");
        event["lineOaId"] = json!(line_oa);
        let one = served.client(role).post(EVENTS, &event).await;
        let list = served.client(role).post(EVENTS, &json!([form(&served, "x"), event])).await;
        (one.status, one.body, list.status, list.body)
    };
    for role in [Role::Machine, Role::Sibling, Role::Maintainer] {
        let missing = ask(role, &Uuid::now_v7().to_string()).await;
        assert_eq!(ask(role, &other).await, missing, "{role:?}");
        assert_eq!((missing.0, missing.2), (404, 404), "{missing:?}");
        assert_eq!(ask(role, "no uuid").await, missing, "{role:?}");
    }
    assert!(stored(&served).await.is_empty(), "the first event of the list was not stored either");
    for role in [Role::Sibling, Role::Machine, Role::Maintainer, Role::Administrator] {
        let body = form(&served, &format!("{role:?}"));
        let answer = served.client(role).post(EVENTS, &body).await;
        assert_eq!(answer.status, 202, "{role:?} {answer:?}");
    }
}
