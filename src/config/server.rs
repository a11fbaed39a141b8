//! Settings of the process and of the API's edge.

use std::time::Duration;

use serde::Serialize;

use super::{error::ConfigError, reader::Reader, show, values};

/// The connection pool.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseConfig {
    /// Open connections of this process, at most; 2 to 1000: what is prepared for a due time holds one.
    pub max_connections: u32,
}

impl DatabaseConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { max_connections: r.number("database.max_connections", 2..=1000)? })
    }
}

/// The GraphQL edge. Every limit is inclusive.
#[derive(Debug, Clone, Serialize)]
pub struct GraphqlConfig {
    /// Whether clients may ask for the schema.
    pub introspection: bool,
    /// Whether the GraphiQL page is served.
    pub graphiql: bool,
    /// Depth of a query; 1 to 100.
    pub max_depth: usize,
    /// Fields after fragments are expanded; 1 to 1 000 000.
    pub max_complexity: usize,
    /// Aliases of a query; 1 to 100 000.
    pub max_aliases: usize,
    /// Tokens of a query's text; 10 to 1 000 000.
    pub max_tokens: usize,
    /// Directives of a query; 0 to 10 000.
    pub max_directives: usize,
    /// Running subscriptions on one connection; 1 to 10 000.
    pub subscriptions_per_connection: usize,
}

impl GraphqlConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            introspection: r.flag("graphql.introspection")?,
            graphiql: r.flag("graphql.graphiql")?,
            max_depth: r.number("graphql.max_depth", 1..=100)?,
            max_complexity: r.number("graphql.max_complexity", 1..=1_000_000)?,
            max_aliases: r.number("graphql.max_aliases", 1..=100_000)?,
            max_tokens: r.number("graphql.max_tokens", 10..=1_000_000)?,
            max_directives: r.number("graphql.max_directives", 0..=10_000)?,
            subscriptions_per_connection: r
                .number("graphql.subscriptions_per_connection", 1..=10_000)?,
        })
    }
}

/// The end of the process.
#[derive(Debug, Clone, Serialize)]
pub struct ShutdownConfig {
    /// How long running work may take to end; 0 to 10 min.
    #[serde(serialize_with = "show::duration")]
    pub grace: Duration,
}

impl ShutdownConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { grace: r.duration("shutdown.grace", Duration::ZERO..=Duration::from_secs(600))? })
    }
}

/// Logging.
#[derive(Debug, Clone, Serialize)]
pub struct LogConfig {
    /// How lines look.
    pub format: LogFormat,
    /// A level, or comma-separated directives `module=level`; checked.
    pub level: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            format: r.text("log.format", |text| match text {
                "text" => Ok(LogFormat::Text),
                "json" => Ok(LogFormat::Json),
                _ => Err(format!("\"{text}\" is no format; write text or json")),
            })?,
            level: r.text("log.level", values::log_level)?,
        })
    }
}

/// Web pages of other origins.
#[derive(Debug, Clone, Serialize)]
pub struct CorsConfig {
    /// Origins as browsers send them: scheme, host, port unless it is the usual one.
    pub allowed_origins: Vec<String>,
}

impl CorsConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { allowed_origins: r.list("cors.allowed_origins", values::origin)? })
    }
}
