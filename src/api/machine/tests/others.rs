//! Deleting, checking, listing tenants.

use super::register::occurrence;
use super::*;
use crate::domain::application::Tenant;
use crate::domain::delivery::ActionStatus;
use crate::domain::fan_out::fan_out;
use crate::store::{delivery, executor, trigger};

#[tokio::test]
async fn a_deleted_backend_is_gone_and_its_work_is_cancelled() {
    let api = Api::new().await;
    let id = id_of(&api.register(sample()).await);
    let queued = queued_delivery(&api, id).await;
    let answer = api.delete(&api.auth, &id.to_string()).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert!(api.backends().await.is_empty());
    let read = api.app.store.read();
    let queued = delivery::find(read, Scope::Everything, queued).await.unwrap();
    assert_eq!(queued.status, ActionStatus::Cancelled);
    assert_eq!(queued.last_error.as_deref(), Some("backend_deleted"));
    let rows = api.audited().await;
    assert_eq!((rows[1].action.as_str(), rows[1].entity_id), ("backend.delete", id.0));
    assert_eq!(rows[1].before.as_ref().unwrap()["name"], "report-worker");
    assert_eq!(rows[1].after, None);
    api.delete(&api.auth, &id.to_string()).await.problem(404, "NOT_FOUND");
    assert_eq!(api.audited().await.len(), 2);
}

#[tokio::test]
async fn a_foreign_backend_is_not_found_like_a_missing_one() {
    let api = Api::new().await;
    let id = id_of(&api.register(sample()).await).to_string();
    let (_, foreign) = project(&api.app, "foreign").await;
    let (_, stranger) = machine(&api.app, foreign, "stranger").await;
    let outsider = user(&api.app, "eve@example.com", None).await;
    for auth in [&stranger, &outsider] {
        let detail = |answer: Answer| answer.problem(404, "NOT_FOUND")["detail"].clone();
        let expected = detail(api.delete(auth, &BackendId::new().to_string()).await);
        assert_eq!(detail(api.delete(auth, &id).await), expected);
        assert_eq!(detail(api.delete(auth, "no-id").await), expected);
    }
    let member = api.user("member@example.com", Some(Role::Member)).await;
    api.delete(&member, &id).await.problem(403, "FORBIDDEN");
    assert_eq!(api.backends().await.len(), 1);
    let maintainer = api.user("maintainer@example.com", Some(Role::Maintainer)).await;
    assert_eq!(api.delete(&maintainer, &id).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_check_says_who_the_machine_user_is() {
    let api = Api::new().await;
    let answer = api.get("/api/machine/check").await;
    let expected = json!({
        "machineUser": {
            "id": api.machine, "username": "reports", "environment": "production",
        },
        "application": { "id": api.application, "slug": "reports", "name": "Reports" },
        "project": { "id": api.project, "slug": "shop", "name": "Shop" },
        "serverTime": "2026-03-01T12:00:00Z",
        "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!((answer.status, answer.json()), (StatusCode::OK, expected));
    let owner = api.user("owner@example.com", Some(Role::Owner)).await;
    api.call(Method::GET, "/api/machine/check", &owner, None).await.problem(403, "FORBIDDEN");
}

#[tokio::test]
async fn tenants_are_those_of_the_machine_users_environment_unless_another_is_named() {
    let api = Api::new().await;
    for index in 0..450 {
        tenant(&api, &format!("t{index:03}"), "production").await;
    }
    tenant(&api, "zz-staged", "staging").await;
    let path = format!("/api/machine/application/{}/tenants", api.application);
    let alias = path.replace("application/", "applications/");
    let slugs = async |path: &str, query: &str| {
        let answer = api.get(&format!("{path}{query}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let tenants = answer.json().as_array().unwrap().clone();
        tenants.iter().map(|t| t["slug"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let own = slugs(&path, "").await;
    assert_eq!(own, (0..450).map(|index| format!("t{index:03}")).collect::<Vec<_>>());
    assert_eq!(slugs(&alias, "").await, own);
    assert_eq!(slugs(&path, "?environment=all").await.len(), 451);
    assert_eq!(slugs(&path, "?environment=staging").await, ["zz-staged"]);
    assert!(slugs(&path, "?environment=none").await.is_empty());
    let staged = api.get(&format!("{path}?environment=staging")).await.json();
    let fields: Vec<_> = staged[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["environment", "id", "name", "slug"]);
    let strange = api.get(&format!("{path}?environment=%00")).await.problem(422, "INVALID");
    assert_eq!(strange["field"], "environment");
}

#[tokio::test]
async fn a_parameter_that_is_not_known_is_refused_with_those_that_are() {
    let api = Api::new().await;
    let path = format!("/api/machine/application/{}/tenants", api.application);
    for query in ["?enviroment=staging", "?environment=all&Environment=staging"] {
        let refused = api.get(&format!("{path}{query}")).await.problem(422, "INVALID");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.ends_with("known is environment"), "{detail}");
        assert!(query.contains(refused["field"].as_str().unwrap()), "{refused}");
    }
    let refused = api.get("/api/machine/check?environment=all").await.problem(422, "INVALID");
    assert_eq!(refused["field"], "environment");
}

#[tokio::test]
async fn tenants_of_another_application_are_not_found() {
    let api = Api::new().await;
    let (_, foreign) = project(&api.app, "foreign").await;
    let mut details = Vec::new();
    for id in [foreign.to_string(), ApplicationId::new().to_string(), "no-id".to_owned()] {
        let answer = api.get(&format!("/api/machine/application/{id}/tenants")).await;
        details.push(answer.problem(404, "NOT_FOUND")["detail"].clone());
    }
    assert!(details.iter().all(|detail| *detail == details[0]), "{details:?}");
    let member = api.user("member@example.com", Some(Role::Member)).await;
    let path = format!("/api/machine/application/{}/tenants", api.application);
    tenant(&api, "acme", "staging").await;
    let answer = api.call(Method::GET, &path, &member, None).await;
    assert_eq!(answer.json()[0]["slug"], "acme");
}

async fn tenant(api: &Api, slug: &str, environment: &str) {
    let now = api.clock.now();
    let tenant = Tenant {
        id: TenantId::new(),
        application_id: api.application,
        slug: slug.to_owned(),
        name: slug.to_uppercase(),
        environment: environment.to_owned(),
        created_at: now,
        updated_at: now,
    };
    let tx = api.app.store.begin().await.unwrap();
    application::insert_tenant(&*tx, &tenant).await.unwrap();
    tx.commit_unaudited().await.unwrap();
}

async fn queued_delivery(api: &Api, backend: BackendId) -> ScheduledActionId {
    let (mut occurrence, policy) = (occurrence(api), api.app.retry_policy());
    let deliveries = fan_out(&mut occurrence, &[backend], api.clock.now(), (&policy, 0.0));
    let id = deliveries[0].id;
    let deliveries: Vec<_> = deliveries.into_iter().map(|delivery| (delivery, None)).collect();
    let tx = api.app.store.begin().await.unwrap();
    assert!(trigger::insert_occurrence(&*tx, &occurrence).await.unwrap());
    executor::insert_deliveries(&*tx, &deliveries).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    id
}
