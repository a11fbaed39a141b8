//! A whole server without its listeners: a fresh database, a clock that stands still, an executor
//! that works when told, a backend on loopback, and an administrator.

use std::sync::Arc;

use chrono::{DateTime, Duration, TimeZone, Utc};
use futures::future::BoxFuture;
use secrecy::SecretString;
use trigger_manager::app::{
    App, CreateApplication, CreateProject, CreateTrigger, Parts, RegisterBackend, UpdateTrigger,
};
use trigger_manager::checkpoint::{Checkpoint, Point};
use trigger_manager::clock::ManualClock;
use trigger_manager::config::Config;
use trigger_manager::domain::access::{Actor, Scope};
use trigger_manager::domain::application::{Application, Backend};
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::cron::Zone;
use trigger_manager::domain::delivery::Delivery;
use trigger_manager::domain::id::{BackendId, TriggerId};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::trigger::{CatchUp, Occurrence, Trigger};
use trigger_manager::egress::{AddressPolicy, Egress, EgressConfig};
use trigger_manager::error::Result;
use trigger_manager::executor::{Executor, RunReport};
use trigger_manager::secrets::SecretKey;
use trigger_manager::store::Store;

use crate::harness::TestStore;
use crate::receiver::Receiver;

/// Monday noon, UTC.
pub fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 2, 12, 0, 0).unwrap()
}

/// The token that every backend of these tests is called with.
pub const CALLBACK_TOKEN: &str = "token-of-the-backend";

pub struct TestApp {
    pub database: TestStore,
    pub app: Arc<App>,
    pub clock: ManualClock,
    pub executor: Executor,
    pub receiver: Receiver,
    pub caller: Caller,
    pub application: Application,
    settings: Vec<(String, String)>,
}

/// Settings of the tests: an attempt may take long on a busy machine, and hangs are scripted.
const SETTINGS: [(&str, &str); 5] = [
    ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
    ("PFY_SECRET_KEY", "a passphrase of the tests"),
    ("PFY_CRON_TIME_ZONE", "UTC"),
    ("PFY_DISPATCH_TIMEOUT", "20s"),
    ("PFY_DISPATCH_LEASE", "30s"),
];

