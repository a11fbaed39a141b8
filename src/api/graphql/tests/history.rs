//! What happened: deliveries and attempts, retries, backends, the live tail.

use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::socket::Client;
use super::*;

/// A server with an application, a trigger and a backend that answers with `status`.
pub(super) struct Scene {
    pub(super) server: Server,
    pub(super) application: String,
    pub(super) trigger: String,
    machine: String,
    backend: MockServer,
}

impl Scene {
    /// A delivery fails after its first attempt, which is the only one.
    pub(super) async fn new(status: u16) -> Self {
        let server = Server::with(&[
            ("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1"),
            ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
        ])
        .await;
        let application = server.application("p").await;
        let trigger = server.trigger(&application, "T").await;
        let made = server
            .data(
                "mutation($application: ID!) { createMachineUser(input: {
                    applicationId: $application, name: \"M\", environment: \"e\", username: \"m\"
                }) { token } }",
                json!({ "application": application }),
            )
            .await;
        let machine = format!("Bearer {}", made["createMachineUser"]["token"].as_str().unwrap());
        let backend = MockServer::start().await;
        let answer = ResponseTemplate::new(status);
        Mock::given(method("POST")).respond_with(answer).mount(&backend).await;
        let scene = Self { server, application, trigger, machine, backend };
        scene.register().await;
        scene
    }

    async fn register(&self) {
        let body = json!({ "name": "b", "callbackUrl": format!("{}/x", self.backend.uri()) });
        let request = Request::post("/api/machine/register-backend")
            .header("authorization", &self.machine)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let answer = self.server.send(request).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Runs the trigger and all that comes of it.
    pub(super) async fn run(&self) {
        let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
        self.server.data(run, json!({ "id": self.trigger })).await;
        self.work().await;
    }

    async fn work(&self) {
        let executor = crate::executor::Executor::new(Arc::clone(&self.server.app));
        executor.run_until_idle().await.unwrap();
    }

    async fn delivery(&self) -> Value {
        let query = "{ deliveries { totalCount nodes {
            id status attemptCount nextAttemptAt lastError
            attempts { number status responseStatus durationMs reason errorMessage createdAt }
            backend { name active lastHeartbeatAt } occurrence { status failedCount }
        } } }";
        let data = self.server.data(query, Value::Null).await;
        assert_eq!(data["deliveries"]["totalCount"], 1);
        data["deliveries"]["nodes"][0].clone()
    }

    async fn retry(&self, id: &Value) -> Answer {
        let retry = "mutation($id: ID!) { retryDelivery(id: $id) { id status nextAttemptAt } }";
        self.server.ask(retry, json!({ "id": id })).await
    }

    async fn delete_backend(&self) -> Value {
        let id = self.server.data("{ backends { nodes { id } } }", Value::Null).await;
        let id = &id["backends"]["nodes"][0]["id"];
        let delete = "mutation($id: ID!) { deleteBackend(id: $id) { id name } }";
        self.server.data(delete, json!({ "id": id })).await["deleteBackend"].clone()
    }
}

#[tokio::test]
async fn a_failed_delivery_tells_what_was_tried_and_can_be_retried() {
    let scene = Scene::new(500).await;
    scene.run().await;
    let failed = scene.delivery().await;
    assert_eq!(failed["status"], "FAILED");
    assert_eq!(failed["attempts"][0]["number"], 1);
    assert_eq!(failed["attempts"][0]["status"], "ERROR");
    assert_eq!(failed["attempts"][0]["responseStatus"], 500);
    assert_eq!(failed["nextAttemptAt"], Value::Null);
    assert_eq!(failed["backend"]["name"], "b");
    assert_eq!(failed["backend"]["active"], true);
    assert_eq!(failed["occurrence"], json!({ "status": "FAILED", "failedCount": 1 }));
    let retried = scene.retry(&failed["id"]).await.json();
    assert_eq!(retried["data"]["retryDelivery"]["status"], "PENDING", "{retried}");
    assert_eq!(retried["data"]["retryDelivery"]["nextAttemptAt"], "2026-03-01T12:00:00Z");
    let twice = scene.retry(&failed["id"]).await;
    assert_eq!(twice.code(), "CONFLICT");
    assert!(twice.text.contains("this one is pending"), "{}", twice.text);
    scene.backend.reset().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(204))
        .mount(&scene.backend)
        .await;
    scene.work().await;
    let delivered = scene.delivery().await;
    assert_eq!(delivered["status"], "COMPLETED", "{delivered}");
    assert_eq!(delivered["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(delivered["occurrence"]["status"], "DELIVERED");
    let log = "{ auditLogs(filter: { action: \"delivery.retry\" }) { nodes { before after } } }";
    let log = scene.server.data(log, Value::Null).await;
    let rows = log["auditLogs"]["nodes"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["before"]["status"], "failed");
    assert_eq!(rows[0]["after"]["status"], "pending");
}

#[tokio::test]
async fn what_was_delivered_is_not_retried() {
    let scene = Scene::new(200).await;
    scene.run().await;
    let delivered = scene.delivery().await;
    assert_eq!(delivered["status"], "COMPLETED", "{delivered}");
    let refused = scene.retry(&delivered["id"]).await;
    assert_eq!(refused.code(), "CONFLICT");
    assert!(refused.text.contains("this one is completed"), "{}", refused.text);
}

#[tokio::test]
async fn a_delivery_of_a_deleted_backend_is_not_retried() {
    let scene = Scene::new(500).await;
    scene.run().await;
    assert_eq!(scene.delete_backend().await["name"], "b");
    let delivery = scene.delivery().await;
    assert_eq!(delivery["backend"], Value::Null);
    let refused = scene.retry(&delivery["id"]).await;
    assert_eq!(refused.code(), "CONFLICT");
    assert!(refused.text.contains("the backend of this delivery was deleted"), "{}", refused.text);
}

#[tokio::test]
async fn a_delivery_of_a_deleted_trigger_is_not_retried() {
    let scene = Scene::new(500).await;
    scene.run().await;
    let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { id } }";
    scene.server.data(delete, json!({ "id": scene.trigger })).await;
    let delivery = scene.delivery().await;
    let refused = scene.retry(&delivery["id"]).await;
    assert_eq!(refused.code(), "CONFLICT");
    assert!(refused.text.contains("the trigger of this delivery was deleted"), "{}", refused.text);
}

