//! What one may not see does not exist: every question that names a thing of others is answered
//! byte for byte as if it named nothing, no list leads to it, and no secret is ever shown.

mod secrets;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::introspect::{Schema, nested};
use crate::served::{LINE_USER, Role, Served};

/// Of a document, in bytes.
const DOCUMENT_MAX: usize = 65_536;

/// Whoever is outside of the application.
const STRANGERS: &[Role] = &[Role::Outsider, Role::Sibling];
/// The application's project is known to its machine users, whichever they are.
const OUTSIDER: &[Role] = &[Role::Outsider];

/// Of LINE OAs, no machine user knows anything.
const MACHINES_TOO: &[Role] = &[Role::Outsider, Role::Sibling, Role::Machine];

/// Each argument of a query that takes an id, a thing of others, and from whom it is hidden.
const QUESTIONS: &[(&str, &str, &[Role])] = &[
    ("user.id", "owner", STRANGERS),
    ("project.id", "project", OUTSIDER),
    ("application.id", "application", STRANGERS),
    ("applications.projectId", "project", OUTSIDER),
    ("tenant.id", "tenant", STRANGERS),
    ("tenants.applicationId", "application", STRANGERS),
    ("machineUser.id", "machineUser", STRANGERS),
    ("machineUsers.applicationId", "application", STRANGERS),
    ("trigger.id", "trigger", STRANGERS),
    ("triggers.applicationId", "application", STRANGERS),
    ("occurrence.id", "occurrence", STRANGERS),
    ("occurrences.applicationId", "application", STRANGERS),
    ("occurrences.triggerId", "trigger", STRANGERS),
    ("occurrences.filter.applicationId", "application", STRANGERS),
    ("occurrences.filter.triggerId", "trigger", STRANGERS),
    ("delivery.id", "delivery", STRANGERS),
    ("deliveries.applicationId", "application", STRANGERS),
    ("deliveries.occurrenceId", "occurrence", STRANGERS),
    ("deliveries.filter.applicationId", "application", STRANGERS),
    ("deliveries.filter.occurrenceId", "occurrence", STRANGERS),
    ("deliveries.filter.triggerId", "trigger", STRANGERS),
    ("deliveries.filter.backendId", "backend", STRANGERS),
    ("backend.id", "backend", STRANGERS),
    ("backends.applicationId", "application", STRANGERS),
    ("lineOa.id", "lineOa", MACHINES_TOO),
    ("lineOas.projectId", "project", MACHINES_TOO),
    ("lineUser.lineOaId", "lineOa", MACHINES_TOO),
    ("lineUsers.lineOaId", "lineOa", MACHINES_TOO),
    ("lineUsers.filter.audienceId", "audience", MACHINES_TOO),
    ("audience.id", "audience", MACHINES_TOO),
    ("audiences.lineOaId", "lineOa", MACHINES_TOO),
    ("workflow.id", "workflow", STRANGERS),
    ("workflows.applicationId", "application", STRANGERS),
    ("triggerRule.id", "triggerRule", MACHINES_TOO),
    ("triggerRules.lineOaId", "lineOa", MACHINES_TOO),
    ("triggerRules.filter.workflowId", "workflow", MACHINES_TOO),
    ("testTriggerRule.id", "triggerRule", MACHINES_TOO),
    ("testTriggerRule.input.lineOaId", "lineOa", MACHINES_TOO),
    ("testTriggerRule.input.workflowId", "workflow", MACHINES_TOO),
    ("event.id", "event", MACHINES_TOO),
    ("events.lineOaId", "lineOa", MACHINES_TOO),
    ("scheduledAction.id", "waitingAction", STRANGERS),
    ("scheduledActions.filter.lineOaId", "lineOa", STRANGERS),
    ("scheduledActions.filter.triggerRuleId", "rule", STRANGERS),
    ("scheduledActions.filter.eventId", "event", STRANGERS),
    ("scheduledActions.filter.workflowId", "workflow", STRANGERS),
    ("scheduledActions.filter.applicationId", "application", STRANGERS),
    ("scheduledTriggerExecution.id", "execution", MACHINES_TOO),
    ("scheduledTriggerExecutions.filter.lineOaId", "lineOa", MACHINES_TOO),
    ("scheduledTriggerExecutions.filter.triggerRuleId", "rule", MACHINES_TOO),
    ("triggerLogs.filter.lineOaId", "lineOa", STRANGERS),
    ("triggerLogs.filter.triggerRuleId", "rule", STRANGERS),
    ("triggerLogs.filter.eventId", "event", STRANGERS),
    ("triggerLogs.filter.scheduledActionId", "waitingAction", STRANGERS),
    ("auditLogs.filter.projectId", "project", OUTSIDER),
    ("auditLogs.filter.applicationId", "application", STRANGERS),
    ("auditLogs.filter.entityId", "trigger", STRANGERS),
    ("auditLogs.filter.actorId", "owner", STRANGERS),
];

