//! Taking queued work back, and having it tried again.

use chrono::Duration;
use serde_json::{Value, json};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::scheduled_action::ScheduledAction;

use super::ask;
use crate::client::Answer;
use crate::served::{Role, Served, within};

const CANCEL: &str = "mutation($id: ID!) { cancelScheduledAction(id: $id) {
    id status lastError finishedAt attemptCount } }";
const RETRY: &str = "mutation($id: ID!) { retryScheduledAction(id: $id) {
    id status nextAttemptAt expiresAt finishedAt attemptCount } }";
const STATES: [ActionStatus; 6] = [
    ActionStatus::Pending,
    ActionStatus::Processing,
    ActionStatus::Completed,
    ActionStatus::Failed,
    ActionStatus::Expired,
    ActionStatus::Cancelled,
];

/// Work in this state, which is the only one that is due.
async fn work(served: &Served, status: ActionStatus) -> ScheduledAction {
    let mut push = served.new_push();
    push.execute_at = served.test.app.now();
    served.queue(&[&push]).await;
    served.end(&push, status).await;
    push
}

async fn change(served: &Served, query: &str, id: impl serde::Serialize) -> Answer {
    served.client(Role::Maintainer).graphql(query, json!({ "id": id })).await
}

fn message(answer: &Answer) -> String {
    answer.json()["errors"][0]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn work_that_has_not_ended_can_be_taken_back_and_any_other_not() {
    let served = Served::new().await;
    for status in STATES {
        let action = work(&served, status).await;
        let answer = change(&served, CANCEL, action.id).await;
        let open = matches!(status, ActionStatus::Pending | ActionStatus::Processing);
        if !open {
            assert_eq!(answer.code(), "CONFLICT", "{status:?}: {}", answer.body);
            let expected = format!(
                "only pending or processing work can be cancelled, this is {}",
                status.as_str()
            );
            assert_eq!(message(&answer), expected);
            continue;
        }
        let shown = answer.data()["cancelScheduledAction"].take();
        assert_eq!(shown["status"], "CANCELLED", "{status:?}");
        assert_eq!(shown["lastError"], "cancelled_by_request");
        // An attempt under way counts as one.
        assert_eq!(shown["attemptCount"], i32::from(status == ActionStatus::Processing));
        assert!(shown["finishedAt"].is_string(), "{shown}");
        let again = change(&served, CANCEL, action.id).await;
        assert!(message(&again).ends_with("this is cancelled"), "{}", again.body);
    }
}

#[tokio::test]
async fn work_that_ended_without_being_done_can_be_tried_again_and_any_other_not() {
    let served = Served::new().await;
    for status in STATES {
        let action = work(&served, status).await;
        served.test.advance(1);
        let answer = change(&served, RETRY, action.id).await;
        use ActionStatus::{Cancelled, Expired, Failed};
        if !matches!(status, Failed | Expired | Cancelled) {
            assert_eq!(answer.code(), "CONFLICT", "{status:?}: {}", answer.body);
            let expected = format!(
                "only failed, expired or cancelled work can be retried, this is {}",
                status.as_str()
            );
            assert_eq!(message(&answer), expected);
            within!(served, |tx| trigger_manager::store::scheduled_action::cancel(
                &*tx,
                action.id,
                "over",
                served.test.app.now()
            ));
            continue;
        }
        let shown = answer.data()["retryScheduledAction"].take();
        let now = served.test.app.now();
        assert_eq!(shown["id"], json!(action.id), "the retry key stays");
        assert_eq!((&shown["status"], &shown["finishedAt"]), (&json!("PENDING"), &Value::Null));
        let time =
            |name: &str| shown[name].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>();
        assert_eq!(time("nextAttemptAt").unwrap(), now);
        assert_eq!(time("expiresAt").unwrap(), now + Duration::hours(23));
        let again = change(&served, RETRY, action.id).await;
        assert!(message(&again).ends_with("this is pending"), "{}", again.body);
        change(&served, CANCEL, action.id).await.data();
    }
}

#[tokio::test]
async fn each_change_leaves_one_row_with_the_states_before_and_after() {
    let served = Served::new().await;
    let id = served.id("waitingAction");
    change(&served, CANCEL, id).await.data();
    change(&served, CANCEL, id).await;
    change(&served, RETRY, id).await.data();
    change(&served, RETRY, id).await;
    let query = "query($id: ID!) { auditLogs(filter: { entityId: $id }) {
        nodes { action entityType projectId applicationId before after } } }";
    let data = served.administrator().data(query, json!({ "id": id })).await;
    let rows = data["auditLogs"]["nodes"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let expected = [
        ("scheduled_action.retry", "cancelled", "pending"),
        ("scheduled_action.cancel", "pending", "cancelled"),
    ];
    for (row, (action, before, after)) in rows.iter().zip(expected) {
        assert_eq!(
            (&row["action"], &row["entityType"]),
            (&json!(action), &json!("scheduled_action"))
        );
        assert_eq!(row["projectId"], served.id("project"));
        assert_eq!(row["applicationId"], served.id("application"));
        assert_eq!(
            (&row["before"]["status"], &row["after"]["status"]),
            (&json!(before), &json!(after),)
        );
        assert_eq!(row["after"]["triggerRuleId"], served.id("rule"));
    }
}

