//! The live tail of a LINE OA.

use serde_json::json;

use crate::served::{Role, Served};

#[tokio::test]
async fn who_watches_a_line_oa_is_told_its_log_and_nothing_of_others() {
    let served = Served::new().await;
    let query = "subscription($id: ID!) { triggerLogs(lineOaId: $id) {
        status reason triggerRuleName scheduledAction { id } } }";
    let variables = json!({ "id": served.id("lineOa") });
    let subscription = served.client(Role::Member).subscribe(query, variables).await;
    let mut watch = subscription.settled().await;
    let push = served.new_push();
    let mut other = served.new_log(&push);
    (other.line_oa_id, other.reason) = (Some(uuid::Uuid::now_v7()), Some("elsewhere"));
    let mut held = served.new_log(&push);
    (held.status, held.reason) = ("held_back", Some("frequency"));
    held.scheduled_action_id = None;
    served.queue(&[&push]).await;
    served.log(&[other, held, served.new_log(&push)]).await;
    let first = watch.event().await["triggerLogs"].take();
    let expected = json!({
        "status": "HELD_BACK", "reason": "frequency", "triggerRuleName": "Greets who answers",
        "scheduledAction": null,
    });
    assert_eq!(first, expected);
    let second = watch.event().await["triggerLogs"].take();
    assert_eq!(
        (&second["status"], &second["scheduledAction"]["id"]),
        (&json!("QUEUED"), &json!(push.id),)
    );
}

#[tokio::test]
async fn who_watches_an_application_is_told_nothing_of_rules() {
    let served = Served::new().await;
    let query =
        "subscription($id: ID!) { deliveries(applicationId: $id) { id occurrence { id } } }";
    let variables = json!({ "id": served.id("application") });
    let subscription = served.client(Role::Machine).subscribe(query, variables).await;
    let mut watch = subscription.settled().await;
    let call = served.new_call();
    served.queue(&[&call]).await;
    served.log(&[served.new_log(&call)]).await;
    served.test.advance(30);
    served.test.run().await;
    let told = watch.event().await["deliveries"].take();
    assert!(told["occurrence"]["id"].is_string() && told["id"] != json!(call.id), "{told}");
}
