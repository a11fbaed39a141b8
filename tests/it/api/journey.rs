//! From an empty database to a delivery, and what follows it.

use serde_json::{Value, json};
use trigger_manager::api;

use crate::app::TestApp;
use crate::client::Client;
use crate::receiver::Answer;
use crate::served::listen;

/// A server, and what the README's steps make there.
struct Journey {
    test: TestApp,
    administrator: Client,
    machine: Client,
    application: String,
}

const CREATE_TRIGGER: &str = "mutation($input: CreateTriggerInput!) {
    createTrigger(input: $input) { id nextRunAt timeZone effectiveTimeZone scheduleDescription } }";

impl Journey {
    async fn begin() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> Self {
        let test = TestApp::with(settings).await;
        let anonymous = Client::new(&listen(api::router(test.app.clone())).await);
        let made =
            test.app.create_personal_access_token(&test.caller, "tests", None).await.unwrap();
        let token = secrecy::ExposeSecret::expose_secret(&made.0).to_owned();
        let administrator = anonymous.bearer(&token);
        let project =
            "mutation { createProject(input: {slug: \"books\", name: \"Books\"}) { id } }";
        let project = administrator.data(project, Value::Null).await;
        let application = "mutation($project: ID!) { createApplication(input: {
            projectId: $project, slug: \"reports\", name: \"Reports\"}) { id } }";
        let variables = json!({ "project": project["createProject"]["id"] });
        let application = administrator.data(application, variables).await;
        let application = application["createApplication"]["id"].as_str().unwrap().to_owned();
        let machine_user = "mutation($application: ID!) { createMachineUser(input: {
            applicationId: $application, name: \"Reports backend\", environment: \"production\",
            username: \"reports\", password: \"a long password\"}) { machineUser { id } token } }";
        let variables = json!({ "application": application });
        let made = administrator.data(machine_user, variables).await;
        let token = made["createMachineUser"]["token"].as_str().unwrap();
        assert!(token.starts_with("muser_"), "{token}");
        let machine = anonymous.bearer(token);
        Self { test, administrator, machine, application }
    }

    /// As the published sample does it: three fields, and the machine user's token.
    async fn register(&self) -> Value {
        let body = json!({
            "name": "reports",
            "callbackUrl": self.test.receiver.url("/reports"),
            "description": "Makes the reports",
        });
        let answer = self.machine.post("/api/machine/register-backend", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let registered = answer.json();
        assert_eq!(registered["applicationId"], self.application.as_str());
        registered
    }

    async fn trigger(&self, more: Value) -> Value {
        let mut input = json!({
            "applicationId": self.application, "name": "Daily Report", "runKey": "daily-report",
            "cronExpression": "*/10 * * * * *", "enabled": true,
        });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut data = self.administrator.data(CREATE_TRIGGER, json!({ "input": input })).await;
        data["createTrigger"].take()
    }

    async fn update(&self, id: &Value, input: Value) -> Value {
        let query = "mutation($id: ID!, $input: UpdateTriggerInput!) {
            updateTrigger(id: $id, input: $input) { name timeZone effectiveTimeZone nextRunAt } }";
        let mut data = self.administrator.data(query, json!({ "id": id, "input": input })).await;
        data["updateTrigger"].take()
    }

    fn ids_received(&self) -> Vec<String> {
        let received = self.test.receiver.received_at("/reports");
        received.iter().map(|one| one.header("webhook-id").to_owned()).collect()
    }

    async fn occurrences(&self) -> Value {
        let query = "query($application: ID!) { occurrences(
            filter: {applicationId: $application}, first: 3) { nodes {
                id scheduledAt status origin trigger { name } deliveries {
                    id status attemptCount attempts { number status responseStatus } } } } }";
        let variables = json!({ "application": self.application });
        let mut data = self.administrator.data(query, variables).await;
        data["occurrences"]["nodes"].take()
    }
}

#[tokio::test]
async fn the_steps_of_the_readme_lead_to_a_delivery() {
    let journey = Journey::begin().await;
    let registered = journey.register().await;
    let trigger = journey.trigger(json!({})).await;
    assert_eq!(trigger["nextRunAt"], "2026-03-02T12:00:10Z");
    journey.test.advance(10);
    journey.test.run().await;
    let occurrences = journey.occurrences().await;
    assert_eq!(occurrences.as_array().unwrap().len(), 1, "{occurrences}");
    let occurrence = &occurrences[0];
    assert_eq!(occurrence["status"], "DELIVERED");
    assert_eq!(occurrence["scheduledAt"], "2026-03-02T12:00:10Z");
    let delivery = &occurrence["deliveries"][0];
    assert_eq!(
        delivery["attempts"],
        json!([
            { "number": 1, "status": "SUCCESS", "responseStatus": 200 }
        ])
    );
    let received = journey.test.receiver.received_at("/reports").remove(0);
    let token = registered["token"].as_str().unwrap();
    assert_eq!(received.header("authorization"), format!("Bearer {token}"));
    assert_eq!(received.header("webhook-id"), delivery["id"].as_str().unwrap());
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    assert_eq!(
        body,
        json!({
            "trigger_id": trigger["id"], "trigger_name": "Daily Report",
            "cron_expression": "*/10 * * * * *", "run_key": "daily-report",
            "executed_at": "2026-03-02T12:00:10Z",
        })
    );
}

