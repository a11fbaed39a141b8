//! Whatever is written is read back as it was, or refused; and no text is SQL.

use chrono::{DateTime, Duration, Utc};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::page::Direction;
use trigger_manager::domain::scheduled_action::ActionConfig;
use trigger_manager::domain::trigger::Payload;
use trigger_manager::store::executor::{self, Finished};
use trigger_manager::store::trigger::{Filter, Sort};
use trigger_manager::store::{delivery, log, trigger};

use super::world::{World, at, ending, first, on_postgres, within};
use crate::harness::TestStore;

const TEXTS: [&str; 9] = [
    "",
    "it's \"quoted\" `so` $1 ?1 :name",
    "'; DROP TABLE \"trigger\"; --",
    "back\\slash \\u0041 \\0 {\"json\": [1]}",
    "line\nbreak\ttab\r\u{1b}[31m\u{7f}",
    "ü ñ ไทย 日本 🦀👩‍👩‍👧 e\u{301}",
    "\u{202e}right to left\u{200b}\u{feff}",
    "%_%\\%",
    "\u{10ffff}\u{e000}\u{fffd}",
];

#[tokio::test]
async fn text_is_read_as_it_was_written() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for text in TEXTS {
        let mut new = world.new_trigger(text, None);
        (new.description, new.run_key) = (text.repeat(50), text.to_owned());
        (new.cron_expression, new.time_zone) = (text.to_owned(), Some(text.to_owned()));
        within!(store, |tx| trigger::insert(&*tx, &new));
        assert_eq!(trigger::find(store.read(), Scope::Everything, new.id).await.unwrap(), new);
        new.name = format!("{text}!");
        within!(store, |tx| trigger::update(&*tx, &new));
        assert_eq!(trigger::find(store.read(), Scope::Everything, new.id).await.unwrap(), new);
    }
}

#[tokio::test]
async fn a_payload_is_the_same_bytes_on_every_reading() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    for (number, text) in TEXTS.into_iter().enumerate() {
        let mut trigger = world.new_trigger(text, None);
        (trigger.run_key, trigger.cron_expression) = (text.to_owned(), text.to_owned());
        within!(store, |tx| trigger::insert(&*tx, &trigger));
        let scheduled = at(i64::try_from(number).unwrap());
        let (occurrence, deliveries) =
            world.occurrence_of(&trigger, scheduled, &[backend.id]).await;
        let bytes = |payload: &Payload| serde_json::to_vec(payload).unwrap();
        let sent = bytes(&Payload::new(&trigger, scheduled));
        assert_eq!(bytes(&world.reread_occurrence(&occurrence).await.payload), sent, "{text:?}");
        assert_eq!(bytes(&world.reread(&deliveries[0]).await.payload), sent, "{text:?}");
        let claimed = world.claim(at(1000)).await;
        let ActionConfig::Callback(payload) = &claimed[0].action.config else {
            panic!("{:?}", claimed[0].action.config)
        };
        assert_eq!(bytes(payload), sent, "{text:?}");
    }
}

#[tokio::test]
async fn a_null_character_is_an_error_where_it_cannot_be_stored_and_never_a_panic() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let named = world.new_trigger("a\0b", None);
    let tx = store.begin().await.unwrap();
    let written = trigger::insert(&*tx, &named).await;
    let occurrence = world.new_occurrence(&named, at(0));
    match on_postgres(&store) {
        true => {
            assert!(written.is_err());
            drop(tx);
            let tx = store.begin().await.unwrap();
            assert!(executor::insert_occurrences(&*tx, &[occurrence]).await.is_err());
        }
        false => {
            written.unwrap();
            executor::insert_occurrences(&*tx, std::slice::from_ref(&occurrence)).await.unwrap();
            tx.commit_unaudited().await.unwrap();
            let found = trigger::find(store.read(), Scope::Everything, named.id).await.unwrap();
            assert_eq!(found, named);
            assert_eq!(world.reread_occurrence(&occurrence).await, occurrence);
        }
    }
}

