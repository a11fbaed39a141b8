//! A server that listens, in a world with everything in it, and a client for each role.
//!
//! The project `shop` has the application `reports`, which has one of everything: a trigger, a
//! backend, a tenant, a machine user, a workflow, a delivered and a failed delivery. Beside it stand
//! the application `billing` and a LINE OA, and beside the project that of an outsider.

mod line;
mod rules;

use std::collections::BTreeMap;

use axum::Router;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use trigger_manager::app::{
    AddProjectMember, CreateApplication, CreateMachineUser, CreateProject, CreateTenant,
    CreateUser, UserRef,
};
use trigger_manager::domain::access::{Actor, Role as ProjectRole};
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::id::ApplicationId;
use trigger_manager::domain::people::User;
use trigger_manager::{api, monitor};

use crate::app::TestApp;
use crate::client::Client;
use crate::receiver::Answer;

pub use line::LINE_USER;
pub(crate) use rules::within;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Without credentials.
    Anonymous,
    /// A user of another project.
    Outsider,
    /// The machine user of another application of the same project.
    Sibling,
    /// The machine user of the application.
    Machine,
    Member,
    Maintainer,
    Owner,
    Administrator,
}

pub const PASSWORD: &str = "a password for the tests";

pub struct Served {
    pub test: TestApp,
    /// Ids by name.
    pub ids: BTreeMap<&'static str, String>,
    /// Everything that must never be shown.
    pub secrets: Vec<String>,
    /// Where metrics and health are.
    pub monitor: Client,
    clients: BTreeMap<Role, Client>,
}

impl Served {
    pub async fn new() -> Self {
        let test = TestApp::with(&[
            ("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1"),
            ("PFY_GRAPHQL_MAX_DEPTH", "30"),
            ("PFY_GRAPHQL_MAX_COMPLEXITY", "20000"),
            ("PFY_GRAPHQL_MAX_TOKENS", "50000"),
        ])
        .await;
        let anonymous = Client::new(&listen(api::router(test.app.clone())).await);
        let monitor = Client::new(&listen(monitor::router(test.app.clone())).await);
        let clients = BTreeMap::from([(Role::Anonymous, anonymous)]);
        let secrets = vec![PASSWORD.to_owned()];
        let mut served = Self { test, ids: BTreeMap::new(), secrets, monitor, clients };
        served.ids.insert("project", served.test.application.project_id.to_string());
        served.ids.insert("application", served.test.application.id.to_string());
        served.people().await;
        served.siblings().await;
        served.things().await;
        served.line().await;
        served.history().await;
        served.rules().await;
        served
    }

    pub fn client(&self, role: Role) -> &Client {
        &self.clients[&role]
    }

    pub fn administrator(&self) -> &Client {
        self.client(Role::Administrator)
    }

    pub fn id(&self, name: &str) -> &str {
        self.ids.get(name).unwrap_or_else(|| panic!("the world has no {name}"))
    }

