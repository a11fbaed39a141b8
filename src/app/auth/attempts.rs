//! How often a password may be tried.
//!
//! Counted per process and per minute of the server's clock: a guesser who meets several api
//! processes has as many times the attempts.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use moka::future::Cache;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The least lately used counters beyond this are forgotten.
const COUNTERS: u64 = 100_000;
/// A counter is of no use after its minute.
const KEPT: Duration = Duration::from_secs(120);

/// Whose attempts are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject(&'static str, [u8; 32]);

impl Subject {
    /// A person's account, whether or not it exists.
    pub(super) fn account(email: &str) -> Self {
        Self("account", Sha256::digest(email.as_bytes()).into())
    }

    /// A person's account as one client tries it: one who guesses must not lock out the person.
    pub(super) fn account_from(email: &str, client: Option<IpAddr>) -> Self {
        Self("account from", of_one_client(email, client))
    }

    /// A machine user, whether or not it exists.
    pub(super) fn machine(username: &str) -> Self {
        Self("machine", Sha256::digest(username.as_bytes()).into())
    }

    /// A machine user as one client tries it: one who guesses must not lock out the backend.
    pub(super) fn machine_from(username: &str, client: Option<IpAddr>) -> Self {
        Self("machine from", of_one_client(username, client))
    }

    /// Whatever machine users an address tries.
    pub(super) fn machines_of(client: IpAddr) -> Self {
        Self("machines of", Self::client(client).1)
    }

    /// An address. Of IPv6 the first 64 bits: the rest is the client's own to choose.
    pub(super) fn client(address: IpAddr) -> Self {
        let octets = match address.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).octets()
            }
        };
        Self("client", Sha256::digest(octets).into())
    }
}

fn of_one_client(name: &str, client: Option<IpAddr>) -> [u8; 32] {
    let client = client.map(|client| Subject::client(client).1).unwrap_or_default();
    Sha256::new_with_prefix(client).chain_update(name.as_bytes()).finalize().into()
}

/// Counts attempts.
pub(super) struct Attempts {
    per_minute: u32,
    counters: Cache<(Subject, i64), Arc<AtomicU32>>,
}

impl Attempts {
    pub(super) fn new(per_minute: u32) -> Self {
        let counters = Cache::builder().max_capacity(COUNTERS).time_to_live(KEPT).build();
        Self { per_minute, counters }
    }

    /// Counts one attempt of `subject`.
    ///
    /// # Errors
    /// `RATE_LIMITED` when this minute's attempts are used up.
    pub(super) async fn take(&self, subject: Subject, now: DateTime<Utc>) -> Result<()> {
        self.take_of(self.per_minute, subject, now).await
    }

    /// [`Self::take`] of ten times as many: for what many clients do together.
    pub(super) async fn take_of_many(&self, subject: Subject, now: DateTime<Utc>) -> Result<()> {
        self.take_of(self.per_minute.saturating_mul(10), subject, now).await
    }

    async fn take_of(&self, most: u32, subject: Subject, now: DateTime<Utc>) -> Result<()> {
        let minute = now.timestamp().div_euclid(60);
        let counter = self.counters.get_with((subject, minute), async { Arc::default() }).await;
        let counted = |made: u32| (made < most).then_some(made + 1);
        match counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Error::RateLimited { reason: "too many attempts; wait a minute and try again" })
            }
        }
    }
}
