//! Tests of the REST surface: the router of the server on a database of its own.

mod door;
mod heartbeat;
mod others;
mod reference;
mod register;
mod secrets;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use chrono::{DateTime, TimeZone, Utc};
use http_body_util::BodyExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_http::request_id::RequestId;
use uuid::Uuid;

use crate::app::{App, Parts};
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::domain::access::{Role, Scope};
use crate::domain::application::{Application, Backend, MachineUser};
use crate::domain::audit::AuditLog;
use crate::domain::cron::Zone;
use crate::domain::id::*;
use crate::domain::page::PageRequest;
use crate::domain::people::{PersonalAccessToken, Project, ProjectMember, User};
use crate::egress::{AddressPolicy, Egress, EgressConfig};
use crate::secrets::{Password, SecretKey, TokenKind, generate_token};
use crate::store::application::MachineCredentials;
use crate::store::{Options, Store, application, audit, people};

const PASSWORD: &str = "correct horse battery staple";
const REQUEST_ID: &str = "request-7";

/// The server's REST surface with one project, application and machine user.
struct Api {
    app: Arc<App>,
    clock: ManualClock,
    project: ProjectId,
    application: ApplicationId,
    machine: MachineUserId,
    /// The machine user's `Authorization`.
    auth: String,
    folder: PathBuf,
}

