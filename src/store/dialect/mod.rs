//! Every statement that is written as SQL, for SQLite and PostgreSQL side by side.
//!
//! Both texts of a statement take the same parameters and answer the same columns; they differ
//! in locking and in how they unpack a list. A list, of ids or of rows, is one JSON parameter:
//! the text of a statement then never depends on the number of rows, it is prepared once, and
//! one statement serves a whole batch. In such lists ids are 32 hexadecimal digits and times
//! are RFC 3339, in the form in which the driver stores them on SQLite; what is none is left out or null.
//! Taking such a list apart is half of what a statement costs, so a list holds nothing that the
//! statement can find in the database.
//!
//! # Locks on PostgreSQL
//!
//! A statement that changes many rows which others may be changing locks them first, in the order
//! of their ids (`held`): an `UPDATE` alone locks in whatever order its plan finds them. And a
//! transaction locks work before occurrences. So two batches wait for each other in one
//! direction only, and nobody is the victim of a deadlock.

/// How open work is cancelled; `$2` is the reason, `$3` now. What is being worked on counts as
/// attempted, and keeps the end of its lease: until then an attempt may be under way.
macro_rules! cancelled {
    () => {
        "SET status = 'cancelled', last_error = $2, executed_at = $3,
            retry_count = retry_count + (CASE status WHEN 'processing' THEN 1 ELSE 0 END),
            lease_token = NULL, updated_at = $3"
    };
}

mod attempts;
mod line;
mod queue;
mod removal;
mod requeue;
mod rules;
mod schedule;

pub(super) use attempts::*;
pub(super) use line::*;
pub(super) use queue::*;
pub(super) use removal::*;
pub(super) use requeue::*;
pub(super) use rules::*;
pub(super) use schedule::*;

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use sea_orm::sea_query::{BinOper, Expr, ExprTrait, Func, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, FromQueryResult, QueryResult, Statement, Value,
};
use serde_json::json;
use uuid::Uuid;

use crate::error::{Error, Result};

/// One statement in both dialects. Parameters are `$1`, `$2`, … in both.
pub(super) struct Sql {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl Sql {
    fn statement(&self, db: &impl ConnectionTrait, values: Vec<Value>) -> Statement {
        let backend = db.get_database_backend();
        let text = if backend == DbBackend::Sqlite { self.sqlite } else { self.postgres };
        Statement::from_sql_and_values(backend, text, values)
    }

    /// Runs it and answers its rows.
    pub async fn rows<T: FromQueryResult>(
        &self,
        db: &impl ConnectionTrait,
        values: Vec<Value>,
    ) -> Result<Vec<T>> {
        read(&self.unread(db, values).await?)
    }

    /// Runs it and answers its rows as they came, for [`read`].
    pub async fn unread(
        &self,
        db: &impl ConnectionTrait,
        values: Vec<Value>,
    ) -> Result<Vec<QueryResult>> {
        Ok(db.query_all_raw(self.statement(db, values)).await?)
    }

    /// Runs it and answers its first row.
    pub async fn row<T: FromQueryResult>(
        &self,
        db: &impl ConnectionTrait,
        values: Vec<Value>,
    ) -> Result<Option<T>> {
        let row = db.query_one_raw(self.statement(db, values)).await?;
        Ok(row.map(|row| T::from_query_result(&row, "")).transpose()?)
    }

    /// Runs it and answers how many rows it changed.
    pub async fn run(&self, db: &impl ConnectionTrait, values: Vec<Value>) -> Result<u64> {
        Ok(db.execute_raw(self.statement(db, values)).await?.rows_affected())
    }
}

/// Reads rows.
pub(super) fn read<T: FromQueryResult>(rows: &[QueryResult]) -> Result<Vec<T>> {
    Ok(rows.iter().map(|row| T::from_query_result(row, "")).collect::<Result<_, _>>()?)
}

/// A list of ids as one parameter.
pub(super) fn ids(ids: impl IntoIterator<Item = impl Into<Uuid>>) -> Value {
    let ids: Vec<_> = ids.into_iter().map(|id| hex(id.into())).collect();
    json!(ids).to_string().into()
}

/// How many rows at the most, as a parameter.
pub(super) fn limit(rows: u64) -> Value {
    i64::try_from(rows).unwrap_or(i64::MAX).into()
}

/// Rows as one parameter.
pub(super) fn rows(rows: &[impl serde::Serialize]) -> Result<Value> {
    Ok(serde_json::to_string(rows).map_err(Error::internal)?.into())
}

/// An id as it stands in such a list.
pub(super) fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

/// A time as it stands in such a list.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

/// Rows whose `column` holds `text`, whatever the case, as far as the database knows cases: SQLite
/// those of ASCII, PostgreSQL those of its locale. `%` and `_` stand for themselves.
pub(super) fn contains(column: impl ColumnTrait, text: &str) -> SimpleExpr {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    // Both sides by the database: this program knows more cases than it, and would miss a text
    // that is written exactly so.
    let pattern = Expr::expr(Func::lower(Expr::value(pattern)));
    let escaped = pattern.binary(BinOper::Escape, Expr::cust("'!'"));
    Expr::expr(Func::lower(column.into_expr())).binary(BinOper::Like, escaped)
}

/// A text as both databases can store it: PostgreSQL has no place for the null character.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}").into() } else { text.into() }
}

/// Held until the transaction ends, so that processes that start at once migrate in turn.
pub(super) const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(7380716)";

/// What wakes the executors of other processes: it says nothing but "look".
pub(super) const WAKE: &str = "NOTIFY pfy_wake";

/// The time of the database's clock. SQLite has none of its own.
pub(super) const DATABASE_NOW: Sql = Sql {
    sqlite: "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now') AS at",
    postgres: "SELECT clock_timestamp() AS at",
};
