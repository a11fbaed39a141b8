use chrono::Duration;

use super::register::{next_attempt, waiting_occurrence};
use super::*;

async fn registered(api: &Api, name: &str) -> BackendId {
    let body = json!({ "name": name, "callbackUrl": "http://127.0.0.1/" });
    id_of(&api.register(body).await)
}

fn names(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let backends = json["backends"].as_array().unwrap_or_else(|| panic!("{json}"));
    backends.iter().map(|b| b["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_heartbeat_is_of_one_backend_or_of_all_that_the_machine_user_registered() {
    let api = Api::new().await;
    let id = registered(&api, "b").await;
    registered(&api, "a").await;
    let (_, other) = machine(&api.app, api.application, "other").await;
    api.register_as(&other, json!({ "name": "c", "callbackUrl": "http://127.0.0.1/" })).await;
    api.clock.advance(Duration::seconds(30));
    let cases = [
        (json!({ "name": "b" }), vec!["b"]),
        (json!({ "id": id }), vec!["b"]),
        (json!({ "backendId": id }), vec!["b"]),
        (json!({ "backend_id": id, "name": "b" }), vec!["b"]),
        (json!({ "name": "c" }), vec!["c"]),
        (json!({ "applicationId": api.application }), vec!["a", "b"]),
        (json!({}), vec!["a", "b"]),
    ];
    for (body, expected) in cases {
        let answer = api.heartbeat(body.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{body}: {}", answer.text);
        assert_eq!(names(&answer), expected, "{body}");
        assert_eq!(answer.json()["nextHeartbeatBeforeSeconds"], 60);
        let first = &answer.json()["backends"][0];
        assert_eq!(first["active"], true);
        assert_eq!(at(&first["lastHeartbeatAt"]), api.clock.now());
    }
}

#[tokio::test]
async fn a_heartbeat_moves_the_time_of_what_it_names_only() {
    let api = Api::new().await;
    registered(&api, "a").await;
    registered(&api, "b").await;
    let before = api.clock.now();
    api.clock.advance(Duration::seconds(30));
    api.heartbeat(json!({ "name": "a" })).await;
    let mut backends = api.backends().await;
    backends.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(backends[0].last_heartbeat_at, api.clock.now());
    assert_eq!(backends[1].last_heartbeat_at, before);
}

#[tokio::test]
async fn a_heartbeat_with_a_slip_in_a_field_is_of_nobody() {
    let api = Api::new().await;
    registered(&api, "a").await;
    let before = api.clock.now();
    api.clock.advance(Duration::seconds(30));
    for key in ["backend", "backendid", "Name"] {
        let problem = api.heartbeat(json!({ key: "a" })).await.problem(422, "INVALID");
        assert_eq!(problem["field"], key);
        let right = format!("{key} is not known; known are backendId, id, name, applicationId");
        assert_eq!(problem["detail"], right);
    }
    assert_eq!(api.backends().await[0].last_heartbeat_at, before);
}

#[tokio::test]
async fn no_body_at_all_is_a_heartbeat_of_all() {
    let api = Api::new().await;
    registered(&api, "a").await;
    let path = "/api/machine/heartbeat";
    let answer = api.call(Method::POST, path, &api.auth, None).await;
    assert_eq!(names(&answer), ["a"]);
    for nothing in ["", " ", "null"] {
        let request = Request::post(path)
            .header(AUTHORIZATION, &api.auth)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(nothing));
        assert_eq!(names(&api.send(request.unwrap()).await), ["a"]);
    }
    let request = Request::post(path).header(AUTHORIZATION, &api.auth).body(Body::from("name=a"));
    api.send(request.unwrap()).await.problem(415, "UNSUPPORTED_MEDIA_TYPE");
}

#[tokio::test]
async fn whoever_never_registered_is_told_to() {
    let api = Api::new().await;
    let (_, foreign) = project(&api.app, "foreign").await;
    let (_, stranger) = machine(&api.app, foreign, "stranger").await;
    let theirs = api
        .register_as(&stranger, json!({ "name": "theirs", "callbackUrl": "http://127.0.0.1/" }))
        .await;
    let theirs = id_of(&theirs);
    let missing = api.heartbeat(json!({})).await;
    let problem = missing.problem(404, "NOT_FOUND");
    assert!(problem["detail"].as_str().unwrap().contains("register first"), "{problem}");
    for body in [
        json!({ "name": "theirs" }),
        json!({ "id": theirs }),
        json!({ "id": BackendId::new() }),
        json!({ "id": "no id" }),
        json!({ "applicationId": foreign, "name": "theirs" }),
    ] {
        assert_eq!(api.heartbeat(body).await.text, missing.text);
    }
    let own = registered(&api, "own").await;
    let mixed = api.heartbeat(json!({ "id": own, "name": "theirs" })).await;
    assert_eq!(mixed.text, missing.text);
}

#[tokio::test]
async fn a_stale_backend_is_active_again_and_only_that_is_audited() {
    let api = Api::new().await;
    let id = registered(&api, "a").await;
    api.clock.advance(Duration::seconds(60));
    api.heartbeat(json!({ "name": "a" })).await;
    assert_eq!(api.actions().await, ["backend.register"]);
    api.clock.advance(Duration::milliseconds(60_001));
    let waiting = waiting_occurrence(&api).await;
    let answer = api.heartbeat(json!({ "name": "a" })).await;
    assert_eq!(answer.json()["backends"][0]["active"], true);
    assert_eq!(next_attempt(&api, waiting).await, Some(api.clock.now()));
    let rows = api.audited().await;
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].action.as_str(), rows[1].entity_id), ("backend.activate", id.0));
    assert_eq!(rows[1].before.as_ref().unwrap()["active"], false);
    assert_eq!(rows[1].after.as_ref().unwrap()["active"], true);
    assert_eq!(rows[1].request_id.as_deref(), Some(REQUEST_ID));
}

