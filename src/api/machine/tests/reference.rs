//! The OpenAPI document says all that the router does, and the reference page needs nobody else.

use super::*;
use crate::api::openapi::openapi;

fn document() -> Value {
    serde_json::to_value(openapi()).unwrap()
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    found
}

#[tokio::test]
async fn each_route_stands_in_the_document_and_each_that_stands_there_is_answered() {
    let expected = [
        "POST /api/line/webhook/{lineOaId}",
        "GET /api/machine/application/{id}/tenants",
        "GET /api/machine/applications/{id}/tenants",
        "DELETE /api/machine/backends/{id}",
        "GET /api/machine/check",
        "POST /api/machine/events",
        "POST /api/machine/heartbeat",
        "POST /api/machine/register-backend",
        "POST /api/machine/scheduled-actions",
        "DELETE /api/machine/scheduled-actions/{id}",
        "GET /api/machine/scheduled-actions/{id}",
    ];
    let document = document();
    let operations = operations(&document);
    let found: Vec<_> = operations.iter().map(|(m, path, _)| format!("{m} {path}")).collect();
    assert_eq!(found, expected);
    let api = Api::new().await;
    for (method, path, _) in operations {
        let nil = Uuid::nil().to_string();
        let path = path.replace("{id}", &nil).replace("{lineOaId}", &nil);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        api.call(method, &path, "", None).await.problem(401, "UNAUTHENTICATED");
    }
}

#[test]
fn the_document_is_openapi_3_1_and_says_how_to_authenticate() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    assert_eq!(schemes["machineBasic"]["scheme"], "basic");
    for (_, path, operation) in operations(&document) {
        for requirement in operation["security"].as_array().unwrap() {
            let name = requirement.as_object().unwrap().keys().next().unwrap();
            assert!(schemes.contains_key(name), "{path}: {name}");
        }
    }
}

#[test]
fn every_operation_is_summarised_and_names_the_problems_it_may_answer() {
    for (method, path, operation) in operations(&document()) {
        for text in ["summary", "description"] {
            assert!(operation[text].as_str().is_some_and(|t| !t.is_empty()), "{path}: {text}");
        }
        let responses = operation["responses"].as_object().unwrap();
        let mut wanted = vec!["401", "500", "503"];
        // Of LINE's webhook the caller has no account.
        let by_account = !path.starts_with("/api/line");
        if by_account {
            wanted.extend(["403", "429"]);
        }
        if method == "POST" {
            wanted.extend(["400", "413", "422"]);
            wanted.extend(["415"].into_iter().filter(|_| by_account));
        }
        if method == "POST" && (path.contains("backend") || path.contains("actions")) {
            wanted.push("409");
        }
        if path.contains("{id}") {
            wanted.extend(["400", "404"]);
        }
        if path.contains("tenants") {
            wanted.push("422");
        }
        for status in wanted {
            assert!(responses.contains_key(status), "{path}: {status}");
        }
        assert!(responses.keys().any(|status| status.starts_with('2')), "{path}");
    }
}

#[test]
fn every_field_and_parameter_is_described_and_every_body_has_an_example() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.len() >= 8, "{:?}", schemas.keys());
    for (name, schema) in schemas {
        assert!(schema["description"].is_string(), "{name}");
        let nothing = serde_json::Map::new();
        for (field, value) in schema["properties"].as_object().unwrap_or(&nothing) {
            assert!(value["description"].is_string(), "{name}.{field}");
            assert!(!field.contains('_'), "{name}.{field}");
        }
    }
    for name in [
        "RegisterBackendRequest",
        "RegisteredBackend",
        "HeartbeatRequest",
        "EventRequest",
        "EventsAnswer",
        "CloudEvent",
        "ScheduledActionRequest",
        "ScheduledActionAnswer",
        "CopyAnswer",
        "Problem",
    ] {
        assert!(schemas[name]["example"].is_object(), "{name}");
    }
    for (_, path, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().unwrap_or(&Vec::new()) {
            assert!(parameter["description"].is_string(), "{path}: {parameter}");
        }
    }
}

#[test]
fn required_and_optional_fields_are_told_apart() {
    let document = document();
    let required = |name: &str| document["components"]["schemas"][name]["required"].clone();
    assert_eq!(required("RegisterBackendRequest"), json!(["name", "callbackUrl"]));
    assert_eq!(required("HeartbeatRequest"), Value::Null);
    assert_eq!(required("EventRequest"), json!(["eventId", "type", "lineOaId"]));
    let attributes = json!(["specversion", "id", "source", "type", "lineoaid"]);
    assert_eq!(required("CloudEvent"), attributes);
    assert_eq!(required("ScheduledActionRequest"), json!(["workflowId", "nodePath"]));
    let problem = json!(["type", "title", "status", "detail", "instance", "code"]);
    assert_eq!(required("Problem"), problem);
    let registered = required("RegisteredBackend");
    let registered = registered.as_array().unwrap();
    assert!(!registered.contains(&json!("token")) && registered.contains(&json!("active")));
}

#[test]
fn what_refuses_fields_that_are_not_known_says_so() {
    let document = document();
    let more = |name: &str| document["components"]["schemas"][name]["additionalProperties"].clone();
    for name in ["RegisterBackendRequest", "HeartbeatRequest", "ScheduledActionRequest"] {
        assert_eq!(more(name), false, "{name}");
    }
    assert_eq!(more("EventRequest"), Value::Null);
}

#[test]
fn every_reference_leads_somewhere() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let (document, mut found) = (document(), Vec::new());
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn the_document_is_served_without_credentials() {
    let api = Api::new().await;
    let answer = api.call(Method::GET, "/api/openapi.json", "", None).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json(), document());
}

#[tokio::test]
async fn the_reference_page_names_no_other_origin_and_has_no_inline_script() {
    let api = Api::new().await;
    let page = async |path: &str| api.call(Method::GET, path, "", None).await;
    let moved = page("/api/docs").await;
    assert_eq!((moved.status, moved.header("location")), (StatusCode::PERMANENT_REDIRECT, "docs/"));
    let html = page("/api/docs/").await;
    assert_eq!(html.status, StatusCode::OK);
    assert!(html.header("content-type").starts_with("text/html"));
    let policy = html.header("content-security-policy");
    assert!(policy.contains("default-src 'self'") && policy.contains("connect-src 'self'"));
    assert!(!html.text.contains("//"), "{}", html.text);
    let mut files = 0;
    for part in html.text.split('"').filter(|part| part.ends_with(".js") || part.ends_with(".css"))
    {
        let file = page(&format!("/api/docs/{}", part.trim_start_matches("./"))).await;
        assert_eq!(file.status, StatusCode::OK, "{part}");
        files += 1;
    }
    assert!(files >= 4, "{files} files");
    let scripts = html.text.split("<script").skip(1);
    assert!(scripts.into_iter().all(|script| script.trim_end().contains("> </script>")));
    let start = page("/api/docs/swagger-initializer.js").await.text;
    assert!(start.contains("\"../openapi.json\"") && start.contains("\"validatorUrl\": \"none\""));
    assert!(!start.contains("http"), "{start}");
    page("/api/docs/none.js").await.problem(404, "NOT_FOUND");
}
