//! The end of a process with work in flight.

use serde_json::{Value, json};

use super::place::{TOKEN, furnish};
use super::{Place, Process};
use crate::receiver::{Answer, Receiver};

const SETTINGS: [(&str, &str); 5] = [
    // So that what comes after a call that hangs is held, and not begun.
    ("PFY_DISPATCH_CONCURRENCY_PER_BACKEND", "1"),
    ("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN),
    ("PFY_SHUTDOWN_GRACE", "1s"),
    ("PFY_DISPATCH_TIMEOUT", "20s"),
    ("PFY_DISPATCH_LEASE", "25s"),
];

#[tokio::test]
async fn a_hanging_backend_does_not_keep_a_process_and_gets_its_call_after_the_next_start() {
    let place = Place::new().await;
    let receiver = Receiver::start().await;
    receiver.next("/hook", [Answer::Hang]);
    let mut first = Process::start(&place, &[], &SETTINGS);
    let administrator = first.api().await.bearer(TOKEN);
    let trigger = furnish(&administrator, &receiver, json!({})).await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    administrator.data(run, json!({ "id": trigger })).await;
    let in_flight = "{ deliveries { nodes {
        id status attemptCount nextAttemptAt lastError } } }";
    receiver.until(|received| received.len() == 1).await;
    for _ in 0..2 {
        administrator.data(run, json!({ "id": trigger })).await;
    }
    let all_are = |status: [&'static str; 3]| {
        move |data: &Value| {
            let nodes = data["deliveries"]["nodes"].as_array().unwrap();
            let found: Vec<_> = nodes.iter().map(|node| node["status"].as_str().unwrap()).collect();
            (found == status).then(|| nodes.clone())
        }
    };
    let held = administrator.until(in_flight, Value::Null, all_are(["PROCESSING"; 3])).await;
    first.signal("TERM").await;
    let status = first.ended().await;
    assert!(status.success(), "{status}\n{}", first.output());
    let ended = first.output();
    assert!(ended.contains("stopping") && !ended.contains("panicked"), "{ended}");

    // Newest first: what was held and not begun is as if nobody had held it.
    let only = SETTINGS.into_iter().chain([("PFY_RUN_MODE", "api")]).collect::<Vec<_>>();
    let mut looker = Process::start(&place, &[], &only);
    let reader = looker.api().await.bearer(TOKEN);
    let left = ["PENDING", "PENDING", "PROCESSING"];
    let left = reader.until(in_flight, Value::Null, all_are(left)).await;
    for (left, held) in left.iter().zip(&held).take(2) {
        assert_eq!((&left["attemptCount"], &left["lastError"]), (&json!(0), &Value::Null));
        assert_eq!(left["id"], held["id"]);
        assert!(!left["nextAttemptAt"].is_null(), "{left}");
    }
    looker.stop().await;

    let mut second = Process::start(&place, &[], &SETTINGS);
    let administrator = second.api().await.bearer(TOKEN);
    let nodes = administrator.until(in_flight, Value::Null, all_are(["COMPLETED"; 3])).await;
    let received = receiver.received();
    let of = |node: &Value| {
        let id = node["id"].as_str().unwrap().to_owned();
        received.iter().filter(|one| one.header("webhook-id") == id).collect::<Vec<_>>()
    };
    let calls: Vec<_> = nodes.iter().map(|node| of(node).len()).collect();
    assert_eq!(calls, [1, 1, 2], "of the one that hung, one call more");
    let again = of(&nodes[2]);
    assert_eq!(again[0].body, again[1].body);
    second.stop().await;
}
