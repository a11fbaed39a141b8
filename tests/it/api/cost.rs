//! What a list with all that its rows belong to costs the database, counted.

use serde_json::json;

use crate::served::{Role, Served};

const ONCE: &str = "query($id: ID!) { trigger(id: $id) { application { slug
    triggers(first: 1) { nodes { id } } } } }";
const TWICE: &str = "query($id: ID!) { trigger(id: $id) { application { slug
    triggers(first: 1) { nodes { id application { slug } } } } } }";

async fn statements(served: &Served, query: &str) -> u64 {
    let traffic = served.test.app.store.traffic().clone();
    let before = traffic.statements();
    let variables = json!({ "id": served.id("trigger") });
    let found = served.client(Role::Member).data(query, variables).await;
    assert_eq!(found["trigger"]["application"]["slug"], "reports");
    traffic.statements() - before
}

#[tokio::test]
async fn a_list_with_what_its_rows_belong_to_costs_one_statement_a_level() {
    let served = Served::new().await;
    let many = "query($id: ID!) { trigger(id: $id) { application { slug
        triggers(first: 50) { nodes { application { slug project { slug } } } } } } }";
    for n in 0..60 {
        let new = json!({ "applicationId": served.id("application"), "name": format!("t{n}"),
            "runKey": "r", "cronExpression": "@daily" });
        let create =
            "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
        served.client(Role::Maintainer).data(create, json!({ "input": new })).await;
    }
    // The first use of a token is written down.
    statements(&served, many).await;
    assert_eq!(statements(&served, many).await, 5, "sign-in, trigger, application, list, project");
}

#[tokio::test]
async fn what_a_query_has_read_it_does_not_read_again() {
    let served = Served::new().await;
    // The first use of a token is written down.
    statements(&served, ONCE).await;
    let once = statements(&served, ONCE).await;
    assert!(once <= 4, "sign-in, trigger, application, list: {once}");
    assert_eq!(statements(&served, TWICE).await, once);
}

#[tokio::test]
async fn what_a_mutation_answers_is_as_its_last_field_left_it() {
    let served = Served::new().await;
    let rename = "mutation($id: ID!) {
        a: updateApplication(id: $id, input: {name: \"First\"}) { triggers { nodes { application { name } } } }
        b: updateApplication(id: $id, input: {name: \"Second\"}) { triggers { nodes { application { name } } } } }";
    let id = served.id("application");
    let found = served.client(Role::Maintainer).data(rename, json!({ "id": id })).await;
    assert_eq!(found["a"]["triggers"]["nodes"][0]["application"]["name"], "First");
    assert_eq!(found["b"]["triggers"]["nodes"][0]["application"]["name"], "Second");
}
