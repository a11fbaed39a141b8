//! Machine users by name and password.
//!
//! A backend sends its password with each heartbeat, and the slow hash would cost a processor a
//! good part of each second for a few dozen of them. So it is remembered for which password a
//! stored hash was found right, or wrong. That can't become untrue: another stored hash is another
//! key. It is remembered as a hash with a key that lives as long as the process.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use moka::future::Cache;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::{Digest, Sha256};

use super::attempts::Subject;
use super::{App, invalid, machine};
use crate::domain::access::Actor;
use crate::error::{Error, Result};
use crate::store::application;

/// The least used pairs beyond this are forgotten.
const PAIRS: u64 = 10_000;
/// A pair that nobody sent for so long is forgotten.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// Whether a password was found to be the one behind a stored hash.
pub(super) struct KnownPairs {
    pepper: SecretBox<[u8; 32]>,
    pairs: Cache<[u8; 32], bool>,
}

impl KnownPairs {
    pub(super) fn new() -> Self {
        Self {
            pepper: SecretBox::init_with(rand::random),
            pairs: Cache::builder().max_capacity(PAIRS).time_to_idle(IDLE).build(),
        }
    }

    fn key(&self, username: &str, password: &SecretString, stored: &str) -> [u8; 32] {
        let mut hasher = Sha256::new_with_prefix(self.pepper.expose_secret());
        for part in [username, password.expose_secret(), stored] {
            hasher.update(Sha256::digest(part.as_bytes()));
        }
        hasher.finalize().into()
    }

    /// How many pairs are remembered.
    #[cfg(test)]
    pub(super) async fn count(&self) -> u64 {
        self.pairs.run_pending_tasks().await;
        self.pairs.entry_count()
    }
}

impl App {
    pub(super) async fn authenticate_basic(
        &self,
        credentials: &str,
        client: Option<IpAddr>,
    ) -> Result<Actor> {
        let (username, password) = decode(credentials).ok_or_else(invalid)?;
        let known = application::machine_by_username(self.store.read(), &username).await?;
        let stored = known.as_ref().and_then(|known| known.credentials.password_hash.clone());
        let holds = self.is_password((&username, client), password, stored).await?;
        match known {
            Some(known) if holds => Ok(machine(known)),
            _ => Err(invalid()),
        }
    }

    /// Of many calls at once with the same password one does the work. Where nothing is stored,
    /// also because there is no such machine user, everything takes its course all the same: time
    /// and limits tell nobody who exists.
    async fn is_password(
        &self,
        (username, client): (&str, Option<IpAddr>),
        password: SecretString,
        stored: Option<String>,
    ) -> Result<bool> {
        let known = &self.auth.known_pairs;
        let key = known.key(username, &password, stored.as_deref().unwrap_or_default());
        let trying = self.try_password((username, client), password, stored);
        known.pairs.try_get_with(key, trying).await.map_err(|error| match &*error {
            Error::RateLimited { reason } => Error::RateLimited { reason },
            Error::Busy => Error::Busy,
            _ => Error::internal(error),
        })
    }

    async fn try_password(
        &self,
        (username, client): (&str, Option<IpAddr>),
        password: SecretString,
        stored: Option<String>,
    ) -> Result<bool> {
        // Names cost nothing. Many backends may share an address, each with a password of its own.
        if let Some(client) = client {
            self.auth.attempts.take_of_many(Subject::machines_of(client), self.now()).await?;
        }
        self.auth.attempts.take(Subject::machine_from(username, client), self.now()).await?;
        self.auth.attempts.take_of_many(Subject::machine(username), self.now()).await?;
        self.auth.hashing.verify(password, stored).await
    }
}

/// Name and password of RFC 7617; the name ends at the first colon.
fn decode(credentials: &str) -> Option<(String, SecretString)> {
    let text = String::from_utf8(STANDARD.decode(credentials).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    // PostgreSQL takes no text with a null character, and no name has one.
    (!username.contains('\0')).then(|| (username.to_owned(), SecretString::from(password)))
}