#[tokio::test]
async fn a_deactivated_backend_must_register_again() {
    let api = Api::new().await;
    let gone = registered(&api, "gone").await;
    let before = api.clock.now();
    api.deactivate(gone).await;
    api.clock.advance(Duration::seconds(10));
    let by =
        [(json!({ "name": "gone" }), "name"), (json!({ "id": gone }), "id"), (json!({}), "id")];
    for (body, field) in by {
        let problem = api.heartbeat(body).await.problem(409, "CONFLICT");
        assert_eq!(problem["field"], field);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("register it again") && detail.contains("410"), "{detail}");
    }
    assert_eq!(api.backends().await[0].last_heartbeat_at, before);
    // One that is not deactivated is heard of all the same.
    registered(&api, "there").await;
    let answer = api.heartbeat(json!({})).await.json();
    assert_eq!(answer["backends"][0]["active"], false);
    assert_eq!(answer["backends"][1]["active"], true);
    registered(&api, "gone").await;
    assert_eq!(api.heartbeat(json!({ "name": "gone" })).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_maintainer_may_keep_a_backend_alive_and_must_say_which() {
    let api = Api::new().await;
    let id = registered(&api, "a").await;
    let beat = async |auth: &str, body: Value| {
        api.call(Method::POST, "/api/machine/heartbeat", auth, Some(&body)).await
    };
    let member = api.user("member@example.com", Some(Role::Member)).await;
    beat(&member, json!({ "id": id })).await.problem(403, "FORBIDDEN");
    let maintainer = api.user("maintainer@example.com", Some(Role::Maintainer)).await;
    assert_eq!(names(&beat(&maintainer, json!({ "id": id })).await), ["a"]);
    let named = json!({ "name": "a", "applicationId": api.application });
    assert_eq!(names(&beat(&maintainer, named).await), ["a"]);
    beat(&maintainer, json!({ "name": "a" })).await.problem(422, "INVALID");
    let all = json!({ "applicationId": api.application });
    assert_eq!(beat(&maintainer, all).await.problem(422, "INVALID")["field"], "name");
}
