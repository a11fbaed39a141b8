//! From making a rule to deleting it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trigger_manager::domain::delivery::ActionStatus;

use super::{
    CREATE, DELETE, UPDATE, create, draft, form_sent, maintainer, message, queued, stored,
    try_update, update, with,
};
use crate::served::{Role, Served};

const CATALOG: &str = "{ catalog {
    sources { type description acceptsEvents configSchema payloadSchema }
    actions { type description needsUser configSchema }
    frequencies { frequency name windowSeconds isDefault } } }";

/// A configuration of each source type, as a person may write it and as it is stored.
fn source(served: &Served, kind: &str) -> (Value, Value) {
    let audience = served.id("audience");
    match kind {
        "attribute_changed" => (
            json!({ "attribute": "tier", "operator": "changed_to", "value": "gold" }),
            json!({ "attribute": "tier", "operator": "changed_to", "value": "gold" }),
        ),
        "form_submitted" => (
            json!({ "form_id": 42, "condition": "user.following == true" }),
            json!({ "formId": "42", "condition": "user.following == true" }),
        ),
        "campaign_click" => (json!({ "campaign_id": "c" }), json!({ "campaignId": "c" })),
        "friend_track_event_inserted" => {
            (json!({ "first_only": true }), json!({ "firstOnly": true }))
        }
        "booking_event" => (
            json!({ "status": "booked", "offset": "-1d" }),
            json!({ "status": "booked", "offset": "-1d" }),
        ),
        "schedule" => (
            json!({ "cron_expression": "0 0 9 * * *", "audience_id": audience }),
            json!({ "cronExpression": "0 0 9 * * *", "audienceId": audience }),
        ),
        other => panic!("{other} needs a configuration here"),
    }
}

fn action(served: &Served, kind: &str) -> (Value, Value) {
    let both = |value: Value| (value.clone(), value);
    match kind {
        "send_message" => both(message("Hello {{ user.id }}")),
        "add_to_audience" => (
            json!({ "audience_id": served.id("audience"), "delay": "3d" }),
            json!({ "audienceId": served.id("audience"), "delay": "3d" }),
        ),
        "switch_rich_menu" => both(json!({ "richMenuId": null })),
        "resume_workflow" => both(json!({})),
        "call_backend" => (
            json!({ "application_id": served.id("application"), "run_key": "welcome" }),
            json!({
                "applicationId": served.id("application"), "runKey": "welcome", "payload": {},
            }),
        ),
        other => panic!("{other} needs a configuration here"),
    }
}

#[tokio::test]
async fn each_source_type_goes_with_each_action_type_and_is_stored_in_full() {
    let served = Served::new().await;
    let catalog = served.client(Role::Member).data(CATALOG, Value::Null).await;
    let types = |part: &str| -> Vec<String> {
        let all = catalog["catalog"][part].as_array().unwrap().iter();
        all.map(|kind| kind["type"].as_str().unwrap().to_owned()).collect()
    };
    let (sources, actions) = (types("sources"), types("actions"));
    assert_eq!((sources.len(), actions.len()), (6, 5));
    let mut versions = BTreeSet::new();
    for source_type in &sources {
        for action_type in &actions {
            let (given, kept) = source(&served, source_type);
            let (given_action, kept_action) = action(&served, action_type);
            let what = format!("{source_type} {action_type}");
            let made = create(
                &served,
                json!({
                    "name": what, "sourceType": source_type, "sourceConfig": given,
                    "actionType": action_type, "actionConfig": given_action,
                    "workflowId": served.id("workflow"), "workflowNodePath": "start/1",
                    "enabled": true,
                }),
            )
            .await;
            assert_eq!((&made["sourceConfig"], &made["actionConfig"]), (&kept, &kept_action));
            assert_eq!(made["workflow"]["id"], served.id("workflow"), "{what}");
            assert_eq!(made["enabled"], true);
            let stored = stored(&served, &made["id"]).await;
            assert!(versions.insert(stored.version), "{what}: each change has a count of its own");
            assert_eq!((&stored.source_config, &stored.action_config), (&kept, &kept_action));
        }
    }
    assert_eq!(versions.len(), 30);
}