#[tokio::test]
async fn only_a_maintainer_retries_and_nobody_else_knows_of_it() {
    let scene = Scene::new(500).await;
    scene.run().await;
    let id = scene.delivery().await["id"].clone();
    let stranger = scene.server.stranger().await;
    let retry = "mutation($id: ID!) { retryDelivery(id: $id) { id } }";
    let hidden = scene.server.ask_as(&stranger, retry, json!({ "id": id })).await;
    assert_eq!(hidden.code(), "NOT_FOUND");
    let join = "mutation($project: ID!) { addProjectMember(input: {
        projectId: $project, email: \"eve@example.com\", role: MEMBER
    }) { role user { email } project { slug } } }";
    let project = scene.server.data("{ project(slug: \"p\") { id } }", Value::Null).await;
    let joined = scene.server.data(join, json!({ "project": project["project"]["id"] })).await;
    assert_eq!(
        joined["addProjectMember"],
        json!({
            "role": "MEMBER", "user": { "email": "eve@example.com" }, "project": { "slug": "p" },
        })
    );
    let refused = scene.server.ask_as(&stranger, retry, json!({ "id": id })).await;
    assert_eq!(refused.code(), "FORBIDDEN");
    assert_eq!(scene.delivery().await["status"], "FAILED");
}

#[tokio::test]
async fn backends_are_listed_by_whether_they_are_active() {
    let scene = Scene::new(200).await;
    let query = "{
        active: backends(filter: { active: true }) { nodes { name callbackUrl } }
        inactive: backends(filter: { active: false }) { nodes { name } }
    }";
    let data = scene.server.data(query, Value::Null).await;
    assert_eq!(data["active"]["nodes"][0]["name"], "b");
    assert_eq!(data["inactive"]["nodes"], json!([]));
    scene.server.clock.advance(chrono::Duration::minutes(2));
    let data = scene.server.data(query, Value::Null).await;
    assert_eq!(data["active"]["nodes"], json!([]));
    assert_eq!(data["inactive"]["nodes"][0]["name"], "b");
}

#[tokio::test]
async fn who_watches_is_told_of_attempts_of_its_application_only() {
    let scene = Scene::new(200).await;
    let mut client = Client::ready(&scene.server).await;
    let other = scene.server.application("q").await;
    for (id, application) in [("own", &scene.application), ("other", &other)] {
        client
            .subscribe(
                id,
                &format!(
                    "subscription {{ occurrences(applicationId: \"{application}\") {{
                        status deliveredCount trigger {{ name }} deliveries {{ status }}
                    }} }}"
                ),
            )
            .await;
    }
    client
        .subscribe(
            "deliveries",
            &format!(
                "subscription {{ deliveries(applicationId: \"{}\") {{
                    status attempts {{ number status }}
                }} }}",
                scene.application
            ),
        )
        .await;
    client.watching(&scene.server, 3).await;
    scene.run().await;
    let mut told = [client.next().await, client.next().await];
    told.sort_by_key(|message| message["id"].to_string());
    let delivery = json!({
        "status": "COMPLETED", "attempts": [{ "number": 1, "status": "SUCCESS" }],
    });
    let occurrence = json!({
        "status": "DELIVERED", "deliveredCount": 1, "trigger": { "name": "T" },
        "deliveries": [{ "status": "COMPLETED" }],
    });
    assert_eq!(told[0]["payload"], json!({ "data": { "deliveries": delivery } }));
    assert_eq!(told[1]["payload"], json!({ "data": { "occurrences": occurrence } }));
    assert_eq!(told[1]["id"], "own");
}

#[tokio::test]
async fn an_application_out_of_sight_can_not_be_watched() {
    let server = Server::new().await;
    let application = server.application("p").await;
    let stranger = server.stranger().await;
    let mut client = Client::ready_as(&server, &stranger).await;
    for id in [application.as_str(), "nonsense"] {
        let query = format!("subscription {{ deliveries(applicationId: \"{id}\") {{ id }} }}");
        client.subscribe("1", &query).await;
        let refused = client.next().await;
        let error = &refused["payload"]["errors"][0];
        assert_eq!(error["extensions"]["code"], "NOT_FOUND", "{refused}");
        assert_eq!(error["message"], "application not found");
        assert_eq!(client.next().await["type"], "complete");
    }
}
