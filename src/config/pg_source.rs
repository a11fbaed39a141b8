//! Settings of the other database that events come from.

use std::time::Duration;

use serde::Serialize;

use super::database_url::DatabaseUrl;
use super::{error::ConfigError, reader::Reader, show};

/// The PostgreSQL database whose outbox is read, by processes that execute.
#[derive(Debug, Clone, Serialize)]
pub struct PgSourceConfig {
    /// Its address, always PostgreSQL's; `None` reads none.
    #[serde(serialize_with = "show::optional")]
    pub database_url: Option<DatabaseUrl>,
    /// The longest time between two looks; 100 ms to 5 min.
    #[serde(serialize_with = "show::duration")]
    pub poll_interval: Duration,
}

impl PgSourceConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        let interval = Duration::from_millis(100)..=Duration::from_secs(300);
        Ok(Self {
            database_url: r.optional("pg_source.database_url", DatabaseUrl::parse_postgres)?,
            poll_interval: r.duration("pg_source.poll_interval", interval)?,
        })
    }
}
