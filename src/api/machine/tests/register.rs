use chrono::Duration;
use futures::FutureExt;

use super::*;
use crate::app::BACKENDS_MAX;
use crate::domain::trigger::{Occurrence, OccurrenceStatus, Origin, Payload};
use crate::store::trigger;

#[tokio::test]
async fn the_published_sample_registers_and_again_refreshes() {
    let api = Api::new().await;
    let first = api.register(sample()).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    assert_eq!(first.header("cache-control"), "no-store");
    let made = first.json();
    assert_eq!(made["applicationId"], api.application.to_string());
    assert_eq!(made["name"], "report-worker");
    assert_eq!(made["callbackUrl"], "http://127.0.0.1:9000/hooks/triggers");
    assert_eq!(made["description"], "Builds the nightly reports");
    assert_eq!(made["version"], Value::Null);
    assert_eq!(made["active"], true);
    assert_eq!(made["heartbeatTimeoutSeconds"], 60);
    assert!(made["token"].as_str().unwrap().starts_with("cb_"));
    assert!(made["signingSecret"].as_str().unwrap().starts_with("whsec_"));

    api.clock.advance(Duration::seconds(5));
    let second = api.register(sample()).await;
    assert_eq!(second.status, StatusCode::OK, "{}", second.text);
    let again = second.json();
    assert_eq!(again["id"], made["id"]);
    assert_eq!(again["createdAt"], made["createdAt"]);
    assert_eq!(at(&again["registeredAt"]), api.clock.now());
    assert_eq!(at(&again["lastHeartbeatAt"]), api.clock.now());
    assert_eq!(api.backends().await.len(), 1);
    assert_eq!(api.backends().await[0].machine_user_id, Some(api.machine));
}

#[tokio::test]
async fn a_refresh_changes_what_it_names_and_leaves_the_rest() {
    let api = Api::new().await;
    let full = json!({ "name": "w", "callbackUrl": "http://127.0.0.1/a", "description": "d",
        "version": "1.2" });
    api.register(full).await;
    let moved = api.register(json!({ "name": "w", "callbackUrl": "http://127.0.0.1/b" })).await;
    let moved = moved.json();
    assert_eq!(moved["callbackUrl"], "http://127.0.0.1/b");
    assert_eq!((&moved["description"], &moved["version"]), (&json!("d"), &json!("1.2")));
    let emptied = json!({ "name": " w ", "callbackUrl": "http://127.0.0.1/b", "description": "",
        "version": "" });
    let emptied = api.register(emptied).await.json();
    assert_eq!((&emptied["description"], &emptied["version"]), (&json!(""), &Value::Null));
    assert_eq!(emptied["id"], moved["id"]);
}

#[tokio::test]
async fn snake_case_is_read() {
    let api = Api::new().await;
    let answer = api
        .register(json!({
            "name": "w",
            "callback_url": "http://127.0.0.1/",
            "application_id": api.application,
            "signing_secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
            "rotate_secrets": false,
        }))
        .await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    assert_eq!(answer.json()["callbackUrl"], "http://127.0.0.1/");
    assert_eq!(answer.json().get("signingSecret"), None);
}

#[tokio::test]
async fn a_field_that_is_not_known_is_refused_with_those_that_are() {
    let api = Api::new().await;
    let long = "x".repeat(1000);
    let cases = [("rotatesecrets", "rotatesecrets"), ("a`, expected `b", "a`, expected `b")];
    for (key, field) in cases.into_iter().chain([(long.as_str(), &*format!("{}…", &long[..49]))])
    {
        let mut body = sample();
        body[key] = json!(true);
        let problem = api.register(body).await.problem(422, "INVALID");
        assert_eq!(problem["field"], field);
        let known = "name, callbackUrl, description, applicationId, token, signingSecret, version, \
                     rotateSecrets";
        assert_eq!(problem["detail"], format!("{field} is not known; known are {known}"));
    }
    assert!(api.backends().await.is_empty());
}

#[tokio::test]
async fn an_address_inside_is_refused_in_every_spelling_and_nothing_is_written() {
    let api = Api::allowing(&[]).await;
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "224.0.0.1",
        "0.0.0.0",
        "localhost",
        "a.localhost.",
        "intranet",
        "printer.local",
        "metadata.google.internal",
    ];
    for host in hosts {
        let url = format!("http://{host}/hook");
        let answer = api.register(json!({ "name": "w", "callbackUrl": url })).await;
        let problem = answer.problem(422, "CALLBACK_ADDRESS_REFUSED");
        assert_eq!(problem["field"], "callbackUrl", "{host}");
    }
    assert!(api.backends().await.is_empty());
    assert!(api.audited().await.is_empty());
}

