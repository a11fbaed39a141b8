//! What documents answer.

use super::*;

#[tokio::test]
async fn a_schedule_is_previewed_without_credentials() {
    let server = Server::new().await;
    let answer = server
        .anonymous(
            "{ cronPreview(expression: \"0 0 9 * * 1-5\", timeZone: \"Europe/Amsterdam\",
                after: \"2026-03-27T12:00:00+01:00\", count: 2)
            { description timeZone occurrences { at local offset } error { code } } }",
        )
        .await;
    let preview = &answer.json()["data"]["cronPreview"];
    assert_eq!(preview["timeZone"], "Europe/Amsterdam");
    assert_eq!(preview["error"], Value::Null);
    let due = json!({
        "at": "2026-03-30T07:00:00Z", "local": "2026-03-30T09:00:00", "offset": "+02:00",
    });
    assert_eq!(preview["occurrences"][0], due);
    assert_eq!(preview["occurrences"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_schedule_that_would_be_refused_is_no_error_of_the_query() {
    let server = Server::new().await;
    let answer = server
        .anonymous(
            "{ cronPreview(expression: \"0 0 * * *\") {
                description occurrences { at } error { code message field }
            } }",
        )
        .await
        .json();
    assert!(answer["errors"].is_null(), "{answer}");
    let preview = &answer["data"]["cronPreview"];
    assert_eq!(preview["error"]["code"], "CRON_FIELD_COUNT");
    assert_eq!(preview["error"]["field"], "cronExpression");
    assert_eq!(preview["description"], Value::Null);
}

#[tokio::test]
async fn a_trigger_is_made_changed_run_and_deleted() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let id = server.trigger(&application, "Nightly").await;
    let changed = server
        .data(
            "mutation($id: ID!) {
                updateTrigger(id: $id, input: { timeZone: \"UTC\", catchUp: LAST }) {
                    name timeZone effectiveTimeZone catchUp enabled nextRunAt scheduleDescription
                    lastOccurrence { id } application { id project { slug } }
                }
            }",
            json!({ "id": id }),
        )
        .await;
    assert_eq!(
        changed["updateTrigger"],
        json!({
            "name": "Nightly", "timeZone": "UTC", "effectiveTimeZone": "UTC", "catchUp": "LAST",
            "enabled": true, "nextRunAt": "2026-03-01T13:00:00Z", "lastOccurrence": null,
            "scheduleDescription": changed["updateTrigger"]["scheduleDescription"],
            "application": { "id": application, "project": { "slug": "p" } },
        })
    );
    let run = "mutation($id: ID!) { runTrigger(id: $id) {
        id status origin runs deliveryCount deliveries { id } payload { runKey executedAt }
    } }";
    let ran = server.data(run, json!({ "id": id })).await;
    assert_eq!(ran["runTrigger"]["status"], "PENDING");
    assert_eq!(ran["runTrigger"]["origin"], "MANUAL");
    assert_eq!(ran["runTrigger"]["runs"], 1);
    assert_eq!(ran["runTrigger"]["payload"]["executedAt"], "2026-03-01T12:00:00.001Z");
    let back = server
        .data(
            "mutation($id: ID!) { updateTrigger(id: $id, input: { timeZone: null }) {
                timeZone effectiveTimeZone lastOccurrence { id }
            } }",
            json!({ "id": id }),
        )
        .await;
    assert_eq!(back["updateTrigger"]["timeZone"], Value::Null);
    assert_eq!(back["updateTrigger"]["effectiveTimeZone"], "Europe/Amsterdam");
    assert_eq!(back["updateTrigger"]["lastOccurrence"]["id"], ran["runTrigger"]["id"]);
    let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { id name } }";
    let deleted = server.data(delete, json!({ "id": id })).await;
    assert_eq!(deleted["deleteTrigger"], json!({ "id": id, "name": "Nightly" }));
    let left = server
        .data("{ occurrences { nodes { status reason trigger { id } triggerId } } }", Value::Null)
        .await;
    let left = &left["occurrences"]["nodes"][0];
    assert_eq!(left["status"], "CANCELLED");
    assert_eq!(left["trigger"], Value::Null);
    assert_eq!(left["triggerId"], id.as_str());
}

