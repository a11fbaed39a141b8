//! Subscriptions see what any executor on the database does.

use serde_json::json;

use crate::client::Subscription;
use crate::served::{Role, Served};

async fn watch(served: &Served, role: Role, field: &str, selection: &str) -> Subscription {
    let query = format!("subscription($id: ID!) {{ {field}(applicationId: $id) {selection} }}");
    let variables = json!({ "id": served.id("application") });
    served.client(role).subscribe(&query, variables).await.settled().await
}

#[tokio::test]
async fn watchers_see_what_an_executor_of_another_process_does() {
    let served = Served::new().await;
    let selection = "{ id status scheduledAt deliveryCount trigger { name } }";
    let mut occurrences = watch(&served, Role::Member, "occurrences", selection).await;
    let selection = "{ id status attemptCount backend { name } occurrence { scheduledAt } }";
    let mut deliveries = watch(&served, Role::Machine, "deliveries", selection).await;
    let other = served.test.another_executor().await;
    served.test.advance(29);
    served.test.advance(1);
    other.run_until_idle().await.unwrap();
    let due = "2026-03-02T12:01:00Z";
    let mut names = Vec::new();
    for _ in 0..2 {
        let event = deliveries.event().await["deliveries"].take();
        assert_eq!(event["occurrence"]["scheduledAt"], due, "{event}");
        assert_eq!((&event["status"], &event["attemptCount"]), (&json!("COMPLETED"), &json!(1)));
        names.push(event["backend"]["name"].as_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["one", "two"]);
    let event = occurrences.event().await["occurrences"].take();
    assert_eq!(
        (&event["scheduledAt"], &event["deliveryCount"]),
        (&json!(due), &json!(2)),
        "{event}"
    );
    assert_eq!(event["trigger"]["name"], "Daily Report");
}
