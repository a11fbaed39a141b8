//! Whether this process can serve.

use std::sync::atomic::Ordering;

use chrono::Duration;

use super::App;
use crate::domain::access::Scope;
use crate::domain::id::ApplicationId;
use crate::error::{Error, Result};
use crate::store::{application, executor};

/// How many applications are asked for at once.
const IDS_AT_ONCE: usize = 500;

/// How long it may take to find out whether a process is ready.
const READY_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// A process whose clock differs more from the database's is not ready, and executes nothing.
pub const SKEW_MAX: Duration = Duration::seconds(5);

impl App {
    /// How far this process's clock is ahead of the database's, as [`Self::measure_skew`] says. Fails
    /// unless the database answers all that within 2 s, and its schema is as new as this program. The
    /// error says why a database can't be reached.
    pub async fn ready(&self) -> Result<Duration> {
        let asked = async {
            self.store.ping().await?;
            match self.store.pending_migrations().await? {
                0 => self.measure_skew().await,
                n => Err(Error::internal(format!("{n} changes of the schema are not applied"))),
            }
        };
        match tokio::time::timeout(READY_WITHIN, asked).await.unwrap_or(Err(Error::Busy)) {
            Ok(skew) => Ok(skew),
            Err(error) => Err(self.store.why(error).await),
        }
    }

    /// Drops the series of applications that another process has deleted.
    pub async fn forget_deleted(&self) -> Result<()> {
        let named: Vec<ApplicationId> = self
            .metrics
            .apps()
            .iter()
            .filter_map(|app| app.parse().ok().map(ApplicationId))
            .collect();
        for named in named.chunks(IDS_AT_ONCE) {
            let there = application::find_all(self.store.read(), Scope::Everything, named).await?;
            for gone in named.iter().filter(|id| there.iter().all(|app| app.id != **id)) {
                self.metrics.remove_app(gone);
            }
        }
        Ok(())
    }

    /// As [`Self::measure_skew`]; until it is called again, [`Self::clock_holds`] answers by it.
    pub async fn check_clock(&self) -> Result<Duration> {
        let skew = self.measure_skew().await?;
        self.skewed.store(skew.abs() > SKEW_MAX, Ordering::Relaxed);
        Ok(skew)
    }

    /// Whoever writes what a caller asks for asks first.
    ///
    /// # Errors
    /// [`Error::Skewed`] while this process's clock is wrong: schedules would start at a wrong time, and
    /// heartbeats hold too long or not at all.
    pub fn clock_holds(&self) -> Result<()> {
        match self.skewed.load(Ordering::Relaxed) {
            true => Err(Error::Skewed),
            false => Ok(()),
        }
    }

    /// How far this process's clock is ahead of the database's; on SQLite, which has none of its
    /// own, not at all. Sets the gauge of it.
    pub async fn measure_skew(&self) -> Result<Duration> {
        let before = self.now();
        let Some(database) = executor::database_now(&self.store).await? else {
            return Ok(Duration::zero());
        };
        let after = self.now();
        let skew = before + (after - before) / 2 - database;
        self.metrics.set_clock_skew(skew);
        Ok(skew)
    }
}
