//! The settings: compiled-in defaults, then a file, then the environment.
//!
//! Read once at the start and checked as a whole; after that nobody asks the
//! environment. `config/default.yml` lists every key with its default and its
//! meaning. An unknown key, an unknown `PFY_` variable or a value that does not
//! fit stops the start with the key's name and what would be right.
//!
//! This module reads settings. It must not act on them: no connections, no keys
//! made, nothing created on disk.

mod auth;
mod database_url;
mod error;
mod executor;
mod layers;
mod line;
mod pg_source;
mod reader;
mod rules;
mod server;
mod show;
#[cfg(test)]
mod tests;
mod values;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use secrecy::SecretString;
use serde::Serialize;
use url::Url;

pub use self::{
    auth::{AuthConfig, JwtConfig},
    database_url::{DatabaseUrl, Engine},
    error::{ConfigError, Problem},
    executor::{CallbacksConfig, CronConfig, DispatchConfig, RetentionConfig, RetryConfig},
    line::LineConfig,
    pg_source::PgSourceConfig,
    rules::RulesConfig,
    server::{CorsConfig, DatabaseConfig, GraphqlConfig, LogConfig, LogFormat, ShutdownConfig},
};
use self::{
    layers::{Layers, Origin},
    reader::Reader,
};

/// The shortest passphrase that `secret_key` takes, in characters.
pub const SECRET_KEY_MIN_CHARS: usize = 16;

const FILE_IN_WORKING_DIRECTORY: &str = "config.yml";

/// All settings of a process.
///
/// `Debug` and [`Config::to_yaml_redacted`] never show a secret.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// What this process does.
    pub run_mode: RunMode,
    /// Where the API listens. Port 0 takes any free port.
    pub http_addr: SocketAddr,
    /// The address under which clients reach the API; http or https, no query, no fragment.
    #[serde(serialize_with = "show::optional")]
    pub public_url: Option<Url>,
    /// Where the data is.
    #[serde(serialize_with = "show::text")]
    pub database_url: DatabaseUrl,
    /// As configured, at least 16 characters; see [`Config::secret_key_source`].
    #[serde(serialize_with = "show::secret")]
    pub secret_key: Option<SecretString>,
    /// The connection pool.
    pub database: DatabaseConfig,
    /// Schedules and the executor's metrics.
    pub cron: CronConfig,
    /// How work is sent to backends.
    pub dispatch: DispatchConfig,
    /// Which addresses callbacks may have.
    pub callbacks: CallbacksConfig,
    /// Calls of the LINE platform.
    pub line: LineConfig,
    /// Trigger rules.
    pub rules: RulesConfig,
    /// Another database that events come from.
    pub pg_source: PgSourceConfig,
    /// How long what has happened is kept.
    pub retention: RetentionConfig,
    /// Sign-in.
    pub auth: AuthConfig,
    /// The GraphQL edge.
    pub graphql: GraphqlConfig,
    /// The end of the process.
    pub shutdown: ShutdownConfig,
    /// Logging.
    pub log: LogConfig,
    /// Web pages of other origins.
    pub cors: CorsConfig,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunMode {
    /// Serves clients and machines.
    Api,
    /// Evaluates schedules and events and works the queue.
    Executor,
    /// Both in one process.
    Both,
}

impl RunMode {
    /// Whether this process serves the API.
    pub fn serves_api(self) -> bool {
        self != Self::Executor
    }

    /// Whether this process runs the executor.
    pub fn runs_executor(self) -> bool {
        self != Self::Api
    }
}

/// Where the secret key comes from.
#[derive(Debug, Clone)]
pub enum SecretKeySource {
    /// The configured text: 32 bytes in base64, or a passphrase.
    Given(SecretString),
    /// A file that is read, or made at first start.
    File(PathBuf),
}

