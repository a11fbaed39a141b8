//! The command line.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use secrecy::ExposeSecret;

use crate::app::App;
use crate::config::Config;
use crate::domain::audit::Caller;
use crate::domain::cron::Zone;
use crate::serve::{self, Server};
use crate::{api, demo, telemetry};

/// Cron triggers delivered to registered backends, with GraphQL, REST and an embedded executor.
#[derive(Parser)]
#[command(name = "trigger-manager", version, about)]
pub struct Cli {
    /// The configuration file; else the one that PFY_CONFIG names, else config.yml if there is one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API, execute, or both, as run_mode says. The default.
    Serve,
    /// Show it all at work: a sample project with triggers and a backend, in a temporary folder.
    Demo,
    /// Bring the database's schema up to date and end.
    Migrate,
    /// Print the GraphQL schema.
    Schema,
    /// Print the effective configuration, without its secrets.
    Config,
    /// Ask a running process, the one that this configuration describes, whether it is healthy.
    Check,
    /// Make a new personal access token for a user and print it: the way in when all are lost.
    Token {
        /// The user's e-mail address; else that of the first administrator.
        #[arg(long)]
        email: Option<String>,
    },
    /// Change the zone of triggers that name none. Stop all processes first.
    SetTimeZone {
        /// An IANA name such as Europe/Berlin.
        zone: String,
    },
}

/// Runs the program.
pub async fn run(cli: Cli) -> Result<()> {
    let command = cli.command.unwrap_or(Command::Serve);
    if let Command::Schema = command {
        print!("{}", api::graphql::sdl());
        return Ok(());
    }
    if let Command::Demo = command {
        return demo::run().await;
    }
    let config = Config::from_process(cli.config.as_deref())?;
    match command {
        Command::Config => print!("{}", config.to_yaml_redacted()),
        Command::Check => serve::check(&config).await?,
        Command::Migrate => migrate(&config).await?,
        Command::Token { email } => token(config, email).await?,
        Command::SetTimeZone { zone } => set_time_zone(config, &zone).await?,
        Command::Serve | Command::Schema | Command::Demo => server(config).await?,
    }
    Ok(())
}

async fn server(config: Config) -> Result<()> {
    telemetry::init(&config.log)?;
    let app = serve::open(config).await?;
    bootstrap(&app).await?;
    let server = Server::start(app).await?;
    if let Some(addr) = server.http_addr {
        tracing::info!(
            "GraphQL at http://{addr}/graphql, GraphiQL at http://{addr}/graphiql, machine endpoints described at http://{addr}/api/docs"
        );
    }
    if let Some(addr) = server.metrics_addr {
        tracing::info!("metrics at http://{addr}/metrics");
    }
    ended().await?;
    tracing::info!("stopping");
    server.stop().await;
    Ok(())
}

/// First start: makes the administrator and prints the token, once.
async fn bootstrap(app: &App) -> Result<()> {
    let bootstrap = app.bootstrap().await?;
    if let Some(token) = bootstrap.token {
        println!("The system administrator is {}.", app.config.auth.bootstrap_email);
        println!("Its token, shown this once: {}", token.expose_secret());
    }
    Ok(())
}

/// Waits for Ctrl-C or SIGTERM.
pub async fn ended() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate()).context("can't hear SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("can't hear Ctrl-C")?,
        _ = terminated.recv() => {}
    }
    Ok(())
}

async fn migrate(config: &Config) -> Result<()> {
    let store = serve::open_store(config).await?;
    println!("The schema of {} is up to date.", config.database_url);
    store.close().await?;
    Ok(())
}

async fn token(config: Config, email: Option<String>) -> Result<()> {
    let database = config.database_url.to_string();
    let app = serve::open(config).await?;
    anyhow::ensure!(
        app.has_users().await?,
        "{database} has no users yet: start the server once, which makes the first administrator, \
         or name the right database with PFY_DATABASE_URL or --config"
    );
    let (email, token) = app.recovery_token(email.as_deref()).await?;
    println!("A new token was made for {email} in {database}.");
    println!("Its token, shown this once: {}", token.expose_secret());
    Ok(())
}

async fn set_time_zone(config: Config, zone: &str) -> Result<()> {
    let app: Arc<App> = serve::open(config).await?;
    let zone = Zone::parse(zone)?;
    app.set_server_zone(&Caller::system(), &zone).await?;
    println!("Triggers without a zone of their own are now read in {}.", zone.name());
    println!("Set cron.time_zone to it for every process, then start them.");
    Ok(())
}
