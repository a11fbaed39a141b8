//! Putting a process together: opens what the configuration names, starts what `run_mode` says,
//! and ends it all in order.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Parts, SKEW_MAX, has_secret_key};
use crate::clock::SystemClock;
use crate::config::{Config, SecretKeySource};
use crate::domain::cron::Zone;
use crate::egress::{AddressPolicy, Egress, EgressConfig, Outgoing, Sent};
use crate::executor::{Executor, driver};
use crate::listen::{Room, serve};
use crate::secrets::SecretKey;
use crate::store::{Options, Store};
use crate::telemetry::Trouble;
use crate::{api, monitor, outbox};

/// How much of a backend's answer is read.
const RESPONSE_MAX: usize = 64 * 1024;
const LISTEN_PAUSE: Duration = Duration::from_secs(1);
/// How often a process that does not execute looks around.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Opens the database that `config` names. SQLite is brought up to date; PostgreSQL too, in turn
/// with other processes that start.
pub async fn open_store(config: &Config) -> Result<Store> {
    let options = Options {
        url: config.database_url.expose().to_owned(),
        max_connections: config.database.max_connections,
        schema: None,
    };
    let store = Store::connect(&options)
        .await
        .with_context(|| format!("can't open the database {}", config.database_url))?;
    store.migrate().await.context("can't bring the database's schema up to date")?;
    Ok(store)
}

/// Makes the application of a process.
pub async fn open(config: Config) -> Result<Arc<App>> {
    let source = config.secret_key_source();
    let resolve = || SecretKey::resolve(&source).context("secret_key");
    let is_to_be_made = matches!(&source, SecretKeySource::File(path) if !path.exists());
    let key = if is_to_be_made { None } else { Some(resolve()?) };
    let zone = config
        .cron
        .zone(Config::machine_time_zone().as_deref())
        .context("the server's time zone; set cron.time_zone")?;
    let egress = egress(&config, config.callbacks.allowed_networks.clone())?;
    let store = open_store(&config).await?;
    if is_to_be_made && has_secret_key(&store).await? {
        bail!(
            "secret_key: its file is missing, and this database was set up with a key; restore \
             the file secret.key beside the database, or set secret_key"
        );
    }
    let key = key.map_or_else(resolve, Ok)?;
    let clock = Arc::new(SystemClock);
    let app = App::new(Parts { store, clock, config, zone, egress, key })?;
    // Before anything is written by this clock.
    app.check_clock().await.context("the database's clock")?;
    Ok(Arc::new(app))
}

/// The outbound client that `config` describes, which may reach `allowed` beside public addresses.
pub fn egress(config: &Config, allowed: Vec<IpNet>) -> Result<Egress> {
    Ok(Egress::new(EgressConfig {
        policy: AddressPolicy::new(allowed),
        timeout: config.dispatch.timeout,
        max_response_bytes: RESPONSE_MAX,
        max_idle_per_host: config.dispatch.concurrency_per_backend,
        user_agent: concat!("trigger-manager/", env!("CARGO_PKG_VERSION")).to_owned(),
    })?)
}

/// A running process.
pub struct Server {
    /// Where the API listens, if it does.
    pub http_addr: Option<SocketAddr>,
    /// Where metrics and health are, if anywhere.
    pub metrics_addr: Option<SocketAddr>,
    stop: CancellationToken,
    grace: Duration,
    tasks: JoinSet<()>,
}

impl Server {
    /// Starts what the application's `run_mode` says.
    pub async fn start(app: Arc<App>) -> Result<Self> {
        tell(&app);
        let mode = app.config.run_mode;
        let stop = app.stopping.clone();
        let room = Room::make();
        let mut tasks = JoinSet::new();
        let mut http_addr = None;
        if mode.serves_api() {
            let listener = bind(app.config.http_addr, "http_addr").await?;
            http_addr = Some(listener.local_addr()?);
            tasks.spawn(serve(listener, api::router(app.clone()), room.api, stop.clone()));
        }
        let metrics = (app.config.cron.metrics_host, app.config.cron.metrics_port).into();
        let metrics_addr = match bind(metrics, "cron.metrics_port").await {
            Ok(listener) => {
                let addr = listener.local_addr()?;
                tasks.spawn(serve(
                    listener,
                    monitor::router(app.clone()),
                    room.metrics,
                    stop.clone(),
                ));
                Some(addr)
            }
            Err(error) if !mode.runs_executor() => {
                tracing::warn!("this api process has no metrics: {error:#}");
                None
            }
            Err(error) => return Err(error),
        };
        tasks.spawn({
            let (wake, stop) = (app.wake.clone(), stop.clone());
            async move { wake.carry(stop).await }
        });
        if mode.runs_executor() {
            let executor = Arc::new(Executor::new(app.clone()));
            tracing::info!(executor = %executor.id(), "this process executes");
            tasks.spawn(driver::run(executor, stop.clone()));
            tasks.spawn(hear(app.clone(), stop.clone()));
            tasks.spawn(outbox::run(app.clone(), stop.clone()));
        } else {
            // An executor does this itself.
            tasks.spawn(watch(app.clone(), stop.clone()));
        }
        let grace = app.config.shutdown.grace;
        Ok(Self { http_addr, metrics_addr, stop, grace, tasks })
    }

