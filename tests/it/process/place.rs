//! Where a process runs: a folder of its own, and a database that is not there yet.

use std::path::PathBuf;

use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use trigger_manager::store::Engine;
use url::Url;
use uuid::Uuid;

use crate::client::Client;
use crate::harness::{administration, engine, postgres_url};
use crate::receiver::Receiver;

/// The token of the first administrator, where a test does not want to read it.
pub const TOKEN: &str = "pfy_0123456789012345678901234567890123456789012";

/// The folder is gone with it; a PostgreSQL database goes with the throw-away server.
pub struct Place {
    pub folder: PathBuf,
    database: String,
}

impl Place {
    pub async fn new() -> Self {
        let name = format!("p_{}", Uuid::now_v7().simple());
        let folder = std::env::temp_dir().join("trigger-manager-tests").join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let database = match engine() {
            Engine::Sqlite => format!("sqlite://{}/data.db?mode=rwc", folder.display()),
            Engine::Postgres => {
                let connection = administration().await;
                let create = format!("CREATE DATABASE {name}");
                connection.execute_unprepared(&create).await.unwrap();
                connection.close().await.unwrap();
                let mut url = Url::parse(&postgres_url()).unwrap();
                url.set_path(&name);
                url.into()
            }
        };
        Self { folder, database }
    }

    /// What every process is told. Free ports, short waits.
    pub fn settings(&self) -> Vec<(&str, String)> {
        let mut settings = vec![("PFY_DATABASE_URL", self.database.clone())];
        let fixed = [
            ("PFY_SECRET_KEY", "a passphrase of the tests"),
            ("PFY_HTTP_ADDR", "127.0.0.1:0"),
            ("PFY_CRON_METRICS_PORT", "0"),
            ("PFY_CRON_TIME_ZONE", "UTC"),
            ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1s"),
            ("PFY_CRON_BACKEND_HEARTBEAT_TIMEOUT", "1h"),
            ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
            ("PFY_DATABASE_MAX_CONNECTIONS", "5"),
        ];
        settings.extend(fixed.map(|(key, value)| (key, value.to_owned())));
        settings
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// An application with a backend at `/hook` of `receiver`, and a trigger; its id.
pub async fn furnish(administrator: &Client, receiver: &Receiver, trigger: Value) -> String {
    let project = "mutation { createProject(input: { slug: \"shop\", name: \"Shop\" }) { id } }";
    let project = administrator.data(project, Value::Null).await;
    let application = "mutation($project: ID!) { createApplication(input: {
        projectId: $project, slug: \"reports\", name: \"Reports\" }) { id } }";
    let variables = json!({ "project": project["createProject"]["id"] });
    let application = administrator.data(application, variables).await;
    let application = &application["createApplication"]["id"];
    let body = json!({
        "name": "hook", "callbackUrl": receiver.url("/hook"), "applicationId": application,
    });
    let answer = administrator.post("/api/machine/register-backend", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let create = "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
    let mut input = json!({
        "applicationId": application, "name": "T", "runKey": "t", "cronExpression": "@daily",
    });
    input.as_object_mut().unwrap().extend(trigger.as_object().unwrap().clone());
    let made = administrator.data(create, json!({ "input": input })).await;
    made["createTrigger"]["id"].as_str().unwrap().to_owned()
}