#[tokio::test]
async fn one_hostile_answer_does_not_keep_a_batch_from_being_recorded() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.queued(backend.id, 2).await;
    let claimed = world.claim(at(1000)).await;
    let done: Vec<_> = claimed
        .iter()
        .map(|one| Finished {
            last_error: Some("bad \0 header, \\u0000 \u{7}".to_owned()),
            ..ending(one, ActionStatus::Failed, at(1234))
        })
        .collect();
    assert_eq!(within!(store, |tx| executor::finish(&*tx, &done, at(1234))).len(), 2);
    let stored = world.reread_action(&claimed[0].action).await;
    assert_eq!(stored.last_error.as_deref(), Some("bad \u{fffd} header, \\u0000 \u{7}"));
    let log = log::NewAttempt {
        scheduled_action_id: stored.id.0,
        status: "error",
        error_message: Some("a\0b"),
        attempt: 1,
        response_status: None,
        duration_ms: None,
        reason: None,
        platform_request_id: None,
        created_date: at(0),
    };
    within!(store, |tx| log::log_attempts(&*tx, &[log]));
    let attempts = delivery::attempts(store.read(), &[stored.id]).await.unwrap();
    assert_eq!(attempts[0].error_message.as_deref(), Some("a\u{fffd}b"));
}

#[tokio::test]
async fn times_are_read_to_the_millisecond_and_ordered_as_they_are() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut expected = Vec::new();
    for base in ["1970-01-01T00:00:00Z", "2026-03-01T12:00:00Z", "9999-12-31T23:59:58Z"] {
        let base: DateTime<Utc> = base.parse().unwrap();
        for step in [-1001, -1000, -999, -1, 0, 1, 10, 100, 999, 1000] {
            let time = base + Duration::milliseconds(step);
            let mut new = world.new_trigger("trigger", Some(time));
            (new.evaluated_at, new.updated_at) = (time, time);
            within!(store, |tx| trigger::insert(&*tx, &new));
            let found = trigger::find(store.read(), Scope::Everything, new.id).await.unwrap();
            assert_eq!(found, new, "{time}");
            expected.push(new.id);
        }
    }
    let sort = (Sort::UpdatedAt, Direction::Ascending);
    let filter = Filter::default();
    let page = trigger::list(store.read(), Scope::Everything, &filter, sort, &first(200)).await;
    let ordered: Vec<_> = page.unwrap().rows.into_iter().map(|(_, row)| row.id).collect();
    assert_eq!(ordered, expected);
    let due = within!(store, |tx| executor::due_triggers(&*tx, at(100), 100));
    assert_eq!(due.len(), 18, "10 of 1970, and 8 up to the very millisecond");
}

#[tokio::test]
async fn a_name_is_found_by_a_part_of_it_whatever_its_case() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for name in ["Nightly Report", "ÄPFEL", "täglich", "100%", "100x", "a_b", "aXb", "a\\b"] {
        world.trigger(name, None).await;
    }
    for (text, expected) in [
        ("nightly", vec!["Nightly Report"]),
        ("LY REP", vec!["Nightly Report"]),
        ("ÄPFEL", vec!["ÄPFEL"]),
        ("Äpfel", vec!["ÄPFEL"]),
        ("TäGLICH", vec!["täglich"]),
        ("0%", vec!["100%"]),
        ("a_b", vec!["a_b"]),
        ("a\\b", vec!["a\\b"]),
        ("'", vec![]),
        ("nothing like it", vec![]),
    ] {
        let filter = Filter { name_contains: Some(text.to_owned()), ..Filter::default() };
        let sort = (Sort::CreatedAt, Direction::Ascending);
        let page = trigger::list(store.read(), Scope::Everything, &filter, sort, &first(50)).await;
        let names: Vec<_> = page.unwrap().rows.into_iter().map(|(_, row)| row.name).collect();
        assert_eq!(names, expected, "{text:?}");
    }
}