/// What only the insiders of the application may come to know.
const INSIDE: &[&str] = &[
    "application",
    "trigger",
    "backend",
    "failingBackend",
    "tenant",
    "machineUser",
    "anotherMachineUser",
    "occurrence",
    "delivery",
    "failedDelivery",
    "lineOa",
    "audience",
    "workflow",
    "triggerRule",
    "rule",
    "event",
    "execution",
    "waitingAction",
    "cancelledAction",
];

/// What a question needs beside the argument that it is about.
fn beside(served: &Served, path: &str) -> Value {
    match path {
        "lineUser.lineOaId" => json!({ "userId": LINE_USER }),
        "lineUsers.filter.audienceId" => json!({ "lineOaId": served.id("lineOa") }),
        "testTriggerRule.id" => sample(),
        "testTriggerRule.input.lineOaId" => json!({ "input": rule(), "event": sample()["event"] }),
        "testTriggerRule.input.workflowId" => {
            let mut input = rule();
            input["lineOaId"] = json!(served.id("lineOa"));
            json!({ "input": input, "event": sample()["event"] })
        }
        _ => json!({}),
    }
}

fn sample() -> Value {
    json!({ "event": { "userId": LINE_USER, "payload": { "formId": "f" } } })
}

/// A rule without its LINE OA.
fn rule() -> Value {
    json!({
        "name": "New", "sourceType": "form_submitted", "actionType": "switch_rich_menu",
        "actionConfig": { "richMenuId": null },
    })
}

/// `variables` with what `beside` has, object by object.
fn join(variables: &mut Value, beside: Value) {
    match (variables, beside) {
        (Value::Object(all), Value::Object(more)) => {
            for (key, value) in more {
                join(all.entry(key).or_insert_with(|| json!({})), value);
            }
        }
        (variables, beside) => *variables = beside,
    }
}

/// The variables of a question.
fn asking(served: &Served, path: &str, id: Value) -> Value {
    let (_, argument) = path.split_once('.').unwrap();
    let mut variables = nested(argument, id);
    join(&mut variables, beside(served, path));
    variables
}

#[tokio::test]
async fn a_thing_of_others_is_like_a_missing_one() {
    let served = Served::new().await;
    let schema = Schema::of(served.administrator()).await;
    for field in schema.fields("Query") {
        for path in schema.id_arguments("Query", field) {
            let asked = QUESTIONS.iter().any(|(question, ..)| *question == path);
            assert!(asked, "{path} needs a line in QUESTIONS");
        }
    }
    for (path, thing, hidden_from) in QUESTIONS {
        let real = served.id(thing).to_owned();
        let ask = |role: Role, id: &str| ask(&served, &schema, path, (role, json!(id)));
        for role in *hidden_from {
            let missing = Uuid::now_v7().to_string();
            let (real, missing) = (ask(*role, &real).await, ask(*role, &missing).await);
            assert_eq!(real, missing, "{path} for {role:?}");
            nothing_of_inside(&served, &real.1, (path, *role));
        }
        // It is there for who may see it.
        let missing = ask(Role::Administrator, &Uuid::now_v7().to_string()).await;
        assert_ne!(ask(Role::Administrator, &real).await, missing, "{path}");
    }
}

/// Status and body of the answer to a question with one argument.
async fn ask(
    served: &Served,
    schema: &Schema,
    path: &str,
    (role, id): (Role, Value),
) -> (u16, String) {
    let (field, _) = path.split_once('.').unwrap();
    let variables = asking(served, path, id);
    let selection = schema.everything("Query", field, 1);
    let document = schema.document("Query", field, &variables, &selection);
    let answer = served.client(role).graphql(&document, variables).await;
    (answer.status, answer.body)
}

fn nothing_of_inside(served: &Served, body: &str, what: (&str, Role)) {
    for name in INSIDE {
        assert!(!body.contains(served.id(name)), "{what:?} shows {name}: {body}");
    }
}

