//! The only SQL of our own database. Takes and returns domain types; knows nothing of HTTP, GraphQL
//! or the executor.
//!
//! # Reading and writing
//!
//! [`Store::read`] is a pool for single statements that read. Whatever writes begins a [`Tx`]. The
//! transaction of a use case ends in [`Tx::commit`], which takes the audit rows: a change
//! without its record can't be written by accident. The executor's own bookkeeping is no change
//! that somebody made, and ends in [`Tx::commit_unaudited`].
//!
//! SQLite has one writer. So there is one connection that writes, each of its transactions is
//! `BEGIN IMMEDIATE` (a deferred one that turns into a writer fails at once when another holds
//! the lock), and readers have connections of their own, which write-ahead logging never blocks.

pub mod application;
pub mod audience;
pub mod audit;
pub mod cancel;
mod connect;
pub mod cycle;
pub mod delivery;
mod dialect;
mod entity;
mod error;
pub mod event;
pub mod executor;
pub mod firing;
pub mod line;
mod listen;
pub mod log;
pub mod ownership;
mod paging;
pub mod people;
pub mod retention;
pub mod rule;
pub mod scheduled_action;
mod scope;
pub mod setting;
pub mod supersede;
pub mod trigger;
pub mod trigger_log;
mod wanted;
pub mod withdrawal;
pub mod workflow;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, LockType};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, QuerySelect, Select,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};

use crate::checkpoint::{self, Checkpoint, MaybeCheckpoint, Point};
use crate::domain::audit::{Caller, Change};
use crate::error::{Error, Result};

pub use crate::config::Engine;
pub use connect::Options;

/// The database.
#[derive(Clone)]
pub struct Store {
    /// For the connection that hears hints. May hold a password.
    url: std::sync::Arc<str>,
    read: DatabaseConnection,
    write: DatabaseConnection,
    engine: Engine,
    traffic: Traffic,
    checkpoint: MaybeCheckpoint,
    /// Of SQLite.
    file: Option<Arc<connect::DatabaseFile>>,
}

/// How much the database was asked to do since the store was opened.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<[AtomicU64; 2]>);

impl Traffic {
    /// Statements sent, those that begin and end a transaction left out.
    pub fn statements(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Transactions committed.
    pub fn commits(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    fn count_statement(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn count_commit(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    /// This store, with a checkpoint at its transactions: for simulations.
    #[doc(hidden)]
    pub fn with_checkpoint(self, checkpoint: Arc<dyn Checkpoint>) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Which database it is.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// What the database was asked to do so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// A connection for statements that only read.
    pub fn read(&self) -> &DatabaseConnection {
        &self.read
    }

    /// Fails when the file of an SQLite database was removed or replaced since it was opened.
    fn has_file(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.check())
    }

    /// Begins a transaction that may write. Dropped without a commit, it leaves nothing. Refused when
    /// the file of an SQLite database is gone.
    pub async fn begin(&self) -> Result<Tx> {
        self.has_file()?;
        checkpoint::pass(&self.checkpoint, Point::BeforeBegin).await?;
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..Default::default()
        };
        // On a task of its own: a caller that goes away in the middle must not leave a connection
        // behind that has begun and does not know it.
        let write = self.write.clone();
        let begun = tokio::spawn(async move { write.begin_with_options(options).await });
        let inner = begun.await.map_err(Error::internal)??;
        let (traffic, checkpoint) = (self.traffic.clone(), self.checkpoint.clone());
        Ok(Tx { inner, engine: self.engine, traffic, checkpoint })
    }

    /// Closes all connections, once what runs on them has ended.
    pub async fn close(self) -> Result<()> {
        self.read.clone().close().await?;
        Ok(self.write.close().await?)
    }
}

/// The statements that every pass of an executor runs, by name, for the tests that look at their
/// plans.
#[doc(hidden)]
pub fn planned_statements(engine: Engine) -> [(&'static str, &'static str); 7] {
    use dialect::{CLAIM, DUE_TRIGGERS, FINISH, NEXT_DUE, REAP};
    use dialect::{SETTLE_OCCURRENCES, WAITING_OCCURRENCES};
    let text = |sql: &dialect::Sql| match engine {
        Engine::Sqlite => sql.sqlite,
        Engine::Postgres => sql.postgres,
    };
    [
        ("due_triggers", text(&DUE_TRIGGERS)),
        ("claim", text(&CLAIM)),
        ("next_due", text(&NEXT_DUE)),
        ("waiting_occurrences", text(&WAITING_OCCURRENCES)),
        ("reap", text(&REAP)),
        ("finish", text(&FINISH)),
        ("settle", text(&SETTLE_OCCURRENCES)),
    ]
}

/// The statements that end or delete work of something that is deleted, by name, for the tests that
/// look at their plans.
#[doc(hidden)]
pub fn removal_statements(engine: Engine) -> [(&'static str, &'static str); 8] {
    use dialect::{CANCEL_BACKEND_ACTIONS, CANCEL_LINE_ACTIONS};
    use dialect::{CANCEL_RULE_ACTIONS, CANCEL_WORKFLOW_ACTIONS};
    use dialect::{DELETE_APPLICATION_WORK, DELETE_OPEN_APPLICATION_WORK};
    use dialect::{DELETE_OPEN_PROJECT_WORK, DELETE_PROJECT_WORK};
    let text = |sql: &dialect::Sql| match engine {
        Engine::Sqlite => sql.sqlite,
        Engine::Postgres => sql.postgres,
    };
    [
        ("cancel_backend", text(&CANCEL_BACKEND_ACTIONS)),
        ("cancel_line", text(&CANCEL_LINE_ACTIONS)),
        ("cancel_rule", text(&CANCEL_RULE_ACTIONS)),
        ("cancel_workflow", text(&CANCEL_WORKFLOW_ACTIONS)),
        ("delete_applications", text(&DELETE_APPLICATION_WORK)),
        ("delete_open_applications", text(&DELETE_OPEN_APPLICATION_WORK)),
        ("delete_project", text(&DELETE_PROJECT_WORK)),
        ("delete_open_project", text(&DELETE_OPEN_PROJECT_WORK)),
    ]
}

/// A transaction that may write.
pub struct Tx {
    inner: DatabaseTransaction,
    engine: Engine,
    traffic: Traffic,
    checkpoint: MaybeCheckpoint,
}

/// What a row is held for, so that no other transaction changes it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// To be changed: rows that belong to it may be written meanwhile.
    Change,
    /// To be deleted: nothing that belongs to it may appear meanwhile.
    Delete,
}

impl Tx {
    /// Which database it is.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Lets `select` hold its rows until the transaction ends. On SQLite the transaction is the
    /// only one that writes, and nothing needs to be held.
    fn holding<E: EntityTrait>(&self, select: Select<E>, hold: Hold) -> Select<E> {
        match (self.engine, hold) {
            (Engine::Sqlite, _) => select,
            (Engine::Postgres, Hold::Change) => select.lock(LockType::NoKeyUpdate),
            (Engine::Postgres, Hold::Delete) => select.lock(LockType::Update),
        }
    }

