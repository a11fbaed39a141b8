//! The metrics that an autoscaler reads: names and labels are a contract.

use std::collections::BTreeMap;

use serde_json::json;
use trigger_manager::store::Engine;

use crate::served::{Role, Served};

/// Each series with its value, as the text format has it.
async fn scrape(served: &Served) -> BTreeMap<String, f64> {
    let answer = served.monitor.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    series.collect()
}

#[tokio::test]
async fn an_autoscaler_finds_its_series_by_name_and_label() {
    let served = Served::new().await;
    let app = served.id("application").to_owned();
    let of = |name: &str| format!("{name}{{app=\"{app}\"}}");
    // As the driver does now and then.
    served.test.executor.observe().await.unwrap();
    let series = scrape(&served).await;
    // One due time, two backends, of which one failed for good.
    assert_eq!(series[&of("pfy_executor_queue_all_total")], 2.0, "{series:?}");
    assert_eq!(series[&of("pfy_executor_queue_processed_total")], 2.0);
    // A call that a rule queued for tomorrow.
    assert_eq!(series[&of("pfy_executor_queue_waiting")], 1.0);
    assert_eq!(series[&of("pfy_executor_queue_process_time_seconds_count")], 2.0);
    assert_eq!(series[&of("pfy_executor_trigger_delivery_failed_total")], 1.0);
    assert_eq!(series["pfy_executor_active_triggers"], 1.0);
    assert_eq!(series["pfy_executor_backend_dispatch_total{status=\"success\"}"], 1.0);
    assert_eq!(series["pfy_executor_backend_dispatch_total{status=\"error\"}"], 1.0);
    let bucket =
        format!("pfy_executor_queue_process_time_seconds_bucket{{app=\"{app}\",le=\"+Inf\"}}");
    assert_eq!(series[&bucket], 2.0);
}

#[tokio::test]
async fn what_waits_is_counted_before_it_is_sent() {
    let served = Served::new().await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    let id = json!({ "id": served.id("trigger") });
    served.client(Role::Maintainer).data(run, id).await;
    let (executor, now) = (&served.test.executor, served.test.app.now());
    executor.observe().await.unwrap();
    executor.report(now, chrono::Duration::zero(), false).await.unwrap();
    let status = "{ executorStatus { waiting { applicationId count } activeTriggers
        executors { alive } } }";
    let status = served.client(Role::Member).data(status, json!(null)).await;
    // The two deliveries, and a call that a rule queued for tomorrow.
    let waiting = json!([{ "applicationId": served.id("application"), "count": 3 }]);
    assert_eq!(status["executorStatus"]["waiting"], waiting, "{status}");
    assert_eq!(status["executorStatus"]["activeTriggers"], 1);
    assert_eq!(status["executorStatus"]["executors"][0]["alive"], true);
    let series = scrape(&served).await;
    let of = |name: &str| series[&format!("{name}{{app=\"{}\"}}", served.id("application"))];
    assert_eq!(of("pfy_executor_queue_waiting"), 3.0);
    assert_eq!(of("pfy_executor_queue_all_total"), 4.0);
    assert_eq!(of("pfy_executor_queue_processed_total"), 2.0);
}

#[tokio::test]
async fn health_is_on_the_metrics_address_too_and_nothing_else_is() {
    let served = Served::new().await;
    assert_eq!(served.monitor.get("/healthz").await.status, 200);
    // The process's clock stands still in the past, and PostgreSQL has one of its own.
    let agree = served.test.database.engine() == Engine::Sqlite;
    let ready = served.monitor.get("/readyz").await;
    assert_eq!(ready.status, if agree { 200 } else { 503 });
    assert_eq!(ready.body.contains("this process's clock"), !agree);
    for path in ["/graphql", "/graphiql", "/api/machine/check"] {
        assert_eq!(served.monitor.get(path).await.status, 404, "{path}");
    }
}
