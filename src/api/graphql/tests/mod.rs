//! The schema and the edge, over a database of their own.

mod documents;
mod errors;
mod guards;
mod history;
mod http;
mod library;
mod schema;
mod server;
mod socket;
mod subscriptions;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use chrono::{DateTime, TimeZone, Utc};
use http_body_util::BodyExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::app::{App, Parts};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::domain::cron::Zone;
use crate::egress::{AddressPolicy, Egress, EgressConfig};
use crate::secrets::SecretKey;
use crate::store::{Options, Store};

/// The whole API over an SQLite file in a folder that goes when the test is over.
pub(super) struct Server {
    pub(super) app: Arc<App>,
    router: Router,
    token: SecretString,
    clock: ManualClock,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What was answered.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    fn code(&self) -> Value {
        self.json()["errors"][0]["extensions"]["code"].clone()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("pfy-api-{}", uuid::Uuid::now_v7()))
}

fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

impl Server {
    pub(super) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With these `PFY_` variables. Its one user is an administrator.
    async fn with(variables: &[(&str, &str)]) -> Self {
        let folder = folder();
        let clock = ManualClock::new(start());
        let parts = parts(&folder, &clock, variables).await;
        parts.store.migrate().await.unwrap();
        let app = Arc::new(App::new(parts).unwrap());
        let token = app.bootstrap().await.unwrap().token.unwrap();
        Self { router: crate::api::router(Arc::clone(&app)), app, token, clock, folder }
    }

    /// On a database without tables.
    async fn empty() -> Self {
        let folder = folder();
        let clock = ManualClock::new(start());
        let app = Arc::new(App::new(parts(&folder, &clock, &[]).await).unwrap());
        let router = crate::api::router(Arc::clone(&app));
        Self { app, router, token: SecretString::default(), clock, folder }
    }

    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.token.expose_secret())
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// A POST of `body` by nobody, as JSON unless `headers` say otherwise.
    async fn post(&self, body: impl Into<Body>, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::post("/graphql");
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    async fn get(&self, address: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::get(address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// A document by nobody.
    async fn anonymous(&self, query: &str) -> Answer {
        self.post(json!({ "query": query }).to_string(), &[]).await
    }

    /// A document by the administrator.
    async fn ask(&self, query: &str, variables: Value) -> Answer {
        self.ask_as(&self.bearer(), query, variables).await
    }

    async fn ask_as(&self, bearer: &str, query: &str, variables: Value) -> Answer {
        let body = json!({ "query": query, "variables": variables }).to_string();
        self.post(body, &[("authorization", bearer)]).await
    }

    /// What a document of the administrator that must succeed answers.
    pub(super) async fn data(&self, query: &str, variables: Value) -> Value {
        let answer = self.ask(query, variables).await.json();
        assert!(answer.get("errors").is_none(), "{answer}");
        answer["data"].clone()
    }

    /// The id of a new application in a new project.
    pub(super) async fn application(&self, slug: &str) -> String {
        let project = self
            .data(
                "mutation($slug: String!) {
                    createProject(input: { slug: $slug, name: \"P\" }) { id }
                }",
                json!({ "slug": slug }),
            )
            .await;
        let application = self
            .data(
                "mutation($project: ID!) {
                    createApplication(input: { projectId: $project, slug: \"a\", name: \"A\" }) {
                        id
                    }
                }",
                json!({ "project": project["createProject"]["id"] }),
            )
            .await;
        application["createApplication"]["id"].as_str().unwrap().to_owned()
    }

    /// The id of a new enabled trigger.
    async fn trigger(&self, application: &str, name: &str) -> String {
        let made = self
            .data(
                "mutation($application: ID!, $name: String!) {
                    createTrigger(input: {
                        applicationId: $application, name: $name, runKey: \"k\"
                        cronExpression: \"0 0 * * * *\", enabled: true
                    }) { id }
                }",
                json!({ "application": application, "name": name }),
            )
            .await;
        made["createTrigger"]["id"].as_str().unwrap().to_owned()
    }

    /// The token of a new user who is a member of no project.
    async fn stranger(&self) -> String {
        self.data(
            "mutation { createUser(input: {
                email: \"eve@example.com\", name: \"Eve\", password: \"correct horse battery\"
            }) { id } }",
            Value::Null,
        )
        .await;
        let answer = self
            .anonymous(
                "mutation { signIn(
                    email: \"eve@example.com\", password: \"correct horse battery\"
                ) { token } }",
            )
            .await;
        format!("Bearer {}", answer.json()["data"]["signIn"]["token"].as_str().unwrap())
    }

    /// Serves on a port of its own.
    async fn listen(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }
}

async fn parts(folder: &std::path::Path, clock: &ManualClock, variables: &[(&str, &str)]) -> Parts {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let options = Options {
        url: format!("sqlite://{}", folder.join("data.db").display()),
        max_connections: 4,
        schema: None,
    };
    Parts {
        store: Store::connect(&options).await.unwrap(),
        clock: Arc::new(clock.clone()),
        config: Config::load(None, variables).unwrap(),
        zone: Zone::parse("Europe/Amsterdam").unwrap(),
        egress: Egress::new(EgressConfig {
            policy: AddressPolicy::new(vec!["127.0.0.0/8".parse().unwrap()]),
            timeout: std::time::Duration::from_secs(5),
            max_response_bytes: 1024,
            max_idle_per_host: 1,
            user_agent: "test".to_owned(),
        })
        .unwrap(),
        key: SecretKey::from_text(&SecretString::from("a passphrase of the tests")).unwrap(),
    }
}