impl Config {
    /// Joins the defaults, `file` and the `PFY_` variables of `environment`, and checks the
    /// whole. Reads no other file and no other variable: same input, same answer.
    ///
    /// `PFY_CONFIG` and variables that start with `PFY_TEST_` are passed over.
    ///
    /// # Errors
    /// Every problem that was met, with the key, where its value came from, and what would be
    /// right. A file that can't be read or parsed is reported alone.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::defaults()?;
        if let Some(path) = file {
            layers.add_file(path)?;
        }
        layers.add_environment(environment);
        let mut reader = Reader::new(layers);
        let config = Self::read(&mut reader)?;
        config.check_together(&mut reader);
        reader.finish()?;
        Ok(config)
    }

    /// [`Config::load`] with this process's environment, and `file`, else the file that
    /// `PFY_CONFIG` names, else `config.yml` or `config.yaml` in the working directory if there is one.
    ///
    /// # Errors
    /// As [`Config::load`]; also a `PFY_` variable that is not UTF-8, and both of these files in the
    /// working directory while none is named.
    pub fn from_process(file: Option<&Path>) -> Result<Self, ConfigError> {
        let variables = own_variables()?;
        let file = choose_file(file, &variables, Path::new(FILE_IN_WORKING_DIRECTORY))?;
        Self::load(file.as_deref(), variables.into_iter())
    }

    /// The settings `own` and, of this process's environment, the variables that `taken` names, each
    /// with what stands for it where it is not set. No file and no other variable is looked at.
    ///
    /// # Errors
    /// As [`Config::from_process`].
    pub fn from_process_but_for(
        taken: &[(&str, &str)],
        own: &[(&str, &str)],
    ) -> Result<Self, ConfigError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut variables: BTreeMap<_, _> = taken.iter().map(owned).collect();
        let is_taken = |name: &str| taken.iter().any(|(one, _)| *one == name);
        variables.extend(own_variables()?.into_iter().filter(|(name, _)| is_taken(name)));
        variables.extend(own.iter().map(owned));
        Self::load(None, variables.into_iter())
    }

    /// The variable `TZ`, which names the machine's zone.
    #[expect(clippy::disallowed_methods, reason = "the configuration reads the environment")]
    pub fn machine_time_zone() -> Option<String> {
        std::env::var("TZ").ok()
    }

    /// Where the secret key comes from: as configured; with an empty key the file `secret.key`
    /// next to the SQLite file. PostgreSQL always has a configured key, [`Config::load`] sees
    /// to that.
    pub fn secret_key_source(&self) -> SecretKeySource {
        let database = || self.database_url.sqlite_file().unwrap_or_default();
        match &self.secret_key {
            Some(text) => SecretKeySource::Given(text.clone()),
            None => SecretKeySource::File(database().with_file_name("secret.key")),
        }
    }

    /// The effective settings as a configuration file with the comments of the defaults.
    /// Secrets that are set read `***`, and so does the database's password.
    pub fn to_yaml_redacted(&self) -> String {
        show::as_yaml(layers::DEFAULTS, &show::flat(self))
    }

    fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            run_mode: r.text("run_mode", |text| match text {
                "api" => Ok(RunMode::Api),
                "executor" => Ok(RunMode::Executor),
                "both" => Ok(RunMode::Both),
                _ => Err(format!("\"{text}\" is no mode; write api, executor or both")),
            })?,
            http_addr: r.text("http_addr", values::socket_address)?,
            public_url: r.optional("public_url", values::public_url)?,
            database_url: r.text("database_url", DatabaseUrl::parse)?,
            secret_key: r.secret("secret_key", values::secret_key)?,
            database: DatabaseConfig::read(r)?,
            cron: CronConfig::read(r)?,
            dispatch: DispatchConfig::read(r)?,
            callbacks: CallbacksConfig::read(r)?,
            line: LineConfig::read(r)?,
            rules: RulesConfig::read(r)?,
            pg_source: PgSourceConfig::read(r)?,
            retention: RetentionConfig::read(r)?,
            auth: AuthConfig::read(r)?,
            graphql: GraphqlConfig::read(r)?,
            shutdown: ShutdownConfig::read(r)?,
            log: LogConfig::read(r)?,
            cors: CorsConfig::read(r)?,
        })
    }

    fn check_together(&self, r: &mut Reader) {
        if self.secret_key.is_none() && self.database_url.engine() == Engine::Postgres {
            r.refuse(
                "secret_key",
                "is empty; with PostgreSQL all processes share one key, so set the same 32 bytes \
                 in base64 (or a passphrase of at least 16 characters) for each of them",
            );
        }
        self.dispatch.check_together(r);
        self.line.check_together(&self.dispatch, r);
        self.auth.jwt.check_together(r);
    }
}

/// The argument, else what `PFY_CONFIG` names, else the usual file if there is one, in one of its two
/// spellings: which of two is meant nobody knows.
fn choose_file(
    argument: Option<&Path>,
    variables: &[(String, String)],
    usual: &Path,
) -> Result<Option<PathBuf>, ConfigError> {
    let named = variables.iter().find(|(name, path)| name == "PFY_CONFIG" && !path.is_empty());
    let named = named.map(|(_, path)| Path::new(path));
    if let Some(path) = argument.or(named) {
        return Ok(Some(path.to_path_buf()));
    }
    let other = usual.with_extension("yaml");
    match (usual.exists(), other.exists()) {
        (true, true) => {
            let origin = Origin::File(usual.display().to_string());
            let reason = format!(
                "is there beside {}, and only one of them is read; remove one, or name one with \
                 --config or PFY_CONFIG",
                other.display()
            );
            Err(ConfigError::one(usual.display().to_string(), &origin, reason))
        }
        (true, false) => Ok(Some(usual.to_path_buf())),
        (false, true) => Ok(Some(other)),
        (false, false) => Ok(None),
    }
}

/// The variables that are ours.
fn own_variables() -> Result<Vec<(String, String)>, ConfigError> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        if let Some(variable) = own_variable(name, value)? {
            variables.push(variable);
        }
    }
    Ok(variables)
}

/// The variable as text if it is one of ours. Others may hold what they like.
fn own_variable(name: OsString, value: OsString) -> Result<Option<(String, String)>, ConfigError> {
    let Some(name) = name.to_str().filter(|name| name.starts_with("PFY_")) else {
        return Ok(None);
    };
    let origin = Origin::Variable(name.to_owned());
    match value.into_string() {
        Ok(value) => Ok(Some((name.to_owned(), value))),
        Err(_) => Err(ConfigError::one(name, &origin, "is not UTF-8; write it as UTF-8 text")),
    }
}
