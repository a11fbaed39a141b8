//! What the audit log keeps of a trigger.

use serde_json::{Value, json};

use crate::served::{Role, Served};

const ROWS: &str = "query($id: ID!) { auditLogs(filter: { entityId: $id }) {
    nodes { action before after projectId applicationId } } }";

async fn rows(served: &Served, id: &str) -> Vec<Value> {
    let data = served.administrator().data(ROWS, json!({ "id": id })).await;
    data["auditLogs"]["nodes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_change_of_a_trigger_shows_schedule_run_key_and_enabled_before_and_after() {
    let served = Served::new().await;
    let query = "mutation($id: ID!, $input: UpdateTriggerInput!) {
        updateTrigger(id: $id, input: $input) { id } }";
    let input = json!({ "cronExpression": "@daily", "runKey": "nightly", "enabled": false });
    let id = served.id("trigger");
    let variables = json!({ "id": id, "input": input });
    served.client(Role::Maintainer).data(query, variables).await;
    let row = &rows(&served, id).await[0];
    let shown =
        |state: &Value| ["cronExpression", "runKey", "enabled"].map(|field| state[field].clone());
    let old = [json!("*/30 * * * * *"), json!("daily-report"), json!(true)];
    assert_eq!(shown(&row["before"]), old);
    assert_eq!(shown(&row["after"]), [json!("@daily"), json!("nightly"), json!(false)]);
    assert_eq!(row["projectId"], served.id("project"));
    assert_eq!(row["applicationId"], served.id("application"));
}

#[tokio::test]
async fn a_deleted_trigger_can_be_made_again_from_its_row() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let fields = "name description runKey cronExpression timeZone enabled catchUp";
    let create = format!(
        "mutation($input: CreateTriggerInput!) {{ createTrigger(input: $input) {{ id {fields} }} }}"
    );
    let input = json!({
        "applicationId": served.id("application"), "name": "Nightly", "description": "Two\nlines",
        "runKey": "nightly", "cronExpression": "0 30 2 * * *", "timeZone": "Europe/Berlin",
        "enabled": true, "catchUp": "LAST",
    });
    let mut made = maintainer.data(&create, json!({ "input": input })).await;
    let id = made["createTrigger"]["id"].take();
    let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { id } }";
    maintainer.data(delete, json!({ "id": id })).await;
    let row = rows(&served, id.as_str().unwrap()).await.remove(0);
    assert_eq!(row["action"], "trigger.delete");
    let mut input = json!({ "applicationId": row["before"]["applicationId"] });
    for field in fields.split(' ') {
        input[field] = row["before"][field].clone();
    }
    // An enum's names are in upper case in the API.
    input["catchUp"] = json!(input["catchUp"].as_str().unwrap().to_uppercase());
    let mut again = maintainer.data(&create, json!({ "input": input })).await;
    again["createTrigger"]["id"].take();
    assert_eq!(again, made);
}

#[tokio::test]
async fn a_row_shows_how_much_open_work_was_cancelled_with_a_trigger() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let id = served.id("trigger");
    let disable = "mutation($id: ID!) { updateTrigger(id: $id, input: { enabled: false }) { id } }";
    maintainer.data(disable, json!({ "id": id })).await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    maintainer.data(run, json!({ "id": id })).await;
    // It was disabled before, so nothing else of it changes.
    maintainer.data(disable, json!({ "id": id })).await;
    let row = &rows(&served, id).await[0];
    assert_eq!(
        (&row["before"]["enabled"], &row["after"]["enabled"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(row["after"]["cancelledOccurrences"], 1, "{row}");
    maintainer.data(run, json!({ "id": id })).await;
    let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { id } }";
    maintainer.data(delete, json!({ "id": id })).await;
    let row = &rows(&served, id).await[0];
    assert_eq!(row["before"]["cancelledOccurrences"], 1, "{row}");
}

#[tokio::test]
async fn a_row_shows_how_much_open_work_was_cancelled_with_a_backend() {
    let served = Served::new().await;
    let maintainer = served.client(Role::Maintainer);
    let id = served.id("backend");
    let backend = id.parse::<uuid::Uuid>().unwrap().into();
    served.test.heartbeat(&[backend]).await;
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
    maintainer.data(run, json!({ "id": served.id("trigger") })).await;
    let open = "query($id: ID!) { deliveries(filter: { backendId: $id, statuses: [PENDING] }) {
        totalCount } }";
    let open = maintainer.data(open, json!({ "id": id })).await["deliveries"]["totalCount"].clone();
    assert!(open.as_u64().unwrap() > 0, "{open}");
    let delete = "mutation($id: ID!) { deleteBackend(id: $id) { id } }";
    maintainer.data(delete, json!({ "id": id })).await;
    let row = &rows(&served, id).await[0];
    assert_eq!(row["before"]["cancelledActions"], open, "{row}");
}