#[tokio::test]
async fn the_catalog_holds_a_schema_of_each_type_and_all_frequencies() {
    let served = Served::new().await;
    let mut data = served.client(Role::Machine).data(CATALOG, Value::Null).await;
    let catalog = data["catalog"].take();
    for part in ["sources", "actions"] {
        for kind in catalog[part].as_array().unwrap() {
            let (given, _) = match part {
                "sources" => source(&served, kind["type"].as_str().unwrap()),
                _ => action(&served, kind["type"].as_str().unwrap()),
            };
            let properties = kind["configSchema"]["properties"].as_object().unwrap();
            let common = if part == "sources" { "condition" } else { "delay" };
            assert!(properties.contains_key(common), "{kind}");
            for key in given.as_object().unwrap().keys().filter(|key| !key.contains('_')) {
                assert!(properties.contains_key(key), "{key}: {kind}");
            }
            assert!(kind["description"].as_str().unwrap().ends_with('.'), "{kind}");
        }
    }
    let schedule = catalog["sources"].as_array().unwrap().iter();
    let closed: Vec<_> = schedule.filter(|kind| kind["acceptsEvents"] == false).collect();
    assert_eq!((closed.len(), closed[0]["type"].as_str()), (1, Some("schedule")));
    assert!(catalog["sources"][1]["payloadSchema"]["properties"]["formId"].is_object());
    let hourly = json!({
        "frequency": "ONCE_PER_HOUR", "name": "once_per_hour", "windowSeconds": 3600,
        "isDefault": true,
    });
    let frequencies = catalog["frequencies"].as_array().unwrap();
    assert_eq!((frequencies.len(), &frequencies[2]), (6, &hourly));
    assert_eq!(frequencies[1]["windowSeconds"], Value::Null, "once is for ever");
    let refused = served.client(Role::Anonymous).graphql(CATALOG, Value::Null).await;
    assert_eq!(refused.code(), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_new_rule_is_off_and_fires_once_per_hour_unless_said_otherwise() {
    let served = Served::new().await;
    let made = create(&served, json!({})).await;
    assert_eq!(made["enabled"], false);
    assert_eq!(
        (&made["frequency"], &made["cooldownSeconds"]),
        (&json!("ONCE_PER_HOUR"), &json!(0))
    );
    assert_eq!((&made["description"], &made["workflow"]), (&json!(""), &Value::Null));
    assert_eq!((&made["nextFireAt"], &made["scheduleDescription"]), (&Value::Null, &Value::Null));
    assert_eq!(made["lineOa"]["id"], served.id("lineOa"));
    form_sent(&served, "f").await;
    assert!(queued(&served, &made["id"]).await.is_empty(), "it is off");
    let twin = create(&served, json!({})).await;
    assert_ne!(twin["id"], made["id"], "names need not be unique");
}

#[tokio::test]
async fn an_edit_changes_what_it_names_and_nothing_that_is_queued() {
    let served = Served::new().await;
    let action = with(message("Hi"), json!({ "delay": "3d" }));
    let rule = create(
        &served,
        json!({
            "enabled": true, "frequency": "EVERY_TIME", "actionConfig": action, "description": "d",
        }),
    )
    .await;
    let id = &rule["id"];
    form_sent(&served, "f").await;
    let before = queued(&served, id).await;
    assert_eq!(before.len(), 1);
    let version = stored(&served, id).await.version;
    served.test.advance(1);
    let changed = update(
        &served,
        id,
        json!({ "actionConfig": message("Hello"), "sourceConfig": { "form_id": "g" } }),
    )
    .await;
    assert_eq!(changed["actionConfig"], message("Hello"), "the delay is gone with the old one");
    assert_eq!(changed["sourceConfig"], json!({ "formId": "g" }));
    for same in ["name", "description", "frequency", "enabled", "sourceType"] {
        assert_eq!(changed[same], rule[same], "{same}");
    }
    assert_ne!(changed["updatedAt"], rule["updatedAt"]);
    let after = stored(&served, id).await;
    assert!(after.version > version);
    assert_eq!(after.source_key, "g");
    assert_eq!(queued(&served, id).await, before);
    form_sent(&served, "f").await;
    assert_eq!(queued(&served, id).await.len(), 1, "it waits for another form now");
}

#[tokio::test]
async fn disabling_cancels_what_is_queued_and_enabling_brings_none_of_it_back() {
    let served = Served::new().await;
    let action = with(message("Hi"), json!({ "delay": "3d" }));
    let rule = create(
        &served,
        json!({ "enabled": true, "frequency": "EVERY_TIME", "actionConfig": action }),
    )
    .await;
    let id = &rule["id"];
    form_sent(&served, "f").await;
    assert_eq!(update(&served, id, json!({ "enabled": false })).await["enabled"], false);
    let cancelled = queued(&served, id).await;
    assert_eq!(cancelled[0].status, ActionStatus::Cancelled);
    assert_eq!(cancelled[0].last_error.as_deref(), Some("rule_disabled"));
    let log = "query($id: ID!) { auditLogs(filter: { entityId: $id }, first: 1) {
        nodes { action before after projectId applicationId } } }";
    let log = served.administrator().data(log, json!({ "id": id })).await;
    let row = &log["auditLogs"]["nodes"][0];
    assert_eq!(
        (&row["action"], &row["projectId"]),
        (&json!("trigger_rule.update"), &json!(served.id("project")))
    );
    assert_eq!(
        (&row["before"]["enabled"], &row["after"]["enabled"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(row["before"]["actionConfig"], action);
    assert_eq!(row["after"]["cancelledActions"], 1);
    update(&served, id, json!({ "enabled": true })).await;
    assert_eq!(queued(&served, id).await, cancelled);
    form_sent(&served, "f").await;
    assert_eq!(queued(&served, id).await.len(), 2);
}

#[tokio::test]
async fn a_deleted_rule_is_not_found_not_listed_and_never_fires_and_history_still_names_it() {
    let served = Served::new().await;
    let action = with(message("Hi"), json!({ "delay": "3d" }));
    let rule = create(
        &served,
        json!({ "enabled": true, "frequency": "EVERY_TIME", "actionConfig": action }),
    )
    .await;
    let id = &rule["id"];
    form_sent(&served, "f").await;
    let version = stored(&served, id).await.version;
    let deleted = maintainer(&served).data(DELETE, json!({ "id": id })).await;
    assert!(deleted["deleteTriggerRule"]["deletedAt"].is_string());
    let actions = queued(&served, id).await;
    assert_eq!(actions[0].status, ActionStatus::Cancelled);
    assert_eq!(actions[0].last_error.as_deref(), Some("rule_deleted"));
    form_sent(&served, "f").await;
    assert_eq!(queued(&served, id).await.len(), 1);
    let find = "query($id: ID!) { triggerRule(id: $id) { id } }";
    for (query, input) in [(find, None), (UPDATE, Some(json!({ "name": "n" }))), (DELETE, None)] {
        let variables = match input {
            Some(input) => json!({ "id": id, "input": input }),
            None => json!({ "id": id }),
        };
        assert_eq!(maintainer(&served).graphql(query, variables).await.code(), "NOT_FOUND");
    }
    let list = "{ triggerRules { nodes { id } } }";
    let listed = maintainer(&served).data(list, Value::Null).await.to_string();
    assert!(!listed.contains(id.as_str().unwrap()) && listed.contains(served.id("triggerRule")));
    let kept = stored(&served, id).await;
    assert!(kept.version > version && kept.deleted_date.is_some());
}

#[tokio::test]
async fn a_rule_whose_audience_is_gone_can_be_renamed_and_disabled_and_not_enabled() {
    let served = Served::new().await;
    let config = json!({ "audienceId": served.id("audience") });
    let rule = create(
        &served,
        json!({ "enabled": true, "actionType": "add_to_audience", "actionConfig": config }),
    )
    .await;
    let delete = "mutation($id: ID!) { deleteAudience(id: $id) { id } }";
    maintainer(&served).data(delete, json!({ "id": served.id("audience") })).await;
    let id = &rule["id"];
    assert_eq!(update(&served, id, json!({ "name": "Renamed" })).await["name"], "Renamed");
    update(&served, id, json!({ "enabled": false })).await;
    let refused = try_update(&served, id, json!({ "enabled": true })).await;
    let error = &refused.json()["errors"][0];
    assert_eq!(error["extensions"]["field"], "actionConfig.audienceId", "{error}");
}

#[tokio::test]
async fn rules_are_found_by_what_they_are() {
    let served = Served::new().await;
    create(&served, json!({ "name": "bravo", "enabled": true })).await;
    create(
        &served,
        json!({
            "name": "Alpha", "sourceType": "friend_track_event_inserted",
            "actionType": "switch_rich_menu", "actionConfig": { "richMenuId": null },
        }),
    )
    .await;
    let query = "query($id: ID!, $filter: TriggerRuleFilter) {
        lineOa(id: $id) { triggerRules(filter: $filter, order: { field: NAME, direction: ASC }) {
            totalCount nodes { name } } } }";
    let names = async |filter: Value| {
        let variables = json!({ "id": served.id("lineOa"), "filter": filter });
        let data = served.client(Role::Member).data(query, variables).await;
        let nodes = data["lineOa"]["triggerRules"]["nodes"].as_array().unwrap().iter();
        let names = nodes.map(|node| node["name"].as_str().unwrap().to_owned());
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(names(json!({})).await, ["Alpha", "Greets who answers", "Resume", "bravo"]);
    assert_eq!(names(json!({ "enabled": false })).await, ["Alpha", "Greets who answers"]);
    assert_eq!(names(json!({ "sourceType": "friend_track_event_inserted" })).await, ["Alpha"]);
    assert_eq!(names(json!({ "actionType": "send_message" })).await, ["bravo"]);
    assert_eq!(names(json!({ "workflowId": served.id("workflow") })).await, ["Resume"]);
    assert_eq!(names(json!({ "nameContains": "ALP" })).await, ["Alpha"]);
    let of_workflow = "query($id: ID!, $other: ID!) { workflow(id: $id) {
        all: triggerRules { nodes { name } }
        none: triggerRules(filter: { workflowId: $other }) { nodes { name } } } }";
    let variables = json!({ "id": served.id("workflow"), "other": served.id("project") });
    let data = served.client(Role::Member).data(of_workflow, variables.clone()).await;
    assert_eq!(data["workflow"]["all"]["nodes"], json!([{ "name": "Resume" }]));
    assert_eq!(data["workflow"]["none"]["nodes"], json!([]));
    let machine = served.client(Role::Machine).data(of_workflow, variables).await;
    assert_eq!(machine["workflow"]["all"]["nodes"], json!([]), "machines see no rules");
}

#[tokio::test]
async fn changes_at_once_are_all_kept_each_with_a_count_of_its_own() {
    let served = Served::new().await;
    let rule = create(&served, json!({})).await;
    let (one, two) = (json!({ "name": "One" }), json!({ "description": "Two" }));
    let (three, four) = (json!({ "cooldownSeconds": 3 }), json!({ "enabled": true }));
    let id = &rule["id"];
    let input = json!({ "input": draft(&served) });
    let answers = tokio::join!(
        try_update(&served, id, one),
        try_update(&served, id, two),
        try_update(&served, id, three),
        try_update(&served, id, four),
        maintainer(&served).graphql(CREATE, input.clone()),
        maintainer(&served).graphql(CREATE, input),
    );
    let updates = [answers.0, answers.1, answers.2, answers.3];
    assert!(updates.iter().all(|answer| answer.code().is_empty()), "{updates:?}");
    let after = stored(&served, id).await;
    assert_eq!((after.name.as_str(), after.description.as_str()), ("One", "Two"));
    assert_eq!((after.cooldown_seconds, after.enabled), (3, true));
    let made = [answers.4.data(), answers.5.data()];
    let mut versions = BTreeSet::from([after.version]);
    for made in made {
        versions.insert(stored(&served, &made["createTriggerRule"]["id"]).await.version);
    }
    assert_eq!(versions.len(), 3);
}