#[tokio::test]
async fn lists_are_paged_in_both_directions() {
    let server = Server::new().await;
    let application = server.application("p").await;
    for name in ["c", "a", "b"] {
        server.trigger(&application, name).await;
    }
    let query =
        "query($application: ID!, $first: Int, $after: String, $last: Int, $before: String) {
        triggers(applicationId: $application, first: $first, after: $after, last: $last,
            before: $before, order: { field: NAME, direction: DESC }) {
            nodes { name } edges { cursor node { name } } totalCount
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        }
    }";
    let page = async |mut variables: Value| {
        variables["application"] = application.as_str().into();
        server.data(query, variables).await["triggers"].clone()
    };
    let first = page(json!({ "first": 2 })).await;
    assert_eq!(first["nodes"], json!([{ "name": "c" }, { "name": "b" }]));
    assert_eq!(first["totalCount"], 3);
    assert_eq!(first["pageInfo"]["hasNextPage"], true);
    assert_eq!(first["pageInfo"]["endCursor"], first["edges"][1]["cursor"]);
    let second = page(json!({ "first": 2, "after": first["pageInfo"]["endCursor"] })).await;
    assert_eq!(second["nodes"], json!([{ "name": "a" }]));
    assert_eq!(second["pageInfo"]["hasNextPage"], false);
    assert_eq!(second["pageInfo"]["hasPreviousPage"], true);
    let before = second["pageInfo"]["startCursor"].clone();
    let back = page(json!({ "last": 1, "before": before })).await;
    assert_eq!(back["nodes"], json!([{ "name": "b" }]));
    let wrong = server.ask(query, json!({ "application": application, "first": -1 })).await;
    assert_eq!(wrong.code(), "INVALID");
    assert_eq!(wrong.json()["errors"][0]["extensions"]["field"], "first");
}

#[tokio::test]
async fn a_list_is_counted_only_when_its_count_is_asked_for() {
    let server = Server::new().await;
    server.application("p").await;
    let statements = async |query: &str| {
        server.data(query, Value::Null).await;
        let before = server.app.store.traffic().statements();
        server.data(query, Value::Null).await;
        server.app.store.traffic().statements() - before
    };
    let plain = statements("{ projects { nodes { id } } }").await;
    let counted =
        statements("{ projects { ...P } } fragment P on ProjectConnection { totalCount }");
    assert_eq!(counted.await, plain + 1);
}

#[tokio::test]
async fn nested_fields_cost_one_query_a_level() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let query = "{ triggers { nodes { name application { name project { slug } }
        lastOccurrence { deliveries { attempts { number } backend { name } } trigger { id } }
    } } }";
    let mut statements = Vec::new();
    for round in 0..2 {
        for n in 0..5 {
            let id = server.trigger(&application, &format!("t{round}{n}")).await;
            let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
            server.data(run, json!({ "id": id })).await;
        }
        let mut fewest = u64::MAX;
        // Where two levels are loaded beside each other, answers that come apart on a busy machine part
        // what hangs on them; a statement a row would be there each time.
        for _ in 0..3 {
            let before = server.app.store.traffic().statements();
            let data = server.data(query, Value::Null).await;
            assert_eq!(data["triggers"]["nodes"].as_array().unwrap().len(), (round + 1) * 5);
            fewest = fewest.min(server.app.store.traffic().statements() - before);
        }
        statements.push(fewest);
    }
    assert_eq!(statements[0], statements[1]);
}

#[tokio::test]
async fn what_one_may_not_see_reads_like_what_does_not_exist() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let id = server.trigger(&application, "Secret").await;
    let stranger = server.stranger().await;
    let query = "query($id: ID!) { trigger(id: $id) { name } }";
    let hidden = server.ask_as(&stranger, query, json!({ "id": id })).await;
    let missing = "0198f5a0-0000-7000-8000-000000000000";
    let missing = server.ask_as(&stranger, query, json!({ "id": missing })).await;
    let nonsense = server.ask_as(&stranger, query, json!({ "id": "nonsense" })).await;
    assert_eq!(hidden.text, missing.text);
    assert_eq!(hidden.text, nonsense.text);
    assert_eq!(hidden.code(), "NOT_FOUND");
    assert_eq!(hidden.json()["data"], json!({ "trigger": null }));
    let lists =
        "{ triggers { nodes { id } } projects { nodes { id } } applications { nodes { id } }
        occurrences { nodes { id } } deliveries { nodes { id } } backends { nodes { id } }
        auditLogs { nodes { id } } }";
    let lists = server.ask_as(&stranger, lists, Value::Null).await.json();
    for (name, list) in lists["data"].as_object().unwrap() {
        assert_eq!(list["nodes"], json!([]), "{name}");
    }
}

