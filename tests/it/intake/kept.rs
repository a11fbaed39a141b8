//! Bodies of the corpus, bodies made of them, and JSON of every shape. Whatever comes in: no fault
//! of ours, nothing written of what is refused, and what is accepted is stored once.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;
use trigger_manager::line::signature;

use super::{EVENTS, NEWCOMER, webhook};
use crate::client::Answer;
use crate::corpus::{cases, entries, mutated, texts};
use crate::served::{Role, Served};
use crate::store_contract::world::number;

/// The ways in, named like the files of the corpus.
const WAYS: [&str; 6] = ["one", "many", "cloud", "batch", "binary", "webhook"];

const CODES: [&str; 5] =
    ["INVALID", "MALFORMED_JSON", "NOT_FOUND", "PAYLOAD_TOO_LARGE", "UNKNOWN_EVENT_TYPE"];

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "true",
    "0",
    "-",
    "1e308",
    "1e999",
    "-0.0",
    "123456789012345678901234567890",
    "\\u0000",
    "\\ud800",
    "\\ud83d\\ude00",
    "\u{0}",
    "\u{feff}",
    "\"eventId\":\"x\",",
    "\"type\":\"schedule\",",
    "\"payload\":{},",
    "\"userId\":null,",
    "[[[[[[[[",
    "]]]]]]]]",
    "{\"a\":",
    "$OA",
    "$USER",
    " ",
    "\n",
    "é",
    "\u{2028}",
    "a_b",
    "aB",
];

struct World {
    served: Served,
    runtime: Runtime,
}

/// How much there is of all that an event may bring with it.
type Counts = [i64; 4];

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let served = runtime.block_on(Served::new());
        Self { served, runtime }
    }

    fn counts(&self) -> Counts {
        let store = &self.served.test.app.store;
        ["event", "line_user", "audit_log", "audience_member"].map(|table| {
            let counting = format!("SELECT count(*) FROM {table}");
            self.runtime.block_on(number(store, &counting))
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("$OA", self.served.id("lineOa")).replace("$USER", NEWCOMER)
    }

    fn send(&self, way: &str, text: &str, id: &str) -> Answer {
        let served = &self.served;
        let body = Bytes::from(self.fill(text));
        if way == "webhook" {
            let signature = signature::sign(&webhook::SECRET.into(), &body);
            let headers = [(signature::HEADER, signature.as_str())];
            let path = webhook::path(served.id("lineOa"));
            let client = served.client(Role::Anonymous);
            return self.runtime.block_on(client.post_raw(&path, &headers, body));
        }
        let kind = match way {
            "cloud" => "application/cloudevents+json",
            "batch" => "application/cloudevents-batch+json",
            _ => "application/json",
        };
        let binary = [
            ("ce-specversion", "1.0"),
            ("ce-id", id),
            ("ce-source", "/forms"),
            ("ce-type", "form_submitted"),
            ("ce-lineoaid", served.id("lineOa")),
        ];
        let mut headers = vec![("content-type", kind)];
        headers.extend(binary.iter().filter(|_| way == "binary"));
        self.runtime.block_on(served.client(Role::Machine).post_raw(EVENTS, &headers, body))
    }

    /// What must hold of any body, sent twice. Answers `ok` or the code.
    fn check(&self, way: &str, text: &str, id: &str) -> Result<String, TestCaseError> {
        let before = self.counts();
        let answer = self.send(way, text, id);
        prop_assert!(answer.status < 500, "{:?}", answer);
        let after = self.counts();
        if answer.status >= 400 {
            let (problem, code) = (answer.json(), answer.code());
            prop_assert!(CODES.contains(&code.as_str()), "{}", problem);
            prop_assert_eq!(&problem["status"], answer.status);
            prop_assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10));
            prop_assert!(code == "MALFORMED_JSON" || problem["field"].is_string(), "{}", problem);
            prop_assert_eq!(before, after, "something was written: {}", problem);
            return Ok(code);
        }
        if way != "webhook" {
            prop_assert_eq!(answer.status, 202);
            let accepted = answer.json()["accepted"].as_i64();
            prop_assert_eq!(accepted, Some(after[0] - before[0]), "{:?}", answer);
        }
        let again = self.send(way, text, id);
        prop_assert_eq!(again.status, answer.status);
        prop_assert_eq!(self.counts(), after, "something was written twice");
        if way != "webhook" {
            prop_assert_eq!(again.json()["accepted"].as_i64(), Some(0));
        }
        Ok("ok".to_owned())
    }

    /// All that was stored is looked at and done with, whatever it says.
    fn settle(&self) {
        self.runtime.block_on(self.served.test.run());
        let pending = "SELECT count(*) FROM event WHERE status = 'pending'";
        assert_eq!(self.runtime.block_on(number(&self.served.test.app.store, pending)), 0);
    }
}

