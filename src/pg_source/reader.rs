//! Taking rows out of the outbox.

use std::collections::BTreeSet;
use std::str::FromStr;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::{self, ConnectOptions, Connection, Executor, Postgres, Row, Transaction};

use super::outbox::{OutboxRow, Refused};
use crate::error::{Error, Result};

/// The longest payload that is read, in bytes of PostgreSQL's JSON text; a row with a longer one
/// is refused. More than an event may have, because that text has more blanks.
pub const PAYLOAD_READ_MAX: i32 = 128 * 1024;
/// How many refused rows are kept: the newest.
pub const REFUSED_KEPT: i64 = 10_000;

const REASON_MAX: usize = 1000;

/// What holds in each transaction. It must not keep locks when this process hangs, and must not
/// ask for names in schemas that others can write to.
const BOUNDS: &str = "SET LOCAL search_path = pg_catalog, pg_temp; \
    SET LOCAL statement_timeout = '20s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

const TAKE: &str = "SELECT id, event_id, left(type, 100) AS type, line_oa_id, \
        left(user_id, 200) AS user_id, occurred_at, \
        CASE WHEN octet_length(payload::text) <= $2 THEN payload::text END AS payload \
    FROM trigger_manager.outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";

const REFUSE: &str = "WITH gone AS ( \
        DELETE FROM trigger_manager.outbox AS o \
        USING unnest($1::bigint[], $2::text[]) AS r (refused, reason) \
        WHERE o.id = r.refused RETURNING o.*, r.reason) \
    INSERT INTO trigger_manager.outbox_refused (id, event_id, type, line_oa_id, user_id, \
        occurred_at, payload, created_at, reason) \
    SELECT id, event_id, type, line_oa_id, user_id, occurred_at, payload, created_at, reason \
    FROM gone ORDER BY id";

const FORGET: &str = "DELETE FROM trigger_manager.outbox_refused WHERE refused_id <= ( \
    SELECT refused_id FROM trigger_manager.outbox_refused \
    ORDER BY refused_id DESC OFFSET $1 LIMIT 1)";

/// A connection to the database with the outbox. After an error it is to be made anew.
pub struct Reader {
    connection: PgConnection,
}

impl Reader {
    /// Connects. Fails when the database can't be reached; the outbox may be missing.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(Error::internal)?
            .application_name("trigger-manager")
            // A pooler in between may give each transaction another connection.
            .statement_cache_capacity(0)
            .disable_statement_logging();
        Ok(Self { connection: options.connect().await.map_err(Error::internal)? })
    }

    /// Whether there are rows at all, those that another reader holds included. One statement
    /// without a transaction: the look of an idle loop.
    pub async fn has_rows(&mut self) -> Result<bool> {
        let any = "SELECT EXISTS (SELECT FROM trigger_manager.outbox)";
        sqlx::query_scalar(any).fetch_one(&mut self.connection).await.map_err(told)
    }

    /// Takes the oldest `limit` rows that no other reader holds. They stay in the outbox, held,
    /// until [`Batch::done`]; dropping the batch lets go of them.
    pub async fn take(&mut self, limit: u16) -> Result<Batch<'_>> {
        let mut tx = self.connection.begin().await.map_err(told)?;
        tx.execute(sqlx::raw_sql(BOUNDS)).await.map_err(told)?;
        let found = sqlx::query(TAKE)
            .bind(i64::from(limit))
            .bind(PAYLOAD_READ_MAX)
            .fetch_all(&mut *tx)
            .await
            .map_err(told)?;
        let mut batch =
            Batch { tx, ids: BTreeSet::new(), rows: Vec::new(), unreadable: Vec::new() };
        for row in &found {
            let id = row.try_get("id").map_err(Error::internal)?;
            batch.ids.insert(id);
            match OutboxRow::read(id, row) {
                Ok(row) => batch.rows.push(row),
                Err(refused) => batch.unreadable.push(refused),
            }
        }
        Ok(batch)
    }
}

/// Rows that this reader holds.
pub struct Batch<'a> {
    tx: Transaction<'a, Postgres>,
    ids: BTreeSet<i64>,
    /// What can be read of them, in the order of their ids. May be moved out.
    pub rows: Vec<OutboxRow>,
    unreadable: Vec<Refused>,
}

impl Batch<'_> {
    /// Whether nothing was there, or others hold it. A batch that holds only rows that can't be
    /// read is not empty, and has no `rows`.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Removes the rows from the outbox, and moves those that are refused, and those that could
    /// not be read, to `trigger_manager.outbox_refused`: in one transaction. Ids of other rows
    /// mean nothing. If it fails, or the process ends before it, all of them will be taken again.
    pub async fn done(mut self, refused: Vec<Refused>) -> Result<()> {
        let (mut ids, mut reasons) = (Vec::new(), Vec::new());
        for Refused { id, reason } in self.unreadable.into_iter().chain(refused) {
            if self.ids.remove(&id) {
                ids.push(id);
                reasons.push(reason.replace('\0', " ").chars().take(REASON_MAX).collect());
            }
        }
        if !ids.is_empty() {
            tracing::warn!(
                rows = ids.len(),
                reason = reasons.first().map(|reason: &String| reason.as_str()),
                "rows of the outbox can't be events; they are in trigger_manager.outbox_refused"
            );
            let refuse = sqlx::query(REFUSE).bind(ids).bind(reasons);
            refuse.execute(&mut *self.tx).await.map_err(told)?;
            let forget = sqlx::query(FORGET).bind(REFUSED_KEPT);
            forget.execute(&mut *self.tx).await.map_err(told)?;
        }
        let stored: Vec<i64> = self.ids.into_iter().collect();
        sqlx::query("DELETE FROM trigger_manager.outbox WHERE id = ANY ($1)")
            .bind(stored)
            .execute(&mut *self.tx)
            .await
            .map_err(told)?;
        self.tx.commit().await.map_err(told)
    }
}

/// The error, with what would mend it where that is known.
fn told(error: sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(|error| error.code());
    let mend = match code.as_deref() {
        Some("42P01" | "3F000") => "apply there what `trigger-manager pg-source sql` prints",
        Some("42501") => "apply there what `trigger-manager pg-source sql --reader ROLE` prints",
        _ => return Error::internal(error),
    };
    Error::internal(format!("{error}; {mend}"))
}
