//! The endpoints for machines.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{audit, everything};
use crate::client::{Answer, REQUEST_ID};
use crate::served::{Role, Served};

struct Endpoint {
    method: &'static str,
    /// As the OpenAPI document has it.
    path: &'static str,
    /// What stands for `{id}`.
    id: &'static str,
    body: Value,
    /// The role that calls, the status of success, and the audit row's action, if there is one.
    by: Role,
    status: u16,
    action: Option<&'static str>,
    /// Roles that know of the thing and are forbidden.
    forbids: &'static [Role],
    /// The id that is like a missing one to strangers.
    hides: Option<&'static str>,
    strangers: &'static [Role],
    /// Whether the audit row has a state before and one after.
    states: (bool, bool),
}

/// Endpoints whose callers have no account here, with tests of their own.
const WITHOUT_ACCOUNT: &[(&str, &str)] = &[("post", "/api/line/webhook/{lineOaId}")];

fn endpoints() -> Vec<Endpoint> {
    vec![
        register("three", 201),
        register("one", 200),
        // A heartbeat that only moves the time is no change; one that revives is.
        heartbeat("$backend", None),
        heartbeat("$failingBackend", Some("backend.activate")),
        get("/api/machine/check", "", &[Role::Member, Role::Owner]),
        get("/api/machine/application/{id}/tenants", "$application", &[]),
        get("/api/machine/applications/{id}/tenants", "$application", &[]),
        Endpoint {
            method: "delete",
            path: "/api/machine/backends/{id}",
            id: "$backend",
            status: 204,
            states: (true, false),
            ..heartbeat("$backend", Some("backend.delete"))
        },
        events(),
        Endpoint {
            path: "/api/machine/scheduled-actions",
            body: json!({ "workflowId": "$workflow", "nodePath": "a/b", "delay": "1h" }),
            action: Some("scheduled_action.create"),
            hides: Some("$workflow"),
            ..register("", 201)
        },
        get("/api/machine/scheduled-actions/{id}", "$scheduledAction", &[]),
        Endpoint {
            method: "delete",
            path: "/api/machine/scheduled-actions/{id}",
            id: "$scheduledAction",
            body: Value::Null,
            hides: Some("$scheduledAction"),
            ..heartbeat("", Some("scheduled_action.cancel"))
        },
    ]
}

fn events() -> Endpoint {
    let payload = json!({ "formId": "f", "submissionId": "s", "answers": {} });
    Endpoint {
        path: "/api/machine/events",
        body: json!({
            "eventId": "e", "type": "form_submitted", "lineOaId": "$lineOa", "payload": payload,
        }),
        action: Some("event.receive"),
        hides: Some("$lineOa"),
        // The project's other applications know its LINE OAs.
        strangers: &[Role::Outsider],
        states: (false, true),
        ..register("", 202)
    }
}

fn register(name: &str, status: u16) -> Endpoint {
    let callback_url = "http://127.0.0.1:9/";
    Endpoint {
        method: "post",
        path: "/api/machine/register-backend",
        id: "",
        body: json!({
            "name": name, "callbackUrl": callback_url, "applicationId": "$application",
        }),
        by: Role::Machine,
        status,
        action: Some("backend.register"),
        forbids: &[Role::Member],
        hides: Some("$application"),
        strangers: super::case::STRANGERS,
        states: (status != 201, true),
    }
}

fn heartbeat(backend: &'static str, action: Option<&'static str>) -> Endpoint {
    Endpoint {
        path: "/api/machine/heartbeat",
        body: json!({ "backendId": backend }),
        action,
        hides: Some(backend),
        ..register("", 200)
    }
}

fn get(path: &'static str, id: &'static str, forbids: &'static [Role]) -> Endpoint {
    Endpoint {
        method: "get",
        path,
        id,
        body: Value::Null,
        action: None,
        forbids,
        hides: (!id.is_empty()).then_some(id),
        ..register("", 200)
    }
}