#[tokio::test]
async fn a_name_that_resolves_to_a_refused_address_is_refused() {
    // The exception opens the name, but not the address that it has.
    let api = Api::allowing(&["127.9.9.9/32"]).await;
    let answer =
        api.register(json!({ "name": "w", "callbackUrl": "http://localhost:9000/" })).await;
    let problem = answer.problem(422, "CALLBACK_ADDRESS_REFUSED");
    assert!(problem["detail"].as_str().unwrap().contains("resolves to"), "{problem}");
    assert!(api.backends().await.is_empty());
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_named() {
    let api = Api::new().await;
    let url = "http://127.0.0.1/";
    let cases = [
        (json!({ "callbackUrl": url }), "name"),
        (json!({ "name": null, "callbackUrl": url }), "name"),
        (json!({ "name": "n".repeat(101), "callbackUrl": url }), "name"),
        (json!({ "name": "a\u{0}", "callbackUrl": url }), "name"),
        (json!({ "name": 5, "callbackUrl": url }), "name"),
        (json!({ "name": "w", "callback_url": [] }), "callback_url"),
        (
            json!({ "name": "w", "callbackUrl": url, "description": "d".repeat(1001) }),
            "description",
        ),
        (json!({ "name": "w", "callbackUrl": url, "version": "v".repeat(101) }), "version"),
        (json!({ "name": "w", "callbackUrl": url, "token": "t".repeat(15) }), "token"),
        (json!({ "name": "w", "callbackUrl": url, "token": "t".repeat(513) }), "token"),
        (json!({ "name": "w", "callbackUrl": url, "token": "with a space inside" }), "token"),
        (json!({ "name": "w", "callbackUrl": url, "token": "with-a-line\r\nx: y" }), "token"),
        (json!({ "name": "w", "callbackUrl": url, "token": "täglich-täglich-x" }), "token"),
    ];
    for (body, field) in cases {
        let problem = api.register(body.clone()).await.problem(422, "INVALID");
        assert_eq!(problem["field"], field, "{body}");
    }
    for missing in [json!(null), json!(" ")] {
        let body = json!({ "name": "w", "callbackUrl": missing });
        let problem = api.register(body).await.problem(422, "INVALID");
        assert_eq!(problem["detail"], "callbackUrl is required");
    }
    for url in [json!("ftp://127.0.0.1/"), json!("http://u:p@127.0.0.1/")] {
        let body = json!({ "name": "w", "callbackUrl": url });
        let problem = api.register(body).await.problem(422, "CALLBACK_URL_INVALID");
        assert_eq!(problem["field"], "callbackUrl");
    }
    let body = json!({ "name": "w", "callbackUrl": url, "signingSecret": "whsec_short" });
    api.register(body).await.problem(422, "SIGNING_SECRET_INVALID");
    for token in ["t".repeat(16), "!".repeat(512)] {
        let body = json!({ "name": "w", "callbackUrl": url, "token": token });
        assert!(api.register(body).await.status.is_success());
    }
    assert_eq!(api.backends().await.len(), 1);
}

#[tokio::test]
async fn another_application_is_not_found_like_a_missing_one() {
    let api = Api::new().await;
    let (_, foreign) = project(&api.app, "other").await;
    let outsider = user(&api.app, "eve@example.com", None).await;
    let answer_for = async |auth: &str, id: String| {
        let mut body = sample();
        body["applicationId"] = json!(id);
        let answer = api.register_as(auth, body).await;
        answer.problem(404, "NOT_FOUND");
        answer.text
    };
    let missing = ApplicationId::new().to_string();
    for auth in [&api.auth, &outsider] {
        let expected = answer_for(auth, missing.clone()).await;
        assert_eq!(answer_for(auth, foreign.to_string()).await, expected);
        assert_eq!(answer_for(auth, "no id".to_owned()).await, expected);
    }
    let hidden = answer_for(&outsider, api.application.to_string()).await;
    assert_eq!(hidden, answer_for(&outsider, missing).await);
    assert!(api.audited().await.is_empty());
}

#[tokio::test]
async fn a_maintainer_may_register_and_a_member_may_not() {
    let api = Api::new().await;
    let mut body = sample();
    body["applicationId"] = json!(api.application);
    let member = api.user("member@example.com", Some(Role::Member)).await;
    api.register_as(&member, body.clone()).await.problem(403, "FORBIDDEN");
    let maintainer = api.user("maintainer@example.com", Some(Role::Maintainer)).await;
    let problem = api.register_as(&maintainer, sample()).await.problem(422, "INVALID");
    assert_eq!(problem["field"], "applicationId");
    assert!(api.backends().await.is_empty());
    let answer = api.register_as(&maintainer, body.clone()).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);

    // A user's refresh does not take a backend away from the machine user that registered it.
    assert_eq!(api.register(body.clone()).await.status, StatusCode::OK);
    assert_eq!(api.register_as(&maintainer, body).await.status, StatusCode::OK);
    assert_eq!(api.backends().await[0].machine_user_id, Some(api.machine));
}

