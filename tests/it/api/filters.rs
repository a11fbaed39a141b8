//! What lists are asked by: ids, types, and conditions that come twice.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::served::{Role, Served};

/// A list with an argument or a condition that is an id, `$`, and the name of that.
const BY_ID: &[(&str, &str)] = &[
    ("applications(projectId: $)", "projectId"),
    ("lineOas(projectId: $)", "projectId"),
    ("triggers(applicationId: $)", "applicationId"),
    ("backends(applicationId: $)", "applicationId"),
    ("tenants(applicationId: $)", "applicationId"),
    ("machineUsers(applicationId: $)", "applicationId"),
    ("workflows(applicationId: $)", "applicationId"),
    ("events(lineOaId: $)", "lineOaId"),
    ("audiences(lineOaId: $)", "lineOaId"),
    ("lineUsers(lineOaId: $)", "lineOaId"),
    ("lineUsers(lineOaId: \"@\", filter: { audienceId: $ })", "audienceId"),
    ("triggerRules(lineOaId: $)", "lineOaId"),
    ("triggerRules(filter: { workflowId: $ })", "workflowId"),
    ("occurrences(applicationId: $)", "applicationId"),
    ("occurrences(triggerId: $)", "triggerId"),
    ("occurrences(filter: { applicationId: $ })", "applicationId"),
    ("occurrences(filter: { triggerId: $ })", "triggerId"),
    ("occurrences(triggerId: \"@\", filter: { triggerId: $ })", "triggerId"),
    ("deliveries(applicationId: $)", "applicationId"),
    ("deliveries(occurrenceId: $)", "occurrenceId"),
    ("deliveries(filter: { applicationId: $ })", "applicationId"),
    ("deliveries(filter: { occurrenceId: $ })", "occurrenceId"),
    ("deliveries(filter: { triggerId: $ })", "triggerId"),
    ("deliveries(filter: { backendId: $ })", "backendId"),
    ("scheduledActions(filter: { lineOaId: $ })", "lineOaId"),
    ("scheduledActions(filter: { triggerRuleId: $ })", "triggerRuleId"),
    ("scheduledActions(filter: { eventId: $ })", "eventId"),
    ("scheduledActions(filter: { workflowId: $ })", "workflowId"),
    ("scheduledActions(filter: { applicationId: $ })", "applicationId"),
    ("scheduledTriggerExecutions(filter: { lineOaId: $ })", "lineOaId"),
    ("scheduledTriggerExecutions(filter: { triggerRuleId: $ })", "triggerRuleId"),
    ("triggerLogs(filter: { lineOaId: $ })", "lineOaId"),
    ("triggerLogs(filter: { triggerRuleId: $ })", "triggerRuleId"),
    ("triggerLogs(filter: { eventId: $ })", "eventId"),
    ("triggerLogs(filter: { scheduledActionId: $ })", "scheduledActionId"),
    ("auditLogs(filter: { projectId: $ })", "projectId"),
    ("auditLogs(filter: { applicationId: $ })", "applicationId"),
    ("auditLogs(filter: { entityId: $ })", "entityId"),
    ("auditLogs(filter: { actorId: $ })", "actorId"),
];

async fn asked(served: &Served, list: &str, id: &str) -> Answer {
    let list = list.replace('$', &format!("\"{id}\"")).replace('@', &Uuid::now_v7().to_string());
    let query = format!("{{ {list} {{ totalCount nodes {{ __typename }} }} }}");
    served.administrator().graphql(&query, Value::Null).await
}

#[tokio::test]
async fn a_list_by_an_id_that_nothing_has_is_empty_and_by_what_is_no_id_it_is_refused() {
    let served = Served::new().await;
    for (list, field) in BY_ID {
        let empty = asked(&served, list, &Uuid::now_v7().to_string()).await.data();
        let (_, empty) = empty.as_object().unwrap().iter().next().unwrap();
        assert_eq!(*empty, json!({ "totalCount": 0, "nodes": [] }), "{list}");
        let refused = asked(&served, list, "nope").await;
        let error = refused.json()["errors"][0].take();
        let extensions = json!({ "code": "INVALID", "field": field });
        assert_eq!(error["extensions"], extensions, "{list}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field} must be an id such as 0")), "{message}");
        assert!(message.ends_with("`nope` is not"), "{message}");
    }
}

