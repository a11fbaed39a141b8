//! What the platform tells, in good order and out of it.

use proptest::prelude::*;

use super::*;
use crate::line::webhook::{EventKind, Mode, Webhook, WebhookEvent, parse};

fn read(body: &Value) -> Webhook {
    parse(&serde_json::to_vec(body).unwrap()).unwrap()
}

fn event(event: Value) -> WebhookEvent {
    let mut webhook = read(&json!({ "destination": USER, "events": [event] }));
    assert_eq!((webhook.events.len(), webhook.unreadable), (1, 0));
    webhook.events.remove(0)
}

/// An event as the platform sends it, with `more` in it.
fn sent(kind: &str, more: Value) -> Value {
    let mut event = json!({
        "type": kind,
        "mode": "active",
        "timestamp": 1_767_225_600_123_i64,
        "webhookEventId": "01KDVHXMRVE6K6WZ7MPM7KTE6S",
        "deliveryContext": { "isRedelivery": false },
        "source": { "type": "user", "userId": USER },
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

#[test]
fn a_follow_is_read_whole() {
    let more = json!({ "replyToken": "x", "follow": { "isUnblocked": true } });
    let expected = WebhookEvent {
        id: Some("01KDVHXMRVE6K6WZ7MPM7KTE6S".to_owned()),
        kind: EventKind::Follow { is_unblocked: true },
        mode: Mode::Active,
        occurred_at: Some("2026-01-01T00:00:00.123Z".parse().unwrap()),
        user_id: Some(USER.to_owned()),
        is_redelivery: false,
    };
    assert_eq!(event(sent("follow", more)), expected);
}

#[test]
fn a_follow_that_does_not_say_is_of_a_new_friend() {
    for follow in [json!({}), json!({ "follow": null }), json!({ "follow": { "isUnblocked": 1 } })]
    {
        let kind = event(sent("follow", follow)).kind;
        assert_eq!(kind, EventKind::Follow { is_unblocked: false });
    }
}

#[test]
fn the_other_kinds_are_told_apart() {
    assert_eq!(event(sent("unfollow", json!({}))).kind, EventKind::Unfollow);
    let message = json!({ "type": "text", "id": "1", "text": "Hi" });
    let EventKind::Message { message: read } =
        event(sent("message", json!({ "message": message }))).kind
    else {
        panic!("no message")
    };
    assert_eq!(Value::Object(read), message);
    let postback = json!({ "data": "a=b", "params": { "date": "2026-01-01" } });
    let EventKind::Postback { data, params } =
        event(sent("postback", json!({ "postback": postback }))).kind
    else {
        panic!("no postback")
    };
    assert_eq!((data.as_str(), &params["date"]), ("a=b", &json!("2026-01-01")));
    let name = "somethingNew".to_owned();
    assert_eq!(event(sent("somethingNew", json!({}))).kind, EventKind::Other { name });
}

#[test]
fn only_a_chat_with_one_user_has_a_user() {
    let user_of = |source: Value| event(sent("message", json!({ "source": source }))).user_id;
    assert_eq!(user_of(json!({ "type": "user", "userId": USER })).as_deref(), Some(USER));
    for source in [
        json!({ "type": "group", "groupId": "C1", "userId": USER }),
        json!({ "type": "room", "roomId": "R1", "userId": USER }),
        json!({ "type": "user" }),
        json!({ "type": "user", "userId": "U123" }),
        json!({ "type": "user", "userId": 7 }),
        json!({ "userId": USER }),
        json!("user"),
        json!(null),
    ] {
        assert_eq!(user_of(source.clone()), None, "{source}");
    }
}

#[test]
fn standby_and_modes_that_are_unknown_are_not_ours() {
    let mode_of = |mode: Value| event(sent("follow", json!({ "mode": mode }))).mode;
    assert_eq!(mode_of(json!("active")), Mode::Active);
    for mode in [json!("standby"), json!("later"), json!(null), json!(1)] {
        assert_eq!(mode_of(mode.clone()), Mode::Standby, "{mode}");
    }
    assert_eq!(event(json!({ "type": "follow" })).mode, Mode::Active);
}

#[test]
fn missing_and_odd_pieces_are_none() {
    let bare = event(json!({ "type": "follow" }));
    assert_eq!((bare.id, bare.occurred_at, bare.user_id), (None, None, None));
    for timestamp in [json!("now"), json!(1.5), json!(i64::MAX), json!(u64::MAX), json!([])] {
        assert_eq!(event(sent("follow", json!({ "timestamp": timestamp }))).occurred_at, None);
    }
    assert_eq!(event(sent("follow", json!({ "webhookEventId": "" }))).id, None);
    assert!(
        event(sent("follow", json!({ "deliveryContext": { "isRedelivery": true } }))).is_redelivery
    );
    assert!(!event(sent("follow", json!({ "deliveryContext": [] }))).is_redelivery);
}

#[test]
fn one_odd_entry_does_not_spoil_the_others() {
    let good = sent("follow", json!({}));
    let odd = [json!(null), json!(1), json!("x"), json!([]), json!({}), json!({ "type": 5 })];
    let mut entries = vec![good.clone()];
    entries.extend(odd.clone());
    entries.push(good);
    let webhook = read(&json!({ "events": entries, "new": { "field": 1 } }));
    assert_eq!((webhook.events.len(), webhook.unreadable), (2, odd.len()));
    assert_eq!(webhook.events[0], webhook.events[1]);
    assert_eq!(webhook.destination, None);
}

#[test]
fn no_events_are_fine() {
    for body in [
        json!({ "destination": USER, "events": [] }),
        json!({ "destination": USER }),
        json!({ "destination": USER, "events": null }),
    ] {
        let webhook = read(&body);
        assert_eq!((webhook.destination.as_deref(), webhook.events.len()), (Some(USER), 0));
    }
}

#[test]
fn what_is_no_object_is_refused_with_the_reason() {
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for body in [&b""[..], b"{", b"[]", b"1", b"\"x\"", b"null", b"\xff", b"{} {}", &deep] {
        let error = parse(body).unwrap_err();
        assert_eq!((error.code(), error.field()), ("INVALID", Some("body")));
        assert!(error.to_string().contains("must be"), "{error}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("user")),
        Just(json!(USER)),
    ];
    let name = prop_oneof![
        Just("type"),
        Just("source"),
        Just("userId"),
        Just("follow"),
        Just("postback"),
        Just("message"),
        Just("params"),
        Just("timestamp"),
        Just("deliveryContext"),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        let _ = parse(&body);
    }

    #[test]
    fn any_entries_are_counted(entries in prop::collection::vec(any_json(), 0..5)) {
        let webhook = read(&json!({ "events": entries }));
        prop_assert_eq!(webhook.events.len() + webhook.unreadable, entries.len());
        for event in webhook.events {
            prop_assert!(event.user_id.is_none_or(|user| user == USER));
        }
    }
}