#[tokio::test]
async fn of_two_registrations_at_once_one_makes_the_backend() {
    let api = Api::new().await;
    for round in 0..10 {
        let mut body = sample();
        body["name"] = json!(format!("w{round}"));
        let (a, b) = tokio::join!(api.register(body.clone()), api.register(body));
        let mut statuses = [a.status.as_u16(), b.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 201], "{} {}", a.text, b.text);
        assert_eq!(id_of(&a), id_of(&b));
    }
    assert_eq!(api.backends().await.len(), 10);
}

#[tokio::test]
async fn an_application_has_at_most_a_hundred_backends() {
    let api = Api::new().await;
    for index in 0..BACKENDS_MAX {
        let body = json!({ "name": format!("w{index}"), "callbackUrl": "http://127.0.0.1/" });
        assert_eq!(api.register(body).await.status, StatusCode::CREATED);
    }
    api.register(sample()).await.problem(409, "CONFLICT");
    let known = json!({ "name": "w0", "callbackUrl": "http://127.0.0.1/" });
    assert_eq!(api.register(known).await.status, StatusCode::OK);
    assert_eq!(api.backends().await.len(), BACKENDS_MAX);
}

#[tokio::test]
async fn a_registration_is_audited_with_the_states_before_and_after() {
    let api = Api::new().await;
    let made = api.register(sample()).await.json();
    api.clock.advance(Duration::minutes(2));
    let mut body = sample();
    body["version"] = json!("2");
    api.register(body).await;
    let rows = api.audited().await;
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(
            (row.action.as_str(), row.entity_type.as_str()),
            ("backend.register", "backend")
        );
        assert_eq!(row.entity_id.to_string(), made["id"]);
        assert_eq!(row.project_id, Some(api.project));
        assert_eq!(row.application_id, Some(api.application));
        assert_eq!((row.actor_type.as_str(), row.actor_name.as_str()), ("machine_user", "reports"));
        assert_eq!(row.request_id.as_deref(), Some(REQUEST_ID));
    }
    assert_eq!(rows[0].before, None);
    let (before, after) = (rows[1].before.clone().unwrap(), rows[1].after.clone().unwrap());
    assert_eq!((&before["active"], &before["version"]), (&json!(false), &Value::Null));
    assert_eq!((&after["active"], &after["version"]), (&json!(true), &json!("2")));
    assert_eq!(after["replacedSecrets"], json!([]));
}

#[tokio::test]
async fn a_registration_has_waiting_work_due_now() {
    let api = Api::new().await;
    let waiting = waiting_occurrence(&api).await;
    assert!(api.app.wake.near().notified().now_or_never().is_none());
    api.register(sample()).await;
    assert_eq!(next_attempt(&api, waiting).await, Some(api.clock.now()));
    assert!(api.app.wake.near().notified().now_or_never().is_some());
    // A refresh of an active backend has nothing to wake.
    api.register(sample()).await;
    assert!(api.app.wake.near().notified().now_or_never().is_none());
}

#[tokio::test]
async fn a_registration_ends_a_deactivation() {
    let api = Api::new().await;
    let id = id_of(&api.register(sample()).await);
    api.deactivate(id).await;
    let again = api.register(sample()).await;
    assert_eq!((again.status, &again.json()["active"]), (StatusCode::OK, &json!(true)));
    let backend = api.backends().await.remove(0);
    assert_eq!((backend.deactivated_at, backend.deactivated_reason), (None, None));
}

/// An occurrence that found no backend and is tried again in an hour.
pub(super) async fn waiting_occurrence(api: &Api) -> OccurrenceId {
    let occurrence = occurrence(api);
    let tx = api.app.store.begin().await.unwrap();
    assert!(trigger::insert_occurrence(&*tx, &occurrence).await.unwrap());
    tx.commit_unaudited().await.unwrap();
    occurrence.id
}

pub(super) fn occurrence(api: &Api) -> Occurrence {
    let now = api.clock.now();
    Occurrence {
        id: OccurrenceId::new(),
        trigger_id: TriggerId::new(),
        application_id: api.application,
        scheduled_at: now,
        until_at: None,
        occurrences: 1,
        origin: Origin::Schedule,
        status: OccurrenceStatus::Pending,
        reason: None,
        payload: Payload {
            trigger_id: TriggerId::new(),
            trigger_name: "Nightly".to_owned(),
            cron_expression: "@daily".to_owned(),
            run_key: "nightly".to_owned(),
            executed_at: "2026-03-01T12:00:00Z".to_owned(),
        },
        deliveries: 0,
        delivered: 0,
        failed: 0,
        fan_out_attempts: 1,
        next_attempt_at: Some(now + Duration::hours(1)),
        created_at: now,
        finished_at: None,
    }
}

pub(super) async fn next_attempt(api: &Api, id: OccurrenceId) -> Option<DateTime<Utc>> {
    let read = api.app.store.read();
    trigger::occurrence(read, Scope::Everything, id).await.unwrap().next_attempt_at
}
