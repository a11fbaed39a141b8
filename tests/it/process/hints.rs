//! Processes that look at the schedules once an hour: what they do sooner, somebody told them of.

use serde_json::json;

use super::place::{TOKEN, furnish};
use super::{Place, Process};
use crate::harness::engine;
use crate::receiver::Receiver;
use trigger_manager::store::Engine;

fn start(place: &Place, run_mode: &str) -> Process {
    let settings = [
        ("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN),
        ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1h"),
        ("PFY_RUN_MODE", run_mode),
    ];
    Process::start(place, &[], &settings)
}

/// On PostgreSQL by another process.
#[tokio::test]
async fn what_is_made_due_is_done_at_once_however_seldom_an_executor_looks() {
    let place = Place::new().await;
    let receiver = Receiver::start().await;
    let apart = engine() == Engine::Postgres;
    let mut api = start(&place, if apart { "api" } else { "both" });
    let administrator = api.api().await.bearer(TOKEN);
    let executor = match apart {
        true => {
            let mut executor = start(&place, "executor");
            executor.line("this process executes").await;
            Some(executor)
        }
        false => None,
    };
    let trigger = furnish(&administrator, &receiver, json!({})).await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    for calls in 1..=3 {
        administrator.data(run, json!({ "id": trigger })).await;
        receiver.until(|received| received.len() == calls).await;
    }
    if let Some(executor) = executor {
        executor.stop().await;
    }
    api.stop().await;
}