#[tokio::test]
async fn changes_stand_in_the_audit_log_with_the_request_that_made_them() {
    let server = Server::new().await;
    let body = json!({ "query": "mutation { createProject(input: { slug: \"p\", name: \"P\" }) { id } }" });
    let bearer = server.bearer();
    let headers = [("authorization", bearer.as_str()), ("x-request-id", "abc-1")];
    server.post(body.to_string(), &headers).await;
    let log = server
        .data(
            "{ auditLogs(filter: { action: \"project.create\" }) {
                nodes { action actorType actorName entityType before after requestId }
            } }",
            Value::Null,
        )
        .await;
    let row = &log["auditLogs"]["nodes"][0];
    assert_eq!(row["actorType"], "USER");
    assert_eq!(row["actorName"], "admin@localhost");
    assert_eq!(row["requestId"], "abc-1");
    assert_eq!(row["before"], Value::Null);
    assert_eq!(row["after"]["slug"], "p");
}

#[tokio::test]
async fn a_machine_user_sees_its_application_and_changes_nothing() {
    let server = Server::new().await;
    let application = server.application("p").await;
    server.application("q").await;
    let made = server
        .data(
            "mutation($application: ID!) { createMachineUser(input: {
                applicationId: $application, name: \"M\", environment: \"test\", username: \"m\"
            }) { token machineUser { username tokenPrefix } } }",
            json!({ "application": application }),
        )
        .await;
    let machine = format!("Bearer {}", made["createMachineUser"]["token"].as_str().unwrap());
    let query = "{ applications { nodes { id } } executorStatus { activeTriggers } }";
    let seen = server.ask_as(&machine, query, Value::Null).await.json();
    assert_eq!(seen["data"]["applications"]["nodes"], json!([{ "id": application }]));
    let query = "{ auditLogs { nodes { applicationId } } }";
    let log = server.ask_as(&machine, query, Value::Null).await.json();
    for row in log["data"]["auditLogs"]["nodes"].as_array().unwrap() {
        assert_eq!(row["applicationId"], application.as_str());
    }
    let change = "mutation($application: ID!) { createTrigger(input: {
        applicationId: $application, name: \"T\", runKey: \"k\", cronExpression: \"@daily\"
    }) { id } }";
    let refused = server.ask_as(&machine, change, json!({ "application": application })).await;
    assert_eq!(refused.code(), "FORBIDDEN");
}

#[tokio::test]
async fn only_an_ended_delivery_is_retried() {
    let server = Server::new().await;
    let answer = server
        .ask(
            "mutation { retryDelivery(id: \"0198f5a0-0000-7000-8000-000000000000\") { id } }",
            Value::Null,
        )
        .await;
    assert_eq!(answer.code(), "NOT_FOUND");
    assert_eq!(answer.json()["errors"][0]["message"], "delivery not found");
}

#[tokio::test]
async fn the_executors_are_told_of_to_anyone_who_is_signed_in() {
    let server = Server::new().await;
    let query = "{ executorStatus {
        executors { id host processId version startedAt lastPassAt inFlight clockSkewMs alive }
        activeTriggers waiting { applicationId count } nextDueAt timeZone timeZoneDataVersion
    } }";
    let application = server.application("p").await;
    server.trigger(&application, "T").await;
    let stranger = server.stranger().await;
    let answer = server.ask_as(&stranger, query, Value::Null).await.json();
    let status = &answer["data"]["executorStatus"];
    assert_eq!(status["activeTriggers"], 1);
    assert_eq!(status["timeZone"], "Europe/Amsterdam");
    assert_eq!(status["nextDueAt"], "2026-03-01T13:00:00Z");
    assert_eq!(server.anonymous(query).await.code(), "UNAUTHENTICATED");
}