/// Values without others in them, and what is none.
const LEAVES: &[&str] = &[
    "null",
    "true",
    "0",
    "-0.0",
    "7",
    "1e308",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"x\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"$OA\"",
    "\"$USER\"",
    "{}",
    "[]",
    "\"form_submitted\"",
    "\"friend_track_event_inserted\"",
    "\"booking_event\"",
    "\"2026-03-02T11:00:00Z\"",
    "\"2026-03-02T11:00:00.123456789+14:00\"",
    "\"follow\"",
];

const KEYS: &[&str] = &[
    "eventId",
    "event_id",
    "type",
    "lineOaId",
    "userId",
    "occurredAt",
    "payload",
    "formId",
    "form_id",
    "submissionId",
    "bookingId",
    "status",
    "startsAt",
    "answers",
    "id",
    "source",
    "events",
    "follow",
    "timestamp",
    "webhookEventId",
    "data",
    "a",
    "",
    "\\u0000",
    "a.b",
];

/// Any JSON, and some that is none.
fn any_json() -> BoxedStrategy<String> {
    let leaf = select(LEAVES).prop_map(str::to_owned);
    let key = select(KEYS);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..5);
        let object = proptest::collection::vec((key.clone(), inner), 0..6);
        prop_oneof![
            1 => list.prop_map(|all| format!("[{}]", all.join(","))),
            2 => object.prop_map(|all| {
                let all = all.iter().map(|(key, value)| format!("\"{key}\":{value}"));
                format!("{{{}}}", all.collect::<Vec<_>>().join(","))
            }),
        ]
    })
    .boxed()
}

/// A body that is right but for one part.
fn nearly() -> impl Strategy<Value = String> {
    let part = select(&["eventId", "type", "lineOaId", "userId", "occurredAt", "payload"][..]);
    let kind = select(&["form_submitted", "friend_track_event_inserted", "booking_event"][..]);
    (part, kind, any_json(), 0..1_000_u32).prop_map(|(part, kind, value, id)| {
        let parts = [
            ("eventId", format!("\"n{id}\"")),
            ("type", format!("\"{kind}\"")),
            ("lineOaId", "\"$OA\"".to_owned()),
            ("payload", "{\"formId\":1,\"submissionId\":2,\"bookingId\":3}".to_owned()),
        ];
        let others = parts.iter().filter(|(name, _)| *name != part);
        let others = others.map(|(name, value)| format!("\"{name}\":{value},"));
        format!("{{{}\"{part}\":{value}}}", others.collect::<String>())
    })
}

fn any_body() -> impl Strategy<Value = (&'static str, String)> {
    let made = WAYS.map(|way| {
        (
            1,
            mutated(texts(&format!("event/{way}")), PIECES)
                .prop_map(move |text| (way, text))
                .boxed(),
        )
    });
    let made = proptest::strategy::Union::new_weighted(made.into());
    let list =
        proptest::collection::vec(nearly(), 1..4).prop_map(|all| format!("[{}]", all.join(",")));
    prop_oneof![
        6 => made,
        2 => (select(&WAYS[..]), any_json()),
        2 => nearly().prop_map(|text| ("one", text)),
        1 => list.prop_map(|text| ("many", text)),
        1 => (select(&WAYS[..]), any::<String>()),
    ]
}

#[test]
fn bodies_of_the_corpus_have_their_verdicts() {
    let world = World::new();
    let mut wrong = Vec::new();
    for way in WAYS {
        for entry in entries(&format!("event/{way}")) {
            let checked = world.check(way, &entry.text, &entry.at);
            let verdict = checked.unwrap_or_else(|error| panic!("{}: {error}", entry.at));
            if verdict != entry.verdict {
                wrong.push(entry.but(&verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.settle();
}

#[test]
fn whatever_comes_in_is_refused_whole_or_stored_once() {
    let world = World::new();
    let mut config = cases(160);
    (config.source_file, config.test_name) = (Some(file!()), Some("whatever_comes_in"));
    let run = TestRunner::new(config).run(&(any_body(), "[a-z]{1,8}"), |((way, text), id)| {
        world.check(way, &text, &id).map(drop)
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    world.settle();
}
