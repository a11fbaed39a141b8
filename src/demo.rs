//! `trigger-manager demo`: everything at work in one terminal, on nothing but this machine.
//!
//! The server is the real one, with an SQLite file in a temporary folder. The example backend is
//! a real HTTP server in the same process: it registers, sends heartbeats and receives over
//! loopback, which the demo's configuration allows and a default one refuses. The LINE platform is
//! played by a stand-in, also over loopback.

mod backend;
mod rules;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::app::{App, CreateApplication, CreateMachineUser, CreateProject, CreateTrigger};
use crate::config::Config;
use crate::domain::access::Actor;
use crate::domain::application::Application;
use crate::domain::audit::Caller;
use crate::domain::people::User;
use crate::domain::trigger::CatchUp;
use crate::line::stand_in::StandIn;
use crate::serve::{self, Server};
use crate::{cli, telemetry};

/// What the environment may say of the demo, and what holds where it says nothing: where it listens
/// and what it logs. Whatever else is set there is for a real server.
const TAKEN: [(&str, &str); 4] = [
    ("PFY_HTTP_ADDR", "127.0.0.1:8080"),
    ("PFY_CRON_METRICS_PORT", "0"),
    ("PFY_LOG_LEVEL", "warn"),
    ("PFY_LOG_FORMAT", "text"),
];

/// A folder that is gone when the demo is, and that nobody else can look into.
struct Folder(PathBuf);

impl Folder {
    /// A new one: one that is there, whoever made it, is an error.
    fn new() -> std::io::Result<Self> {
        let name = format!("trigger-manager-demo-{}", Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs until Ctrl-C.
pub async fn run() -> Result<()> {
    let ended = cli::ended()?;
    let folder = Folder::new().context("can't make a temporary folder")?;
    let platform = StandIn::start([rules::ACCESS_TOKEN]).await?;
    let config = config(&folder, &platform)?;
    telemetry::init(&config.log)?;
    let app = serve::open(config).await?;
    let first = app.bootstrap().await?;
    let administrator = first.administrator.context("the demo's database is not new")?;
    let token = first.token.context("no token")?;
    let User { id, email, administrator, .. } = administrator;
    let caller =
        Caller { actor: Actor::User { id, email, administrator, ends: None }, request_id: None };
    let (application, machine_token) = sample(&app, &caller).await?;
    let line_oa = rules::sample(&app, &caller, &application).await?;
    let server = Server::start(app.clone()).await?;
    let api = server.http_addr.context("the demo needs run_mode both or api")?;
    let backend = backend::Backend::start().await?;
    println!("The trigger manager runs at http://{api}, its data is in {}.", folder.0.display());
    println!("  GraphiQL           http://{api}/graphiql");
    println!("  token to paste     {}", token.expose_secret());
    println!("  machine endpoints  http://{api}/api/docs");
    if let Some(metrics) = server.metrics_addr {
        println!("  metrics            http://{metrics}/metrics");
    }
    println!("The sample application is {} ({}).", application.name, application.id);
    println!("Its backend listens at {}.", backend.callback_url);
    println!("The sample LINE OA is {} ({}), with three rules.", line_oa.name, line_oa.id);
    println!("A stand-in of the LINE platform listens at {}.", platform.base_url());
    println!("Ctrl-C ends it all.\n");
    let registered = backend.register(&app, api, &machine_token).await?;
    let heartbeats = tokio::spawn(registered.heartbeats(app.stopping.clone()));
    let told = tokio::spawn(rules::tell(app.clone(), line_oa.id));
    let user = rules::User::new(&app, api, &machine_token, &line_oa)?;
    let user = tokio::spawn(user.live(app.stopping.clone()));
    tokio::select! {
        () = ended => {}
        () = cli::print_messages(&platform) => {}
    }
    println!("\nStopping.");
    server.stop().await;
    backend.stop().await;
    for task in [heartbeats, user] {
        task.abort();
    }
    told.abort();
    Ok(())
}

/// The demo's own settings, whatever a real server is told by the environment: it must not write
/// into a real database, nor take events out of one.
fn config(folder: &Folder, platform: &StandIn) -> Result<Config> {
    let database = format!("sqlite://{}?mode=rwc", folder.0.join("demo.db").display());
    let own = [
        ("PFY_DATABASE_URL", database.as_str()),
        ("PFY_SECRET_KEY", ""),
        ("PFY_RUN_MODE", "both"),
        ("PFY_LINE_API_BASE", platform.base_url()),
        ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
        ("PFY_SHUTDOWN_GRACE", "3s"),
    ];
    Ok(Config::from_process_but_for(&TAKEN, &own)?)
}

/// Makes the sample project, as the administrator would.
async fn sample(app: &Arc<App>, caller: &Caller) -> Result<(Application, String)> {
    let new = CreateProject { slug: "sample".into(), name: "Sample project".into() };
    let project = app.create_project(caller, new).await?;
    let (slug, name) = ("reports".into(), "Reports".into());
    let new = CreateApplication { project_id: project.id, slug, name };
    let application = app.create_application(caller, new).await?;
    let new = CreateMachineUser {
        application_id: application.id,
        name: "Example backend".into(),
        environment: "demo".into(),
        username: "example-backend".into(),
        password: None,
    };
    let (_, token) = app.create_machine_user(caller, new).await?;
    for (name, run_key, expression) in [
        ("Every five seconds", "heartbeat", "*/5 * * * * *"),
        ("Every minute", "minutely-report", "0 * * * * *"),
    ] {
        let new = CreateTrigger {
            application_id: application.id,
            name: name.into(),
            description: String::new(),
            run_key: run_key.into(),
            cron_expression: expression.into(),
            time_zone: None,
            enabled: true,
            catch_up: CatchUp::All,
        };
        app.create_trigger(caller, new).await?;
    }
    Ok((application, token.expose_secret().to_owned()))
}
