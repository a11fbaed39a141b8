//! Retention: what is older than it is to be kept is deleted, in small batches.
//!
//! Each table is walked in the order of its key, which is the order of creation, and only as far
//! as rows can be old enough: a sweep costs what there is to delete, and what is older than the shortest
//! time for which rows of the table are kept and stays all the same.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::Executor;
use crate::error::Result;
use crate::store::retention::{self, Kept, Logs, Table};

/// How long it is known of an executor that it was there.
const EXECUTORS_KEPT: Duration = Duration::days(7);

/// What a sweep deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetainReport {
    /// Occurrences with their deliveries.
    pub occurrences: u64,
    /// Scheduled actions of rules and workflow services.
    pub actions: u64,
    /// Cycles of time-based rules.
    pub cycles: u64,
    /// Events.
    pub events: u64,
    /// Rows of the trigger log that say what was held back.
    pub held_back: u64,
    /// All other rows of the trigger log.
    pub logs: u64,
    /// Rows of the audit log.
    pub audits: u64,
    /// What rate control remembers of deleted rules.
    pub rule_states: u64,
    /// Executors that were last here a week ago.
    pub executors: u64,
}

impl Executor {
    /// Deletes all that is older than the configuration keeps.
    pub async fn retain(&self, now: DateTime<Utc>) -> Result<RetainReport> {
        let retention = &self.app.config.retention;
        let since =
            |kept: Option<std::time::Duration>| kept.map(|kept| now - crate::app::span(kept));
        let kept = Kept { well: since(retention.delivered), badly: since(retention.failed) };
        let (audit, events) = (since(retention.audit), since(retention.events));
        let (held_back, log) = (since(retention.held_back), since(retention.log));
        Ok(RetainReport {
            occurrences: self.sweep(Table::Occurrences, kept).await?,
            actions: self.sweep(Table::Actions, kept).await?,
            cycles: self.sweep(Table::Cycles, kept).await?,
            events: self.sweep(Table::Events, Kept::since(events)).await?,
            held_back: self.sweep_logs(Logs::HeldBack, held_back).await?,
            logs: self.sweep_logs(Logs::Others, log).await?,
            audits: self.sweep(Table::Audit, Kept::since(audit)).await?,
            rule_states: self.sweep_rule_states(now).await?,
            executors: self.sweep_executors(now).await?,
        })
    }

    async fn sweep(&self, table: Table, kept: Kept) -> Result<u64> {
        let (mut after, mut deleted) = (Uuid::nil(), 0);
        loop {
            let tx = self.app.store.begin().await?;
            let batch = u64::from(self.app.config.retention.batch);
            let swept = retention::sweep(&tx, table, kept, (after, batch)).await?;
            tx.commit_unaudited().await?;
            deleted += swept.deleted;
            match swept.last {
                Some(last) => after = last,
                None => return Ok(deleted),
            }
        }
    }

    async fn sweep_rule_states(&self, now: DateTime<Utc>) -> Result<u64> {
        let batch = u64::from(self.app.config.retention.batch);
        let mut total = 0;
        loop {
            let tx = self.app.store.begin().await?;
            let deleted = retention::delete_rule_states(&tx, now, batch).await?;
            tx.commit_unaudited().await?;
            total += deleted;
            if deleted < batch {
                return Ok(total);
            }
        }
    }

    async fn sweep_executors(&self, now: DateTime<Utc>) -> Result<u64> {
        let tx = self.app.store.begin().await?;
        let deleted = retention::delete_executors(&tx, now - EXECUTORS_KEPT).await?;
        tx.commit_unaudited().await?;
        Ok(deleted)
    }

    async fn sweep_logs(&self, kind: Logs, since: Option<DateTime<Utc>>) -> Result<u64> {
        let Some(since) = since else { return Ok(0) };
        let batch = u64::from(self.app.config.retention.batch);
        let mut total = 0;
        loop {
            let tx = self.app.store.begin().await?;
            let deleted = retention::delete_logs(&tx, kind, since, batch).await?;
            tx.commit_unaudited().await?;
            total += deleted;
            if deleted < batch {
                return Ok(total);
            }
        }
    }
}
