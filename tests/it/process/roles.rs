//! What `run_mode` leaves out.

use serde_json::{Value, json};

use super::place::{TOKEN, furnish};
use super::{Place, Process};
use crate::receiver::Receiver;

#[tokio::test]
async fn an_api_process_does_not_execute_and_an_executor_serves_no_api() {
    let place = Place::new().await;
    let receiver = Receiver::start().await;
    let settings = [("PFY_RUN_MODE", "api"), ("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN)];
    let mut api = Process::start(&place, &[], &settings);
    let administrator = api.api().await.bearer(TOKEN);
    let trigger = furnish(&administrator, &receiver, json!({})).await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    administrator.data(run, json!({ "id": trigger })).await;
    let status = "{ executorStatus { executors { id } waiting { count } } }";
    let status = administrator.data(status, Value::Null).await;
    assert_eq!(status["executorStatus"], json!({ "executors": [], "waiting": [{ "count": 1 }] }));
    assert!(!api.output().contains("this process executes"), "{}", api.output());
    assert!(receiver.received().is_empty(), "somebody executed");

    let mut executor = Process::start(&place, &[], &[("PFY_RUN_MODE", "executor")]);
    let monitor = executor.monitor().await;
    let delivered = "{ deliveries { nodes { status } } }";
    let is_delivered =
        |data: &Value| (data["deliveries"]["nodes"][0]["status"] == "COMPLETED").then_some(());
    administrator.until(delivered, Value::Null, is_delivered).await;
    assert_eq!(receiver.received().len(), 1);
    let metrics = monitor.get("/metrics").await.body;
    let sent = "pfy_executor_backend_dispatch_total{status=\"success\"} 1";
    assert!(metrics.contains(sent), "{metrics}");
    for path in ["/graphql", "/graphiql", "/api/machine/check"] {
        assert_eq!(monitor.get(path).await.status, 404, "{path}");
    }
    let output = executor.stop().await;
    assert!(!output.contains("GraphQL at"), "{output}");
    api.stop().await;
}