    /// Ends in order: nothing new is taken, what is in flight may end within the grace, and a
    /// bound after that whatever still runs is dropped.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace + Duration::from_secs(2), all).await.is_err() {
            tracing::warn!("some work did not end within shutdown.grace and was dropped");
        }
    }
}

/// Says what an operator should be able to read at the top of the log.
fn tell(app: &App) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        run_mode = ?app.config.run_mode,
        database = %app.config.database_url,
        time_zone = app.zone.name(),
        zone_data = %Zone::data_version(),
        "starting"
    );
    let allowed = &app.config.callbacks.allowed_networks;
    if !allowed.is_empty() {
        tracing::warn!(networks = ?allowed, "callbacks.allowed_networks opens addresses that are refused by default: backends in them can be called");
    }
}

async fn bind(addr: SocketAddr, key: &str) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("{key}: can't listen on {addr}"))
}

/// Hears hints of other processes; on a lost connection again and again.
async fn hear(app: Arc<App>, stop: CancellationToken) {
    let mut trouble = Trouble::default();
    while !stop.is_cancelled() {
        let since = app.now();
        if let Err(error) = app.store.listen(&stop, || app.wake.hint_near()).await {
            let lasted = (app.now() - since).to_std().unwrap_or_default() + LISTEN_PAUSE;
            let is_news = trouble.is_news(&format!("{error:?}"), lasted);
            let error = &error as &dyn std::error::Error;
            let told = "hints are not heard; the executor looks when its timers end";
            match is_news {
                true => tracing::warn!(error, "{told}"),
                false => tracing::debug!(error, "{told}"),
            }
        }
        let _ = tokio::time::timeout(LISTEN_PAUSE, stop.cancelled()).await;
    }
}

/// What a process that does not execute does at the start and then regularly: it says when its clock
/// differs from the database's, since heartbeats and schedules that it stores would be too old or
/// too new for everybody else, and drops the series of what others have deleted.
async fn watch(app: Arc<App>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match app.check_clock().await {
            Ok(skew) if skew.abs() > SKEW_MAX => tracing::error!(
                skew_ms = skew.num_milliseconds(),
                "this machine's clock and the database's differ by more than 5 s; this process is not ready and changes nothing until they agree"
            ),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the database's clock could not be asked"),
        }
        if let Err(error) = app.forget_deleted().await {
            tracing::debug!(%error, "it is not known which applications were deleted");
        }
        let _ = tokio::time::timeout(WATCH_EVERY, stop.cancelled()).await;
    }
}

/// Fails unless the process that this configuration describes answers on its health address.
pub async fn check(config: &Config) -> Result<()> {
    let address = match config.run_mode.serves_api() {
        true => config.http_addr,
        false => (config.cron.metrics_host, config.cron.metrics_port).into(),
    };
    let host = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => std::net::Ipv4Addr::LOCALHOST.into(),
        ip if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    ensure!(
        address.port() != 0,
        "cron.metrics_port is 0: the process took any free port; give it one of its own to ask it"
    );
    let url = format!("http://{}/healthz", SocketAddr::new(host, address.port()));
    let status = probe(config, &url, host).await?;
    ensure!(status == 200, "{url} answers {status}, not 200");
    println!("{url} answers 200");
    Ok(())
}

async fn probe(config: &Config, url: &str, host: IpAddr) -> Result<u16> {
    let allowed = vec![IpNet::from(host)];
    let url = AddressPolicy::new(allowed.clone()).parse_url(url)?;
    let (method, headers, body) = (Method::GET, HeaderMap::new(), Bytes::new());
    let request = Outgoing { method, url: url.clone(), headers, body, timeout: None };
    match egress(config, allowed)?.send(request).await {
        Sent::Answered { status, .. } => Ok(status),
        Sent::Failed { detail, .. } => bail!("{} does not answer: {detail}", url.as_str()),
    }
}
