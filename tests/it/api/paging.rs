//! Pages of a list, over HTTP.

use serde_json::{Value, json};

use crate::served::{Role, Served};

const PAGE: &str = "query($first: Int, $after: String, $last: Int, $before: String,
        $order: TriggerOrder, $filter: TriggerFilter) {
    triggers(first: $first, after: $after, last: $last, before: $before, order: $order,
            filter: $filter) {
        totalCount nodes { name } edges { cursor }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }";

async fn page(served: &Served, variables: Value) -> Value {
    served.client(Role::Member).data(PAGE, variables).await["triggers"].take()
}

fn names(page: &Value) -> Vec<&str> {
    page["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

async fn with_triggers() -> Served {
    let served = Served::new().await;
    let create = "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
    for name in ["delta", "Alpha", "charlie", "bravo"] {
        let input = json!({
            "applicationId": served.id("application"), "name": name, "runKey": "extra",
            "cronExpression": "@daily",
        });
        served.client(Role::Maintainer).data(create, json!({ "input": input })).await;
    }
    served
}

#[tokio::test]
async fn pages_walk_a_list_forwards_and_backwards_without_gap_or_repeat() {
    let served = with_triggers().await;
    let all = page(&served, json!({})).await;
    assert_eq!(all["totalCount"], 5);
    let (mut forwards, mut after) = (Vec::new(), Value::Null);
    loop {
        let page = page(&served, json!({ "first": 2, "after": after })).await;
        assert_eq!(page["pageInfo"]["hasPreviousPage"].as_bool(), Some(!forwards.is_empty()));
        forwards.extend(names(&page).into_iter().map(str::to_owned));
        after = page["pageInfo"]["endCursor"].clone();
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
    }
    assert_eq!(forwards, names(&all));
    let (mut backwards, mut before) = (Vec::new(), Value::Null);
    loop {
        let page = page(&served, json!({ "last": 2, "before": before })).await;
        let mut names: Vec<_> = names(&page).into_iter().map(str::to_owned).collect();
        names.append(&mut backwards);
        backwards = names;
        before = page["pageInfo"]["startCursor"].clone();
        if page["pageInfo"]["hasPreviousPage"] == false {
            break;
        }
    }
    assert_eq!(backwards, names(&all));
}

#[tokio::test]
async fn a_cursor_holds_when_its_row_is_deleted() {
    let served = with_triggers().await;
    let first = page(&served, json!({ "first": 2 })).await;
    let rest = page(&served, json!({ "after": first["pageInfo"]["endCursor"] })).await;
    let query = "{ triggers(filter: { nameContains: \"delta\" }) { nodes { id } } }";
    let found = served.client(Role::Member).data(query, Value::Null).await;
    let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { name } }";
    let id = json!({ "id": found["triggers"]["nodes"][0]["id"] });
    served.client(Role::Maintainer).data(delete, id).await;
    assert_eq!(names(&first)[1], "delta");
    let again = page(&served, json!({ "after": first["pageInfo"]["endCursor"] })).await;
    assert_eq!(names(&again), names(&rest));
}

#[tokio::test]
async fn filters_and_orders_hold_over_pages() {
    let served = with_triggers().await;
    let order = json!({ "field": "NAME", "direction": "DESC" });
    let filter = json!({ "runKey": "extra", "enabled": false });
    let variables = json!({ "first": 3, "order": order, "filter": filter });
    let first = page(&served, variables.clone()).await;
    assert_eq!(first["totalCount"], 4);
    let mut variables = variables;
    variables["after"] = first["pageInfo"]["endCursor"].clone();
    let second = page(&served, variables).await;
    let mut all = names(&first);
    all.extend(names(&second));
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| b.cmp(a));
    assert_eq!(all, sorted);
    assert_eq!(all.len(), 4);
}

#[tokio::test]
async fn a_page_that_can_not_be_is_refused_with_its_field() {
    let served = Served::new().await;
    for (variables, field) in [
        (json!({ "first": 0 }), "first"),
        (json!({ "first": 201 }), "first"),
        (json!({ "last": 201 }), "last"),
        (json!({ "after": "nonsense" }), "after"),
        (json!({ "first": 1, "before": "%%%" }), "before"),
    ] {
        let answer = served.client(Role::Member).graphql(PAGE, variables).await;
        let error = answer.json()["errors"][0].take();
        assert_eq!(error["extensions"]["field"], field, "{error}");
        assert_eq!(error["extensions"]["code"], "INVALID", "{error}");
    }
}