impl TestApp {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With these settings over the usual ones.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestStore::new().await, settings).await
    }

    /// On this database.
    pub async fn on(database: TestStore, settings: &[(&str, &str)]) -> Self {
        let settings: Vec<_> = SETTINGS
            .iter()
            .chain(settings)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let clock = ManualClock::new(start());
        let app = make((*database).clone(), &clock, &settings);
        let bootstrap = app.bootstrap().await.unwrap();
        let user = bootstrap.administrator.unwrap();
        let actor = Actor::User { id: user.id, email: user.email, administrator: true, ends: None };
        let caller = Caller { actor, request_id: Some("test".into()) };
        let new = CreateProject { slug: "shop".into(), name: "Shop".into() };
        let project = app.create_project(&caller, new).await.unwrap();
        let (slug, name) = ("reports".into(), "Reports".into());
        let new = CreateApplication { project_id: project.id, slug, name };
        let application = app.create_application(&caller, new).await.unwrap();
        let receiver = Receiver::start().await;
        let executor = Executor::new(app.clone());
        Self { database, app, clock, executor, receiver, caller, application, settings }
    }

    /// Another executor, of another process, on the same database.
    pub async fn another_executor(&self) -> Executor {
        self.another_executor_with(&[]).await
    }

    /// One that is configured otherwise.
    pub async fn another_executor_with(&self, settings: &[(&str, &str)]) -> Executor {
        Executor::new(self.another_app_with(settings).await)
    }

    /// The parts of another process on the same database.
    pub async fn another_app_with(&self, settings: &[(&str, &str)]) -> Arc<App> {
        let store = self.database.another().await;
        let own = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings: Vec<_> = self.settings.iter().cloned().chain(own).collect();
        make(store, &self.clock, &settings)
    }

    /// One whose transactions and requests pass `checkpoint`.
    pub async fn executor_at(
        &self,
        checkpoint: impl Fn(Point) -> Result<()> + Send + Sync + 'static,
    ) -> Executor {
        let checkpoint = Arc::new(At(checkpoint));
        let store = self.database.another().await.with_checkpoint(checkpoint.clone());
        let egress = self.app.egress.clone().with_checkpoint(checkpoint);
        let parts = parts(store, &self.clock, self.app.config.clone(), egress);
        Executor::new(Arc::new(App::new(parts).unwrap()))
    }

    /// Registers a backend that is called at `/name`.
    pub async fn register(&self, name: &str) -> Backend {
        let new = RegisterBackend {
            application_id: Some(self.application.id),
            name: name.to_owned(),
            callback_url: self.receiver.url(&format!("/{name}")),
            token: Some(SecretString::from(CALLBACK_TOKEN)),
            signing_secret: Some(SecretString::from(SIGNING_SECRET)),
            ..Default::default()
        };
        self.app.register_backend(&self.caller, new).await.unwrap().backend
    }

    /// Makes an enabled trigger.
    pub async fn trigger(&self, expression: &str) -> Trigger {
        self.trigger_with(expression, CatchUp::All).await
    }

    pub async fn trigger_with(&self, expression: &str, catch_up: CatchUp) -> Trigger {
        let new = CreateTrigger {
            application_id: self.application.id,
            name: "Daily Report".into(),
            description: String::new(),
            run_key: "daily-report".into(),
            cron_expression: expression.to_owned(),
            time_zone: None,
            enabled: true,
            catch_up,
        };
        self.app.create_trigger(&self.caller, new).await.unwrap()
    }

    pub async fn update(&self, id: TriggerId, update: UpdateTrigger) -> Trigger {
        self.app.update_trigger(&self.caller, id, update).await.unwrap()
    }

    /// Lets time pass, without anything being done.
    pub fn advance(&self, seconds: i64) {
        self.clock.advance(Duration::seconds(seconds));
    }

    /// Does all that is due.
    pub async fn run(&self) -> RunReport {
        self.executor.run_until_idle().await.unwrap()
    }

    /// Lets `seconds` pass, one after the other, doing what is due in each; the backends in
    /// `alive` send heartbeats.
    pub async fn live(&self, seconds: i64, alive: &[BackendId]) {
        for _ in 0..seconds {
            self.advance(1);
            self.heartbeat(alive).await;
            self.run().await;
        }
    }

    pub async fn heartbeat(&self, alive: &[BackendId]) {
        let tx = self.app.store.begin().await.unwrap();
        let now = self.app.now();
        trigger_manager::store::application::touch_backends(&*tx, alive, now).await.unwrap();
        tx.commit_unaudited().await.unwrap();
    }

    /// The ledger, earliest due time first.
    pub async fn occurrences(&self) -> Vec<Occurrence> {
        let page = PageRequest { limit: 200, ..Default::default() };
        let filter = Default::default();
        let found = self.app.occurrences(Scope::Everything, &filter, Direction::Ascending, &page);
        found.await.unwrap().rows.into_iter().map(|(_, row)| row).collect()
    }

    /// All deliveries, oldest first.
    pub async fn deliveries(&self) -> Vec<Delivery> {
        let page = PageRequest { limit: 200, ..Default::default() };
        let filter = Default::default();
        let found = self.app.deliveries(Scope::Everything, &filter, Direction::Ascending, &page);
        found.await.unwrap().rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// A checkpoint that is a function.
struct At<F>(F);

impl<F: Fn(Point) -> Result<()> + Send + Sync> Checkpoint for At<F> {
    fn pass(&self, point: Point) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { (self.0)(point) })
    }
}

/// 32 bytes, as a signing secret is written.
pub const SIGNING_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn make(store: Store, clock: &ManualClock, settings: &[(String, String)]) -> Arc<App> {
    let config = Config::load(None, settings.iter().cloned()).unwrap();
    let egress = Egress::new(EgressConfig {
        policy: AddressPolicy::new(config.callbacks.allowed_networks.clone()),
        timeout: config.dispatch.timeout,
        max_response_bytes: 64 * 1024,
        max_idle_per_host: 16,
        user_agent: "trigger-manager-tests".to_owned(),
    });
    Arc::new(App::new(parts(store, clock, config, egress.unwrap())).unwrap())
}

/// What a process of the server is made of.
pub fn parts(store: Store, clock: &ManualClock, config: Config, egress: Egress) -> Parts {
    let key = SecretKey::from_text(config.secret_key.as_ref().unwrap()).unwrap();
    Parts { store, clock: Arc::new(clock.clone()), config, zone: Zone::utc(), egress, key }
}