#[tokio::test]
async fn every_endpoint_for_machines_is_audited_and_refused_like_a_mutation() {
    let mut served = Served::new().await;
    scheduled(&mut served).await;
    let endpoints = endpoints();
    let document = served.client(Role::Anonymous).get("/api/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            if WITHOUT_ACCOUNT.contains(&(method, path)) {
                continue;
            }
            let covered = endpoints.iter().any(|e| e.path == path && e.method == method);
            assert!(covered, "{method} {path} needs a case");
        }
    }
    for endpoint in &endpoints {
        if endpoint.action == Some("backend.activate") {
            // All but the other backend stay alive.
            served.test.advance(61);
            let body = json!({ "backendId": served.id("backend") });
            served.client(Role::Machine).post("/api/machine/heartbeat", &body).await;
        }
        let before = everything(&served).await;
        refused(&served, endpoint).await;
        let path = endpoint.path;
        assert_eq!(everything(&served).await, before, "a refused {path} did something");
        accepted(&served, endpoint).await;
    }
}

/// A resume that waits.
async fn scheduled(served: &mut Served) {
    let body = json!({ "workflowId": "$workflow", "nodePath": "a", "delay": "1d" });
    let body = served.fill(body);
    let made = served.client(Role::Machine).post("/api/machine/scheduled-actions", &body).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    served.ids.insert("scheduledAction", id);
}

async fn refused(served: &Served, endpoint: &Endpoint) {
    let answer = call(served, endpoint, Role::Anonymous, None).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHENTICATED"), "{answer:?}");
    for role in endpoint.forbids {
        let answer = call(served, endpoint, *role, None).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"), "{answer:?}");
    }
    let Some(hidden) = endpoint.hides else { return };
    for role in endpoint.strangers {
        let missing = Uuid::now_v7().to_string();
        let real = call(served, endpoint, *role, None).await;
        let other = call(served, endpoint, *role, Some((hidden, &missing))).await;
        assert_eq!((real.status, real.code().as_str()), (404, "NOT_FOUND"), "{real:?}");
        // The answer repeats the path that was asked for.
        let other = other.body.replace(&missing, served.id(&hidden[1..]));
        assert_eq!(real.body, other, "{} {role:?}", endpoint.path);
    }
}

async fn accepted(served: &Served, endpoint: &Endpoint) {
    let (count, _) = audit(served).await;
    let answer = call(served, endpoint, endpoint.by, None).await;
    assert_eq!(answer.status, endpoint.status, "{} {answer:?}", endpoint.path);
    let (after, row) = audit(served).await;
    assert_eq!(after - count, i64::from(endpoint.action.is_some()), "{} {row}", endpoint.path);
    let Some(action) = endpoint.action else { return };
    assert_eq!(row["action"], action);
    assert_eq!(row["actorType"], "MACHINE_USER");
    assert_eq!(row["actorId"], served.id("machineUser"));
    assert_eq!(row["applicationId"], served.id("application"));
    assert_eq!(row["projectId"], served.id("project"));
    assert_eq!(row["requestId"], REQUEST_ID);
    let states = (row["before"].is_object(), row["after"].is_object());
    assert_eq!(states, endpoint.states, "{row}");
}

/// Calls an endpoint, with another id in the place of a named one where given.
async fn call(
    served: &Served,
    endpoint: &Endpoint,
    role: Role,
    instead: Option<(&str, &str)>,
) -> Answer {
    let put = |text: String| match instead {
        Some((name, id)) => text.replace(name, id),
        None => text,
    };
    let fill = |text: String| served.fill(Value::String(text)).as_str().unwrap().to_owned();
    let id = fill(put(endpoint.id.to_owned()));
    let path = endpoint.path.replace("{id}", &id);
    let body = serde_json::from_str(&put(endpoint.body.to_string())).unwrap();
    let client = served.client(role);
    match endpoint.method {
        "get" => client.get(&path).await,
        "delete" => client.delete(&path).await,
        _ => client.post(&path, &served.fill(body)).await,
    }
}
