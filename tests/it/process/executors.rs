//! Several processes on one database, and the death of one of them.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};
use trigger_manager::store::Engine;

use super::place::{TOKEN, furnish};
use super::{Place, Process};
use crate::harness::engine;
use crate::receiver::{Answer, Received, Receiver};

const SETTINGS: [(&str, &str); 6] = [
    ("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN),
    ("PFY_DISPATCH_TIMEOUT", "2s"),
    ("PFY_DISPATCH_LEASE", "7s"),
    ("PFY_LINE_TIMEOUT", "2s"),
    ("PFY_DISPATCH_RETRY_INITIAL", "1s"),
    ("PFY_SHUTDOWN_GRACE", "5s"),
];

fn start(place: &Place, run_mode: &str) -> Process {
    let settings: Vec<_> = SETTINGS.into_iter().chain([("PFY_RUN_MODE", run_mode)]).collect();
    Process::start(place, &[], &settings)
}

fn due(received: &Received) -> DateTime<Utc> {
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    body["executed_at"].as_str().unwrap().parse().unwrap()
}

/// The due times that were called, each with the ids of its calls.
fn calls(received: &[Received]) -> BTreeMap<DateTime<Utc>, Vec<String>> {
    let mut calls = BTreeMap::<_, Vec<_>>::new();
    for one in received {
        calls.entry(due(one)).or_default().push(one.header("webhook-id").to_owned());
    }
    calls
}

/// Each second between the first and the last was called.
fn assert_complete(calls: &BTreeMap<DateTime<Utc>, Vec<String>>) {
    let times: Vec<_> = calls.keys().copied().collect();
    for pair in times.windows(2) {
        assert_eq!(pair[1] - pair[0], Duration::seconds(1), "a due time is missing: {times:?}");
    }
}

#[tokio::test]
async fn two_apis_and_two_executors_share_one_database() {
    let place = Place::new().await;
    let receiver = Receiver::start().await;
    let (mut one, mut two) = (start(&place, "api"), start(&place, "api"));
    let writer = one.api().await.bearer(TOKEN);
    let reader = two.api().await.bearer(TOKEN);
    let mut executors = [start(&place, "executor"), start(&place, "executor")];
    for executor in &mut executors {
        executor.line("this process executes").await;
    }
    furnish(&writer, &receiver, json!({ "cronExpression": "* * * * * *", "enabled": true })).await;
    receiver.until(|received| calls(received).len() >= 6).await;
    let status = "{ executorStatus { executors { processId alive } } }";
    let both = |data: &Value| {
        let all = data["executorStatus"]["executors"].as_array().unwrap();
        all.iter().filter(|one| one["alive"] == true).count().eq(&2).then_some(())
    };
    reader.until(status, Value::Null, both).await;
    // What one API changes, both executors obey.
    let disable = "mutation($id: ID!) { updateTrigger(id: $id, input: { enabled: false }) { id } }";
    let triggers = reader.data("{ triggers { nodes { id } } }", Value::Null).await;
    reader.data(disable, json!({ "id": triggers["triggers"]["nodes"][0]["id"] })).await;
    for executor in executors {
        executor.stop().await;
    }
    let calls = calls(&receiver.received());
    assert_complete(&calls);
    assert!(calls.values().all(|ids| ids.len() == 1), "each due time is called once: {calls:?}");
    let ledger = "{ occurrences(first: 200) { nodes { scheduledAt status } } }";
    let ledger = reader.data(ledger, Value::Null).await;
    let rows = ledger["occurrences"]["nodes"].as_array().unwrap();
    let delivered: Vec<_> = rows.iter().filter(|row| row["status"] == "DELIVERED").collect();
    assert_eq!(delivered.len(), calls.len(), "{rows:?}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_killed_executor_loses_nothing() {
    let place = Place::new().await;
    let receiver = Receiver::start().await;
    let mut api = start(&place, "api");
    let administrator = api.api().await.bearer(TOKEN);
    let mut doomed = start(&place, "executor");
    doomed.line("this process executes").await;
    let every_second = json!({ "cronExpression": "* * * * * *", "enabled": true });
    let trigger = furnish(&administrator, &receiver, every_second).await;
    receiver.until(|received| calls(received).len() >= 2).await;
    let hung = receiver.hang_next("/hook").await;
    // SQLite is for one machine, where the next start takes over; with PostgreSQL another
    // executor is there already.
    let heir = (engine() == Engine::Postgres).then(|| start(&place, "executor"));
    let heir = match heir {
        Some(mut heir) => {
            heir.line("this process executes").await;
            doomed.kill().await;
            heir
        }
        None => {
            doomed.kill().await;
            start(&place, "executor")
        }
    };
    // The call that was in flight comes again, with the same id and body.
    let id = hung.header("webhook-id").to_owned();
    let again = |received: &[Received]| {
        received.iter().filter(|one| one.header("webhook-id") == id).count() >= 2
    };
    receiver.until(again).await;
    let last = due(receiver.received().last().unwrap());
    receiver.until(|received| received.iter().any(|one| due(one) > last)).await;
    let disable = "mutation($id: ID!) { updateTrigger(id: $id, input: { enabled: false }) { id } }";
    administrator.data(disable, json!({ "id": trigger })).await;
    heir.stop().await;
    let received = receiver.received();
    let calls = calls(&received);
    assert_complete(&calls);
    for (due, ids) in &calls {
        assert!(ids.iter().all(|id| *id == ids[0]), "{due}: {ids:?}");
    }
    let same = received.iter().filter(|one| one.header("webhook-id") == id);
    assert!(same.clone().all(|one| one.body == hung.body));
    let ledger = "{ occurrences(first: 200) { nodes { scheduledAt status } } }";
    let ledger = administrator.data(ledger, Value::Null).await;
    for row in ledger["occurrences"]["nodes"].as_array().unwrap() {
        let ended = row["status"] == "DELIVERED" || row["status"] == "CANCELLED";
        assert!(ended, "{row}");
    }
    api.stop().await;
}

/// Used where a hang must be of a known call.
impl Receiver {
    /// Lets the next call hang; returns it once it is there.
    async fn hang_next(&self, path: &str) -> Received {
        let before = self.received_at(path).len();
        self.next(path, [Answer::Hang]);
        self.until(|received| received.len() > before).await;
        self.received_at(path)[before].clone()
    }
}