    /// Puts ids in the place of texts such as `$trigger`.
    pub fn fill(&self, value: Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => json!(self.id(name)),
                None => Value::String(text),
            },
            Value::Array(all) => all.into_iter().map(|one| self.fill(one)).collect(),
            Value::Object(all) => {
                all.into_iter().map(|(key, value)| (key, self.fill(value))).collect()
            }
            other => other,
        }
    }

    async fn token(&mut self, name: &'static str, caller: &Caller) -> String {
        let made = self.test.app.create_personal_access_token(caller, name, None).await;
        let (secret, token) = made.unwrap();
        self.ids.insert(name, token.id.to_string());
        self.secrets.push(secret.expose_secret().to_owned());
        secret.expose_secret().to_owned()
    }

    fn join(&mut self, role: Role, token: &str) {
        let client = self.client(Role::Anonymous).bearer(token);
        self.clients.insert(role, client);
    }

    async fn people(&mut self) {
        let caller = self.test.caller.clone();
        self.ids.insert("administrator", caller.actor.id().unwrap().to_string());
        let token = self.token("administratorToken", &caller).await;
        self.join(Role::Administrator, &token);
        let members = [
            ("owner", "ownerToken", Role::Owner, Some(ProjectRole::Owner)),
            ("maintainer", "maintainerToken", Role::Maintainer, Some(ProjectRole::Maintainer)),
            ("member", "memberToken", Role::Member, Some(ProjectRole::Member)),
            ("outsider", "outsiderToken", Role::Outsider, None),
        ];
        for (name, token_name, role, member) in members {
            let user = self.user(name).await;
            if let Some(role) = member {
                self.member(name, role).await;
            }
            let caller = caller_of(&user);
            let token = self.token(token_name, &caller).await;
            self.join(role, &token);
        }
        self.user("leaver").await;
        let membership = self.member("leaver", ProjectRole::Member).await;
        self.ids.insert("membership", membership);
        self.user("newcomer").await;
    }

    async fn user(&mut self, name: &'static str) -> User {
        let password = (name == "owner").then(|| SecretString::from(PASSWORD));
        let email = format!("{name}@example.com");
        let new = CreateUser { email, name: name.into(), password, administrator: false };
        let user = self.test.app.create_user(&self.test.caller, new).await.unwrap();
        self.ids.insert(name, user.id.to_string());
        user
    }

    async fn member(&self, name: &str, role: ProjectRole) -> String {
        let project_id = self.test.application.project_id;
        let user = UserRef::Email(format!("{name}@example.com"));
        let new = AddProjectMember { project_id, user, role };
        self.test.app.add_project_member(&self.test.caller, new).await.unwrap().id.to_string()
    }

    /// What stands beside the application, and beside the project.
    async fn siblings(&mut self) {
        let (app, caller) = (self.test.app.clone(), self.test.caller.clone());
        let project_id = self.test.application.project_id;
        let new = CreateApplication { project_id, slug: "billing".into(), name: "Billing".into() };
        let billing = app.create_application(&caller, new).await.unwrap();
        self.ids.insert("sibling", billing.id.to_string());
        let token = self.machine_user("siblingMachineUser", billing.id).await;
        self.join(Role::Sibling, &token);
        let outsider = self.id("outsider").parse().unwrap();
        let email = "outsider@example.com".to_owned();
        let id = trigger_manager::domain::id::UserId(outsider);
        let actor = Actor::User { id, email, administrator: false, ends: None };
        let caller = Caller { actor, request_id: None };
        let new = CreateProject { slug: "other".into(), name: "Other".into() };
        let other = app.create_project(&caller, new).await.unwrap();
        let (project_id, slug) = (other.id, "reports".into());
        let new = CreateApplication { project_id, slug, name: "Other reports".into() };
        let application = app.create_application(&caller, new).await.unwrap();
        self.ids.insert("otherApplication", application.id.to_string());
    }

    async fn machine_user(&mut self, name: &'static str, application_id: ApplicationId) -> String {
        let new = CreateMachineUser {
            application_id,
            name: name.into(),
            environment: "production".into(),
            username: name.into(),
            password: None,
        };
        let made = self.test.app.create_machine_user(&self.test.caller, new).await;
        let (machine_user, token) = made.unwrap();
        self.ids.insert(name, machine_user.id.to_string());
        self.secrets.push(token.expose_secret().to_owned());
        token.expose_secret().to_owned()
    }

    async fn things(&mut self) {
        let application_id = self.test.application.id;
        let token = self.machine_user("machineUser", application_id).await;
        self.join(Role::Machine, &token);
        self.machine_user("anotherMachineUser", application_id).await;
        let (slug, name, environment) = ("acme".into(), "Acme".into(), "production".into());
        let new = CreateTenant { application_id, slug, name, environment };
        let tenant = self.test.app.create_tenant(&self.test.caller, new).await.unwrap();
        self.ids.insert("tenant", tenant.id.to_string());
        let trigger = self.test.trigger("*/30 * * * * *").await;
        self.ids.insert("trigger", trigger.id.to_string());
        for (id, name) in [("backend", "one"), ("failingBackend", "two")] {
            let url = self.test.receiver.url(&format!("/{name}"));
            let body = json!({ "name": name, "callbackUrl": url, "description": "for tests" });
            let made =
                self.client(Role::Machine).post("/api/machine/register-backend", &body).await;
            assert_eq!(made.status, 201, "{made:?}");
            let made = made.json();
            for secret in ["token", "signingSecret"] {
                self.secrets.push(made[secret].as_str().unwrap().to_owned());
            }
            self.ids.insert(id, made["id"].as_str().unwrap().to_owned());
        }
    }

    async fn history(&mut self) {
        self.test.receiver.next("/two", [Answer::Status(500)]);
        self.test.advance(30);
        self.test.run().await;
        let occurrences = self.test.occurrences().await;
        assert_eq!(occurrences.len(), 1);
        self.ids.insert("occurrence", occurrences[0].id.to_string());
        for delivery in self.test.deliveries().await {
            let failed = delivery.backend_id.to_string() == self.id("failingBackend");
            let name = if failed { "failedDelivery" } else { "delivery" };
            self.ids.insert(name, delivery.id.to_string());
        }
        // A token's first use is noted: not while a test compares.
        self.administrator().data("{ me { id } }", Value::Null).await;
    }
}

fn caller_of(user: &User) -> Caller {
    let User { id, email, administrator, .. } = user.clone();
    Caller { actor: Actor::User { id, email, administrator, ends: None }, request_id: None }
}

/// Serves `router` on a free port of the loopback address; its URL.
pub async fn listen(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let service = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    base
}
