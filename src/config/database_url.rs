//! The address of the database.

use std::{fmt, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};
use url::{Url, form_urlencoded};

use super::reader::Parsed;

/// Which database engine an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// SQLite, inside this process.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

/// The address of the database. May hold a password: `Debug` and `Display` show `***` instead.
#[derive(Clone)]
pub struct DatabaseUrl {
    engine: Engine,
    text: SecretString,
}

impl DatabaseUrl {
    /// Takes `sqlite:FILE` and `sqlite://FILE` with SQLite's query parameters, and `postgres://` or
    /// `postgresql://` URLs. A database in memory, or one that can't be written, is refused.
    pub(super) fn parse(text: &str) -> Parsed<Self> {
        let right = "write sqlite://FILE?mode=rwc or postgres://USER:PASSWORD@HOST/DATABASE";
        let (scheme, rest) = text.split_once(':').ok_or(format!("is no address; {right}"))?;
        let engine = match scheme {
            "sqlite" => Engine::Sqlite,
            "postgres" | "postgresql" => Engine::Postgres,
            _ => return Err(format!("has an unknown scheme; {right}")),
        };
        let fits = match engine {
            Engine::Sqlite => !without_query(rest).trim_start_matches('/').is_empty(),
            Engine::Postgres => Url::parse(text).is_ok_and(|url| url.has_authority()),
        };
        if !fits {
            return Err(format!("is incomplete or is no URL; {right}"));
        }
        let query = text.split_once('?').map_or("", |(_, query)| query);
        let refused =
            [("mode", "memory"), ("mode", "ro"), ("immutable", "1"), ("immutable", "true")];
        let mut given = form_urlencoded::parse(query.as_bytes());
        if engine == Engine::Sqlite
            && (decode_percent(rest).contains(":memory:")
                || given.any(|(key, value)| refused.contains(&(&*key, &*value))))
        {
            return Err(format!("must be a file that can be written; {right}"));
        }
        if engine == Engine::Postgres {
            known_parameters(query)?;
        }
        Ok(Self { engine, text: SecretString::from(text) })
    }

    /// Takes what [`DatabaseUrl::parse`] takes for PostgreSQL.
    pub(super) fn parse_postgres(text: &str) -> Parsed<Self> {
        let right = "write postgres://USER:PASSWORD@HOST/DATABASE";
        match Self::parse(text) {
            Ok(url) if url.engine == Engine::Postgres => Ok(url),
            _ => Err(format!("is no address of a PostgreSQL database; {right}")),
        }
    }

    /// Which engine it is.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The whole address, password included: for the connection alone.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// The file of a SQLite database; `None` for PostgreSQL.
    pub fn sqlite_file(&self) -> Option<PathBuf> {
        if self.engine != Engine::Sqlite {
            return None;
        }
        let rest = self.expose().strip_prefix("sqlite:")?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        Some(PathBuf::from(decode_percent(without_query(rest))))
    }
}

/// A parameter that the driver does not know is passed over by it, and written to the log: its value may
/// be a secret.
fn known_parameters(query: &str) -> Parsed<()> {
    const KNOWN: [&str; 18] = [
        "sslmode",
        "ssl-mode",
        "sslrootcert",
        "ssl-root-cert",
        "ssl-ca",
        "sslcert",
        "ssl-cert",
        "sslkey",
        "ssl-key",
        "statement-cache-capacity",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "application_name",
        "options",
    ];
    let known = |name: &str| KNOWN.contains(&name) || name.starts_with("options[");
    match form_urlencoded::parse(query.as_bytes()).find(|(name, _)| !known(name)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "has a parameter {name:?} that is not known; known are {}",
            KNOWN.join(", ")
        )),
    }
}

fn without_query(text: &str) -> &str {
    text.split_once('?').map_or(text, |(path, _)| path)
}

/// Decodes `%20` and its like, and nothing else: the form decoder's own signs are shielded.
fn decode_percent(text: &str) -> String {
    let shielded = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(shielded.as_bytes()).map(|(name, _)| name.into_owned()).collect()
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.engine == Engine::Sqlite {
            return f.write_str(self.expose());
        }
        let Ok(mut url) = Url::parse(self.expose()) else { return f.write_str("***") };
        if url.password().is_some() && url.set_password(Some("***")).is_err() {
            return f.write_str("***");
        }
        let secret = |name: &str| name.to_ascii_lowercase().contains("password");
        if url.query_pairs().any(|(name, _)| secret(&name)) {
            let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            let mut query = url.query_pairs_mut();
            query.clear();
            for (name, value) in &pairs {
                query.append_pair(name, if secret(name) { "***" } else { value });
            }
        }
        f.write_str(url.as_str())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}
