//! The command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use secrecy::{ExposeSecret, SecretString};

use crate::app::App;
use crate::config::{Config, SecretKeySource};
use crate::domain::audit::Caller;
use crate::domain::cron::Zone;
use crate::line::stand_in::StandIn;
use crate::pg_source::SqlArgs;
use crate::secrets::SecretKey;
use crate::serve::{self, Server};
use crate::{api, demo, telemetry};

/// A server for cron triggers and trigger rules, with GraphQL, REST and an embedded executor.
#[derive(Parser)]
#[command(name = "trigger-manager", version, about)]
pub struct Cli {
    /// The configuration file; else the one that PFY_CONFIG names, else config.yml or config.yaml if there
    /// is one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Configured(Configured),
    /// Show it all at work: a sample project with triggers, rules and a backend, in a temporary
    /// folder.
    Demo,
    /// Print the GraphQL schema.
    Schema,
    /// Events from the tables of another PostgreSQL database.
    PgSource {
        #[command(subcommand)]
        command: PgSource,
    },
    /// Stand in for the LINE platform: take messages and print them, to try rules without an account.
    LineStandIn {
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:9100")]
        addr: SocketAddr,
        /// The channel access token that it takes.
        #[arg(long, default_value = "try-out-token")]
        token: String,
    },
}

/// Commands that read the configuration.
#[derive(Subcommand)]
enum Configured {
    /// Serve the API, execute, or both, as run_mode says. The default.
    Serve,
    /// Bring the database's schema up to date and end.
    Migrate,
    /// Print the effective configuration, without its secrets.
    Config,
    /// Ask a running process, the one that this configuration describes, whether it is healthy: the
    /// exit code is 0 when it answers that it is, otherwise 1.
    Check,
    /// Make a new personal access token for a user and print it: the way in when all are lost.
    Token {
        /// The user's e-mail address; else that of the first administrator.
        #[arg(long)]
        email: Option<String>,
    },
    /// Change the zone of triggers and rules that name none. Stop all processes first.
    SetTimeZone {
        /// An IANA name such as Europe/Berlin.
        zone: String,
    },
    /// Encrypt what is stored with another secret key. Stop all processes first.
    ChangeSecretKey {
        /// A file that holds the new key: 32 bytes in base64. Where secret_key is set it may be a passphrase
        /// of at least 16 characters.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum PgSource {
    Sql(Box<SqlArgs>),
}

/// Runs the program.
pub async fn run(cli: Cli) -> Result<()> {
    let command = cli.command.unwrap_or(Command::Configured(Configured::Serve));
    let reads_it = matches!(command, Command::Configured(_));
    anyhow::ensure!(
        cli.config.is_none() || reads_it,
        "--config is of no use here: this command reads no configuration; leave it out"
    );
    match command {
        Command::Configured(command) => {
            configured(command, Config::from_process(cli.config.as_deref())?).await?;
        }
        Command::Demo => demo::run().await?,
        Command::Schema => print!("{}", api::graphql::sdl()),
        Command::PgSource { command: PgSource::Sql(args) } => print!("{}", args.sql()?),
        Command::LineStandIn { addr, token } => line_stand_in(addr, token).await?,
    }
    Ok(())
}

async fn configured(command: Configured, config: Config) -> Result<()> {
    match command {
        Configured::Serve => server(config).await,
        Configured::Config => {
            print!("{}", config.to_yaml_redacted());
            Ok(())
        }
        Configured::Check => serve::check(&config).await,
        Configured::Migrate => migrate(&config).await,
        Configured::Token { email } => token(config, email).await,
        Configured::SetTimeZone { zone } => set_time_zone(config, &zone).await,
        Configured::ChangeSecretKey { file } => change_secret_key(config, &file).await,
    }
}

async fn server(config: Config) -> Result<()> {
    telemetry::init(&config.log)?;
    let ended = ended()?;
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
    ended.await;
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

/// Prints each message that is pushed, until Ctrl-C.
async fn line_stand_in(addr: SocketAddr, token: String) -> Result<()> {
    let ended = ended()?;
    let stand_in = StandIn::start_on(addr, [token.clone()]).await;
    let stand_in = stand_in.with_context(|| format!("can't listen on {addr}"))?;
    println!("A stand-in of the LINE platform listens at {}.", stand_in.base_url());
    println!("It takes the channel access token {token}. Ctrl-C ends it.");
    tokio::select! {
        () = print_messages(&stand_in) => {}
        () = ended => {}
    }
    Ok(())
}

/// Prints the messages that a stand-in accepts, as they come.
pub(crate) async fn print_messages(stand_in: &StandIn) {
    let mut shown = 0;
    loop {
        stand_in.until_accepted(shown + 1).await;
        for message in stand_in.accepted().into_iter().skip(shown) {
            shown += 1;
            let texts: Vec<_> = message
                .messages
                .iter()
                .map(|one| one["text"].as_str().unwrap_or("(no text)"))
                .collect();
            println!("  LINE message to {}: {}", message.to, texts.join(" | "));
        }
    }
}

/// Hears Ctrl-C and SIGTERM from now on, and not only when it is waited for. What it answers ends with
/// the first of them.
pub fn ended() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate()).context("can't hear SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("can't hear Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
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
    let zone = Zone::parse(zone)?;
    let app: Arc<App> = serve::open(config).await?;
    app.set_server_zone(&Caller::system(), &zone).await?;
    println!("Triggers and rules without a zone of their own are now read in {}.", zone.name());
    println!("Set cron.time_zone to it for every process, then start them.");
    Ok(())
}

async fn change_secret_key(config: Config, file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("can't read the new key from {}", file.display()))?;
    let (text, source) = (SecretString::from(text.trim()), config.secret_key_source());
    let new = match &source {
        SecretKeySource::Given(_) => SecretKey::from_text(&text)?,
        SecretKeySource::File(_) => SecretKey::from_file_text(&text)?,
    };
    let app: Arc<App> = serve::open(config).await?;
    let resealed = app.change_secret_key(&Caller::system(), &new).await?;
    let (backends, line_oas) = (resealed.backends, resealed.line_oas);
    println!(
        "The secrets of {backends} backends and {line_oas} LINE OAs are encrypted with the new key."
    );
    match source {
        SecretKeySource::Given(_) => {
            println!("Set secret_key to it for every process, then start them.");
        }
        SecretKeySource::File(path) => {
            println!(
                "Put it into {} in the place of the old one, then start the server.",
                path.display()
            );
        }
    }
    Ok(())
}

/// What stopped a command, with its causes: each that is not said already.
pub fn told(error: &anyhow::Error) -> String {
    // What clients are told stands for a cause that is told here.
    let hidden = crate::error::Error::internal("").to_string();
    let causes = error.chain().map(ToString::to_string).filter(|cause| *cause != hidden);
    causes.fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        said if said.contains(&cause) => told,
        said => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_causes_of_a_failure_are_told_and_none_of_them_twice() {
        let refused = std::io::Error::other("connection refused");
        let error = anyhow::Error::new(crate::error::Error::internal(refused));
        let error = error.context("connection refused by it").context("can't open the database");
        assert_eq!(told(&error), "can't open the database: connection refused by it");
        let refused = std::io::Error::other("connection refused");
        let error = anyhow::Error::new(crate::error::Error::internal(refused));
        let error = error.context("can't open the database");
        assert_eq!(told(&error), "can't open the database: connection refused");
    }
}