    /// Holds the rows of `select`, as [`Self::holding`] does, and reads none of them.
    async fn hold_all<E: EntityTrait>(&self, select: Select<E>, hold: Hold) -> Result<()> {
        if self.engine == Engine::Postgres {
            let held = self.holding(select, hold).select_only().expr(Expr::cust("1"));
            held.into_tuple::<i32>().all(&self.inner).await?;
        }
        Ok(())
    }

    /// Holds what has these names until the transaction ends, with `statement`. On SQLite the
    /// transaction is the only one that writes, and nothing needs to be held.
    async fn hold_names(&self, statement: &dialect::Sql, names: &[String]) -> Result<()> {
        if self.engine == Engine::Postgres && !names.is_empty() {
            statement.run(&self.inner, vec![dialect::rows(names)?]).await?;
        }
        Ok(())
    }

    /// Marks a place to which [`back_to_savepoint`](Self::back_to_savepoint) takes this transaction
    /// back, also after a statement of it has failed.
    pub async fn set_savepoint(&self) -> Result<()> {
        self.inner.execute_unprepared("SAVEPOINT attempt").await?;
        Ok(())
    }

    /// Undoes what was written since the savepoint; what is held stays held.
    pub async fn back_to_savepoint(&self) -> Result<()> {
        self.inner.execute_unprepared("ROLLBACK TO SAVEPOINT attempt").await?;
        Ok(())
    }

    /// Undoes everything, and has done so when it returns. A transaction that is dropped is undone
    /// some time later.
    pub async fn rollback(self) -> Result<()> {
        Ok(self.inner.rollback().await?)
    }

    /// Writes the audit rows of `changes` and commits everything, or nothing.
    pub async fn commit(
        self,
        caller: &Caller,
        now: DateTime<Utc>,
        changes: &[Change],
    ) -> Result<()> {
        audit::insert(&self.inner, caller, now, changes).await?;
        self.commit_unaudited().await
    }

    /// Commits what is nobody's change: the executor's bookkeeping, a heartbeat's time.
    pub async fn commit_unaudited(self) -> Result<()> {
        if let Err(error) = checkpoint::pass(&self.checkpoint, Point::BeforeCommit).await {
            // Waited for, as a commit that fails is.
            let _ = self.inner.rollback().await;
            return Err(error);
        }
        self.inner.commit().await?;
        self.traffic.count_commit();
        checkpoint::pass(&self.checkpoint, Point::AfterCommit).await
    }
}

impl Deref for Tx {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        &self.inner
    }
}