#[tokio::test]
async fn a_zone_that_is_null_goes_and_one_that_is_left_out_stays() {
    let journey = Journey::begin().await;
    let more = json!({ "timeZone": "Asia/Tokyo", "cronExpression": "0 0 9 * * *" });
    let trigger = journey.trigger(more).await;
    assert_eq!(trigger["nextRunAt"], "2026-03-03T00:00:00Z");
    let id = &trigger["id"];
    let renamed = journey.update(id, json!({ "name": "Renamed" })).await;
    assert_eq!((&renamed["name"], &renamed["timeZone"]), (&json!("Renamed"), &json!("Asia/Tokyo")));
    assert_eq!(renamed["nextRunAt"], "2026-03-03T00:00:00Z");
    let moved = journey.update(id, json!({ "timeZone": null, "name": null })).await;
    assert_eq!((&moved["name"], &moved["timeZone"]), (&json!("Renamed"), &Value::Null));
    assert_eq!(moved["effectiveTimeZone"], "UTC");
    assert_eq!(moved["nextRunAt"], "2026-03-03T09:00:00Z");
}

#[tokio::test]
async fn a_disabled_trigger_runs_when_a_person_runs_it() {
    let journey = Journey::begin().await;
    journey.register().await;
    let trigger = journey.trigger(json!({ "enabled": false })).await;
    assert_eq!(trigger["nextRunAt"], Value::Null);
    let run = "mutation($id: ID!) { runTrigger(id: $id) { id origin status } }";
    let run = journey.administrator.data(run, json!({ "id": trigger["id"] })).await;
    assert_eq!(run["runTrigger"]["origin"], "MANUAL");
    journey.test.run().await;
    let occurrence = journey.occurrences().await[0].take();
    assert_eq!(occurrence["id"], run["runTrigger"]["id"]);
    assert_eq!(occurrence["status"], "DELIVERED");
    assert_eq!(journey.test.receiver.received_at("/reports").len(), 1);
}

#[tokio::test]
async fn a_failed_delivery_is_tried_again_on_demand() {
    let journey = Journey::with(&[("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1")]).await;
    journey.register().await;
    journey.trigger(json!({})).await;
    journey.test.receiver.next("/reports", [Answer::Status(500)]);
    journey.test.advance(10);
    journey.test.run().await;
    let occurrence = journey.occurrences().await[0].take();
    assert_eq!(occurrence["status"], "FAILED", "{occurrence}");
    let delivery = &occurrence["deliveries"][0];
    let retry = "mutation($id: ID!) { retryDelivery(id: $id) { id status } }";
    let variables = json!({ "id": delivery["id"] });
    let retried = journey.administrator.data(retry, variables.clone()).await;
    assert_eq!(retried["retryDelivery"]["status"], "PENDING");
    let again = journey.administrator.graphql(retry, variables).await;
    assert_eq!(again.code(), "CONFLICT", "{}", again.body);
    journey.test.run().await;
    let occurrence = journey.occurrences().await[0].take();
    assert_eq!(occurrence["status"], "DELIVERED", "{occurrence}");
    assert_eq!(journey.ids_received(), [delivery["id"].as_str().unwrap(); 2]);
}

#[tokio::test]
async fn a_backend_that_is_gone_gets_its_call_when_it_registers_again() {
    let journey = Journey::begin().await;
    journey.register().await;
    journey.trigger(json!({})).await;
    journey.test.receiver.next("/reports", [Answer::Status(410)]);
    journey.test.advance(10);
    journey.test.run().await;
    let backend = "{ backends { nodes { active deactivatedAt deactivatedReason } } }";
    let backend = journey.administrator.data(backend, Value::Null).await;
    assert_eq!(backend["backends"]["nodes"][0]["active"], false, "{backend}");
    assert_eq!(journey.occurrences().await[0]["status"], "PENDING");
    let beat = json!({ "name": "reports" });
    let beat = journey.machine.post("/api/machine/heartbeat", &beat).await;
    assert_eq!((beat.status, beat.code().as_str()), (409, "CONFLICT"), "{beat:?}");
    let body = json!({ "name": "reports", "callbackUrl": journey.test.receiver.url("/reports") });
    let answer = journey.machine.post("/api/machine/register-backend", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json().get("token").is_none(), "a token is shown once: {answer:?}");
    journey.test.run().await;
    let occurrence = journey.occurrences().await[0].take();
    assert_eq!(occurrence["status"], "DELIVERED", "{occurrence}");
    let id = occurrence["deliveries"][0]["id"].as_str().unwrap();
    assert_eq!(journey.ids_received(), [id; 2]);
}
