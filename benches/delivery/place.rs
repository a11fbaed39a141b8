//! Databases that are fresh, and servers on them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use sea_orm::ConnectionTrait;
use secrecy::SecretString;
use trigger_manager::app::{App, Parts};
use trigger_manager::clock::SystemClock;
use trigger_manager::config::Config;
use trigger_manager::domain::cron::Zone;
use trigger_manager::egress::{AddressPolicy, Egress, EgressConfig};
use trigger_manager::secrets::SecretKey;
use trigger_manager::store::{Engine, Options, Store};

const KEY: &str = "a passphrase for measurements only";

/// Where databases come from.
#[derive(Clone)]
pub struct Source {
    pub engine: Engine,
    pub postgres: Option<String>,
}

/// A database of its own: a file, or a schema.
pub struct Place {
    pub url: String,
    pub schema: Option<String>,
    folder: Option<PathBuf>,
}

impl Source {
    /// A fresh database with our tables.
    pub async fn fresh(&self) -> Result<Place> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench_{}_{made}", std::process::id());
        let place = match self.engine {
            Engine::Sqlite => {
                let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
                std::fs::create_dir_all(&folder)?;
                let url = format!("sqlite://{}?mode=rwc", folder.join("bench.db").display());
                Place { url, schema: None, folder: Some(folder) }
            }
            Engine::Postgres => {
                let url = self.postgres.clone().context("no PostgreSQL")?;
                let place = Place { url, schema: None, folder: None };
                let store = place.store().await?;
                store.read().execute_unprepared(&format!("CREATE SCHEMA {name}")).await?;
                store.close().await?;
                Place { schema: Some(name), ..place }
            }
        };
        let store = place.store().await?;
        store.migrate().await?;
        store.close().await?;
        Ok(place)
    }
}

impl Place {
    /// A database that somebody else has made.
    pub fn existing(url: String, schema: Option<String>) -> Self {
        Self { url, schema, folder: None }
    }

    /// The settings: the defaults, with this database and a reachable loopback.
    pub fn config(&self) -> Result<Config> {
        let variables = [
            ("PFY_DATABASE_URL", self.url.as_str()),
            ("PFY_SECRET_KEY", KEY),
            ("PFY_CALLBACKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Config::load(None, variables.into_iter())?)
    }

    pub async fn store(&self) -> Result<Store> {
        let max_connections = self.config()?.database.max_connections;
        let (url, schema) = (self.url.clone(), self.schema.clone());
        Ok(Store::connect(&Options { url, max_connections, schema }).await?)
    }

    /// A server, with connections of its own.
    pub async fn app(&self) -> Result<Arc<App>> {
        let config = self.config()?;
        Ok(Arc::new(App::new(Parts {
            store: self.store().await?,
            clock: Arc::new(SystemClock),
            egress: egress(&config)?,
            zone: Zone::utc(),
            key: SecretKey::from_text(&SecretString::from(KEY))?,
            config,
        })?))
    }

    /// Deletes the database.
    pub async fn remove(self) -> Result<()> {
        if let Some(schema) = &self.schema {
            let store = self.store().await?;
            store.read().execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await?;
            store.close().await?;
        }
        if let Some(folder) = self.folder {
            std::fs::remove_dir_all(folder)?;
        }
        Ok(())
    }
}

/// The outbound client, as the server has it.
pub fn egress(config: &Config) -> Result<Egress> {
    Ok(Egress::new(EgressConfig {
        policy: AddressPolicy::new(config.callbacks.allowed_networks.clone()),
        timeout: config.dispatch.timeout,
        max_response_bytes: 64 * 1024,
        max_idle_per_host: config.dispatch.concurrency,
        user_agent: "trigger-manager-bench".to_owned(),
    })?)
}