#[tokio::test]
async fn slugs_of_others_are_like_missing_ones() {
    let served = Served::new().await;
    let outsider = served.client(Role::Outsider);
    let sibling = served.client(Role::Sibling);
    let project = "query($slug: String!) { project(slug: $slug) { id } }";
    let real = outsider.graphql(project, json!({ "slug": "shop" })).await;
    let missing = outsider.graphql(project, json!({ "slug": "nowhere" })).await;
    assert_eq!((real.code().as_str(), &real.body), ("NOT_FOUND", &missing.body));
    let application = "query($project: String!, $slug: String!) {
        application(projectSlug: $project, slug: $slug) { id } }";
    for client in [outsider, sibling] {
        let ask =
            |slug: &str| client.graphql(application, json!({ "project": "shop", "slug": slug }));
        let (real, missing) = (ask("reports").await, ask("nowhere").await);
        assert_eq!((real.code().as_str(), &real.body), ("NOT_FOUND", &missing.body));
    }
}

#[tokio::test]
async fn no_way_through_the_graph_leads_to_things_of_others() {
    let served = Served::new().await;
    let schema = Schema::of(served.administrator()).await;
    let lists = [
        "projects",
        "applications",
        "triggers",
        "occurrences",
        "deliveries",
        "backends",
        "lineOas",
        "triggerRules",
        "scheduledActions",
        "scheduledTriggerExecutions",
        "triggerLogs",
        "auditLogs",
        "executorStatus",
    ];
    for field in lists {
        // As deep as a document may be long.
        let documents = [4, 3, 2].map(|depth| {
            let selection = schema.everything("Query", field, depth);
            schema.document("Query", field, &Value::Null, &selection)
        });
        let document = documents.into_iter().find(|document| document.len() <= DOCUMENT_MAX);
        let document = document.unwrap_or_else(|| panic!("{field} leads to too much"));
        for role in STRANGERS {
            let answer = served.client(*role).graphql(&document, Value::Null).await;
            nothing_of_inside(&served, &answer.data().to_string(), (field, *role));
            for person in ["owner@example.com", "maintainer@example.com", "member@example.com"] {
                assert!(!answer.body.contains(person), "{field} shows {person} to {role:?}");
            }
        }
        let answer = served.administrator().graphql(&document, Value::Null).await;
        let shown = answer.data().to_string();
        assert!(shown.contains(served.id("application")) || field == "executorStatus", "{field}");
    }
}

#[tokio::test]
async fn a_cursor_of_a_list_of_others_leads_nowhere() {
    let served = Served::new().await;
    let query = "query($after: String) {
        triggers(after: $after) { nodes { id } pageInfo { startCursor } }
        occurrences(after: $after) { nodes { id } }
        backends(after: $after) { nodes { id } } }";
    let data = served
        .administrator()
        .data(
            "{
        triggers { edges { cursor } } occurrences { edges { cursor } } backends { edges { cursor } }
        auditLogs(first: 2) { edges { cursor } } }",
            Value::Null,
        )
        .await;
    for list in ["triggers", "occurrences", "backends", "auditLogs"] {
        let cursor = &data[list]["edges"][0]["cursor"];
        assert!(cursor.is_string());
        for role in STRANGERS {
            let answer = served.client(*role).graphql(query, json!({ "after": cursor })).await;
            nothing_of_inside(&served, &answer.body, (list, *role));
        }
    }
}

#[tokio::test]
async fn an_application_of_others_can_not_be_watched() {
    let served = Served::new().await;
    for field in ["occurrences", "deliveries"] {
        let query = format!("subscription($id: ID!) {{ {field}(applicationId: $id) {{ id }} }}");
        for role in [Role::Outsider, Role::Sibling, Role::Anonymous] {
            let client = served.client(role);
            let missing = json!({ "id": Uuid::now_v7() });
            let real = json!({ "id": served.id("application") });
            let real = client.subscribe(&query, real).await.next().await;
            let missing = client.subscribe(&query, missing).await.next().await;
            assert_eq!(real, missing, "{field} for {role:?}");
            let code = if role == Role::Anonymous { "UNAUTHENTICATED" } else { "NOT_FOUND" };
            assert!(real.to_string().contains(code), "{field} for {role:?}: {real}");
        }
    }
}

#[tokio::test]
async fn a_line_oa_of_others_can_not_be_watched() {
    let served = Served::new().await;
    let query = "subscription($id: ID!) { triggerLogs(lineOaId: $id) { id } }";
    for role in [Role::Outsider, Role::Sibling, Role::Machine, Role::Anonymous] {
        let client = served.client(role);
        let real = json!({ "id": served.id("lineOa") });
        let real = client.subscribe(query, real).await.next().await;
        for missing in [Uuid::now_v7().to_string(), "no id".to_owned()] {
            let missing = json!({ "id": missing });
            assert_eq!(real, client.subscribe(query, missing).await.next().await, "{role:?}");
        }
        let code = if role == Role::Anonymous { "UNAUTHENTICATED" } else { "NOT_FOUND" };
        assert!(real.to_string().contains(code), "{role:?}: {real}");
    }
}