#[tokio::test]
async fn an_argument_and_a_condition_must_both_hold() {
    let served = Served::new().await;
    let pairs = [
        ("occurrences", "applicationId", "application"),
        ("occurrences", "triggerId", "trigger"),
        ("deliveries", "applicationId", "application"),
        ("deliveries", "occurrenceId", "occurrence"),
    ];
    let other = Uuid::now_v7().to_string();
    for (list, name, of) in pairs {
        let own = served.id(of);
        let count = async |role: Role, arguments: String| {
            let query = format!("{{ {list}({arguments}) {{ totalCount }} }}");
            served.client(role).graphql(&query, Value::Null).await
        };
        let found = async |argument: &str, condition: &str| {
            let both = format!("{name}: \"{argument}\", filter: {{ {name}: \"{condition}\" }}");
            count(Role::Member, both).await.data()[list]["totalCount"].as_u64().unwrap()
        };
        let alone = count(Role::Member, format!("{name}: \"{own}\"")).await.data();
        let alone = alone[list]["totalCount"].as_u64().unwrap();
        assert!(alone > 0, "{list} {name}");
        assert_eq!(found(own, own).await, alone, "{list} {name}");
        assert_eq!(found(own, &other).await, 0, "{list} {name}");
        assert_eq!(found(&other, own).await, 0, "{list} {name}");
        let nobody = format!("{name}: \"{own}\", filter: {{ {name}: \"{other}\" }}");
        assert_eq!(count(Role::Anonymous, nobody).await.code(), "UNAUTHENTICATED", "{list} {name}");
    }
}

#[tokio::test]
async fn a_type_that_there_is_not_is_refused_in_a_filter_as_in_a_rule() {
    let served = Served::new().await;
    let line_oa = served.id("lineOa");
    for (list, condition, code, known) in [
        ("triggerRules(", "sourceType", "UNKNOWN_SOURCE_TYPE", "form_submitted"),
        ("triggerRules(", "actionType", "UNKNOWN_ACTION_TYPE", "send_message"),
        ("scheduledActions(", "actionType", "UNKNOWN_ACTION_TYPE", "send_message"),
        (
            &format!("events(lineOaId: \"{line_oa}\", "),
            "type",
            "UNKNOWN_EVENT_TYPE",
            "form_submitted",
        ),
    ] {
        let query = format!(
            "query($type: String) {{ {list}filter: {{ {condition}: $type }}) {{ totalCount }} }}"
        );
        let client = served.client(Role::Member);
        let answer = client.graphql(&query, json!({ "type": "tea" })).await;
        let error = answer.json()["errors"][0].take();
        assert_eq!(error["extensions"], json!({ "code": code, "field": condition }), "{error}");
        assert!(error["message"].as_str().unwrap().contains(known), "{error}");
        client.data(&query, json!({ "type": known })).await;
    }
}

#[tokio::test]
async fn a_delivery_that_there_is_not_is_called_a_delivery() {
    let served = Served::new().await;
    for id in [Uuid::now_v7().to_string(), "nope".to_owned()] {
        for query in [
            "query($id: ID!) { delivery(id: $id) { id } }",
            "mutation($id: ID!) { retryDelivery(id: $id) { id } }",
        ] {
            let answer = served.client(Role::Owner).graphql(query, json!({ "id": id })).await;
            let error = answer.json()["errors"][0].take();
            assert_eq!(error["extensions"]["code"], "NOT_FOUND", "{error}");
            assert_eq!(error["message"], "delivery not found");
        }
    }
}
