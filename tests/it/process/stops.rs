//! The end of a process with work in flight.

use serde_json::{Value, json};

use super::place::{TOKEN, furnish};
use super::{Place, Process};
use crate::receiver::{Answer, Receiver};

const SETTINGS: [(&str, &str); 4] = [
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
    first.signal("TERM").await;
    let status = first.ended().await;
    assert!(status.success(), "{status}\n{}", first.output());
    let ended = first.output();
    assert!(ended.contains("stopping") && !ended.contains("panicked"), "{ended}");

    let mut second = Process::start(&place, &[], &SETTINGS);
    let administrator = second.api().await.bearer(TOKEN);
    let is_delivered = |data: &Value| {
        let delivery = &data["deliveries"]["nodes"][0];
        (delivery["status"] == "COMPLETED").then(|| delivery["id"].as_str().unwrap().to_owned())
    };
    let id = administrator.until(in_flight, Value::Null, is_delivered).await;
    let received = receiver.received();
    let ids: Vec<_> = received.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids, [id.as_str(); 2], "one call that hung, one that was answered");
    assert_eq!(received[0].body, received[1].body);
    second.stop().await;
}