#[tokio::test]
async fn a_cancel_of_the_copies_that_are_left_shows_in_its_row_how_many_they_were() {
    let served = Served::new().await;
    let id = |name: &str| served.id(name).parse::<uuid::Uuid>().unwrap();
    let call = trigger_manager::domain::id::ScheduledActionId(id("waitingAction"));
    let backends = ["backend", "failingBackend"].map(|name| id(name).into()).to_vec();
    let (now, addressed) = (served.test.app.now(), [(call, backends)]);
    within!(served, |tx| trigger_manager::store::scheduled_action::address(&*tx, &addressed, now));
    within!(served, |tx| trigger_manager::store::scheduled_action::cancel(
        &*tx, call, "earlier", now
    ));
    change(&served, CANCEL, call).await.data();
    let row = last_row(&served, served.id("waitingAction")).await;
    assert_eq!(row["before"]["status"], row["after"]["status"]);
    assert_eq!(row["after"]["cancelledActions"], 1, "{row}");
}

/// The newest row of the audit log about this work.
async fn last_row(served: &Served, id: &str) -> Value {
    let query = "query($id: ID!) { auditLogs(filter: { entityId: $id }) {
        nodes { action before after } } }";
    let mut data = served.administrator().data(query, json!({ "id": id })).await;
    data["auditLogs"]["nodes"][0].take()
}

#[tokio::test]
async fn the_delivery_of_a_trigger_is_no_scheduled_action() {
    let served = Served::new().await;
    let missing = uuid::Uuid::now_v7().to_string();
    for query in [CANCEL, RETRY] {
        let answer = change(&served, query, served.id("failedDelivery")).await;
        assert_eq!(answer.code(), "NOT_FOUND");
        assert_eq!(answer.body, change(&served, query, &missing).await.body);
    }
    let query = "query($id: ID!) { scheduledAction(id: $id) { id } }";
    let variables = json!({ "id": served.id("delivery") });
    let answer = served.administrator().graphql(query, variables).await;
    assert_eq!(answer.code(), "NOT_FOUND");
    let listed = ask(&served, "{ scheduledActions { totalCount } }", Value::Null).await;
    assert_eq!(listed["scheduledActions"]["totalCount"], 2);
}

#[tokio::test]
async fn work_whose_rule_workflow_or_line_oa_is_gone_is_not_tried_again() {
    let refused = async |served: &Served, what: &str| {
        let id = served.id("cancelledAction");
        let answer = change(served, RETRY, id).await;
        assert_eq!(answer.code(), "CONFLICT", "{}", answer.body);
        let expected = format!("the {what} of this work was deleted, so it can't be retried");
        assert_eq!(message(&answer), expected);
    };
    let served = Served::new().await;
    let mut rule = served.new_rule();
    rule.id = served.id("rule").parse::<uuid::Uuid>().unwrap().into();
    rule.deleted_date = Some(served.test.app.now());
    within!(served, |tx| trigger_manager::store::rule::update(&*tx, &rule));
    refused(&served, "trigger rule").await;
    let delete = "mutation($id: ID!) { deleteWorkflow(id: $id) { id } }";
    change(&served, delete, served.id("workflow")).await.data();
    refused(&served, "workflow").await;
    let delete = "mutation($id: ID!) { deleteLineOa(id: $id) { id } }";
    change(&served, delete, served.id("lineOa")).await.data();
    refused(&served, "LINE OA").await;
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_counted_with_its_copies() {
    let served = Served::new().await;
    let id = |name: &str| served.id(name).parse::<uuid::Uuid>().unwrap();
    let call = trigger_manager::domain::id::ScheduledActionId(id("waitingAction"));
    let backends = ["backend", "failingBackend"].map(|name| id(name).into()).to_vec();
    let (now, addressed) = (served.test.app.now(), [(call, backends)]);
    within!(served, |tx| trigger_manager::store::scheduled_action::address(&*tx, &addressed, now));
    change(&served, CANCEL, call).await.data();
    let row = last_row(&served, served.id("waitingAction")).await;
    assert_eq!(row["after"]["cancelledActions"], 2, "{row}");
    let counted = served.test.app.metrics.encode();
    let ended = "pfy_actions_total{action_type=\"call_backend\",outcome=\"cancelled\"} ";
    let count = counted.lines().find_map(|line| line.strip_prefix(ended));
    assert_eq!(count, Some("2"));
}