/// An answer, read whole.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The document, once status, media type and the fields that always stand are checked.
    #[track_caller]
    fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], "about:blank");
        assert_eq!(problem["title"], self.status.canonical_reason().unwrap());
        assert_eq!(problem["requestId"], REQUEST_ID);
        assert!(problem["instance"].as_str().unwrap().starts_with("/api"), "{problem}");
        assert!(problem["detail"].as_str().unwrap().len() > 10, "{problem}");
        problem
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Api {
    /// Callbacks may reach 127.0.0.0/8.
    async fn new() -> Self {
        Self::allowing(&["127.0.0.0/8"]).await
    }

    async fn allowing(networks: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("pfy-rest-{}", Uuid::now_v7()));
        let clock = ManualClock::new(Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap());
        let app = Arc::new(App::new(parts(&folder, &clock, networks).await).unwrap());
        app.store.migrate().await.unwrap();
        let (project, application) = project(&app, "shop").await;
        let (machine, auth) = machine(&app, application, "reports").await;
        Self { app, clock, project, application, machine, auth, folder }
    }

    fn router(&self) -> Router {
        super::router().with_state(self.app.clone())
    }

    async fn send(&self, mut request: Request<Body>) -> Answer {
        request.extensions_mut().insert(RequestId::new(HeaderValue::from_static(REQUEST_ID)));
        let response = self.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn call(&self, method: Method, path: &str, auth: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !auth.is_empty() {
            request = request.header(AUTHORIZATION, auth);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |json| Body::from(json.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &self.auth, None).await
    }

    async fn register(&self, body: Value) -> Answer {
        self.register_as(&self.auth, body).await
    }

    async fn register_as(&self, auth: &str, body: Value) -> Answer {
        self.call(Method::POST, "/api/machine/register-backend", auth, Some(&body)).await
    }

    async fn heartbeat(&self, body: Value) -> Answer {
        self.call(Method::POST, "/api/machine/heartbeat", &self.auth, Some(&body)).await
    }

    async fn delete(&self, auth: &str, id: &str) -> Answer {
        self.call(Method::DELETE, &format!("/api/machine/backends/{id}"), auth, None).await
    }

    /// A user's `Authorization`; with a role, in the project.
    async fn user(&self, email: &str, role: Option<Role>) -> String {
        user(&self.app, email, role.map(|role| (self.project, role))).await
    }

    async fn backends(&self) -> Vec<Backend> {
        application::backends_of(self.app.store.read(), &[self.application]).await.unwrap()
    }

    /// The audit log, oldest first.
    async fn audited(&self) -> Vec<AuditLog> {
        let request = PageRequest { limit: 200, ..PageRequest::default() };
        let (scope, filter) = (Scope::Everything, audit::Filter::default());
        let page = audit::list(self.app.store.read(), scope, &filter, &request).await.unwrap();
        page.rows.into_iter().rev().map(|(_, row)| row).collect()
    }

    async fn actions(&self) -> Vec<String> {
        self.audited().await.into_iter().map(|row| row.action).collect()
    }

    /// Deactivates a backend, as an answer 410 does.
    async fn deactivate(&self, id: BackendId) {
        let tx = self.app.store.begin().await.unwrap();
        let (mut backend, secrets) =
            application::backend(&*tx, Scope::Everything, id).await.unwrap();
        backend.deactivated_at = Some(self.clock.now());
        backend.deactivated_reason = Some("it answered 410".to_owned());
        application::upsert_backend(&*tx, &backend, &secrets).await.unwrap();
        tx.commit_unaudited().await.unwrap();
    }
}

/// What the published sample sends.
fn sample() -> Value {
    json!({
        "name": "report-worker",
        "callbackUrl": "http://127.0.0.1:9000/hooks/triggers",
        "description": "Builds the nightly reports",
    })
}

fn id_of(answer: &Answer) -> BackendId {
    answer.json()["id"].as_str().unwrap().parse().unwrap()
}

async fn parts(folder: &std::path::Path, clock: &ManualClock, networks: &[&str]) -> Parts {
    let options = Options {
        url: format!("sqlite://{}", folder.join("data.db").display()),
        max_connections: 4,
        schema: None,
    };
    Parts {
        store: Store::connect(&options).await.unwrap(),
        clock: Arc::new(clock.clone()),
        config: Config::load(None, std::iter::empty()).unwrap(),
        zone: Zone::parse("UTC").unwrap(),
        egress: Egress::new(EgressConfig {
            policy: AddressPolicy::new(networks.iter().map(|net| net.parse().unwrap()).collect()),
            timeout: std::time::Duration::from_secs(20),
            max_response_bytes: 1024,
            max_idle_per_host: 1,
            user_agent: "test".to_owned(),
        })
        .unwrap(),
        key: SecretKey::from_text(&SecretString::from("a passphrase of the tests")).unwrap(),
    }
}

async fn project(app: &App, slug: &str) -> (ProjectId, ApplicationId) {
    let now = app.now();
    let project = Project {
        id: ProjectId::new(),
        slug: slug.to_owned(),
        name: "Shop".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let application = Application {
        id: ApplicationId::new(),
        project_id: project.id,
        slug: "reports".to_owned(),
        name: "Reports".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let tx = app.store.begin().await.unwrap();
    people::insert_project(&*tx, &project).await.unwrap();
    application::insert(&*tx, &application).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    (project.id, application.id)
}

/// A machine user of the environment `production`, and its `Authorization`.
async fn machine(
    app: &App,
    application_id: ApplicationId,
    username: &str,
) -> (MachineUserId, String) {
    let (token, now) = (generate_token(TokenKind::MachineUser), app.now());
    let machine_user = MachineUser {
        id: MachineUserId::new(),
        application_id,
        name: "Reports".to_owned(),
        environment: "production".to_owned(),
        username: username.to_owned(),
        token_prefix: token.prefix,
        created_at: now,
        updated_at: now,
    };
    let credentials = MachineCredentials {
        password_hash: Some(Password::parse(PASSWORD).unwrap().hash().unwrap()),
        token_hash: token.hash.to_string(),
    };
    let tx = app.store.begin().await.unwrap();
    application::insert_machine_user(&*tx, &machine_user, &credentials).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    (machine_user.id, format!("Bearer {}", token.secret.expose_secret()))
}

async fn user(app: &App, email: &str, member: Option<(ProjectId, Role)>) -> String {
    let (token, now) = (generate_token(TokenKind::Personal), app.now());
    let user = User {
        id: UserId::new(),
        email: email.to_owned(),
        name: "Ada".to_owned(),
        administrator: false,
        disabled_at: None,
        created_at: now,
        updated_at: now,
    };
    let row = PersonalAccessToken {
        id: PersonalAccessTokenId::new(),
        user_id: user.id,
        name: "ci".to_owned(),
        token_prefix: token.prefix,
        expires_at: None,
        last_used_at: None,
        created_at: now,
    };
    let tx = app.store.begin().await.unwrap();
    people::insert_user(&*tx, &user, None).await.unwrap();
    people::insert_token(&*tx, &row, &token.hash.to_string()).await.unwrap();
    if let Some((project_id, role)) = member {
        let id = ProjectMemberId::new();
        let (user_id, created_at, updated_at) = (user.id, now, now);
        let member = ProjectMember { id, project_id, user_id, role, created_at, updated_at };
        people::insert_member(&*tx, &member).await.unwrap();
    }
    tx.commit_unaudited().await.unwrap();
    format!("Bearer {}", token.secret.expose_secret())
}

fn at(answer: &Value) -> DateTime<Utc> {
    answer.as_str().unwrap().parse().unwrap()
}
