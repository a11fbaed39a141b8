//! Events from another database's tables.
//!
//! That database is always PostgreSQL, whatever our own is: these tests run in the pass on
//! PostgreSQL, and in the one on SQLite where a server is at hand.

mod captured;
mod installed;
mod looped;
mod read;
mod stored;

use sea_orm::sqlx::postgres::PgConnection;
use sea_orm::sqlx::{self, AssertSqlSafe, Connection, Executor, Row};
use serde_json::Value;
use trigger_manager::pg_source::{EventKind, SqlArgs};
use url::Url;
use uuid::Uuid;

use crate::harness::{administration, postgres_at_hand};

const LINE_OA: Uuid = Uuid::from_u128(7);
const PERSON: &str = "U0123456789abcdef0123456789abcdef";

/// A customer's database. It goes with the throw-away server.
struct Customer {
    url: String,
    db: PgConnection,
}

/// What a row of the outbox says.
#[derive(Debug, PartialEq)]
struct Said {
    kind: String,
    line_oa: Option<Uuid>,
    person: Option<String>,
    payload: Value,
}

impl Customer {
    /// Without an outbox. None on SQLite without a PostgreSQL server.
    async fn new() -> Option<Self> {
        use sea_orm::ConnectionTrait;
        let mut url = Url::parse(&postgres_at_hand()?).unwrap();
        let name = format!("s_{}", Uuid::now_v7().simple());
        let connection = administration().await;
        connection.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
        connection.close().await.unwrap();
        url.set_path(&name);
        let db = PgConnection::connect(url.as_str()).await.unwrap();
        Some(Self { url: url.into(), db })
    }

    /// With an outbox.
    async fn with_outbox() -> Option<Self> {
        let mut customer = Self::new().await?;
        customer.run(&SqlArgs::default().sql().unwrap()).await;
        Some(customer)
    }

    /// With an outbox, and a table of users whose changes are written there.
    async fn with_users() -> Option<Self> {
        let mut customer = Self::new().await?;
        customer
            .run("CREATE TABLE users (id serial PRIMARY KEY, line_id text, name text, plan json)")
            .await;
        customer.run(&users().sql().unwrap()).await;
        Some(customer)
    }

    async fn run(&mut self, sql: &str) {
        self.tried(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    }

    /// As psql would run it.
    async fn tried(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let result = self.db.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
        if result.is_err() {
            self.db.execute("ROLLBACK").await.unwrap();
        }
        result.map(drop)
    }

    async fn count(&mut self, of: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {of}");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.db).await.unwrap()
    }

    /// The rows of the outbox in their order, which are then removed.
    async fn said(&mut self) -> Vec<Said> {
        let sql = "WITH gone AS (DELETE FROM trigger_manager.outbox RETURNING *)
            SELECT type, line_oa_id, user_id, payload FROM gone ORDER BY id";
        let rows = sqlx::query(sql).fetch_all(&mut self.db).await.unwrap();
        let said = rows.into_iter().map(|row| Said {
            kind: row.get("type"),
            line_oa: row.get("line_oa_id"),
            person: row.get("user_id"),
            payload: row.get("payload"),
        });
        said.collect()
    }

    /// Their payloads.
    async fn payloads(&mut self) -> Vec<Value> {
        self.said().await.into_iter().map(|said| said.payload).collect()
    }

    /// Puts `count` rows into the outbox, each with its number as payload.
    async fn fill(&mut self, count: i32) {
        let sql = "INSERT INTO trigger_manager.outbox (type, line_oa_id, user_id, payload)
            SELECT 'form_submitted', $1, $2, to_jsonb(n) FROM generate_series(1, $3) AS n";
        let fill = sqlx::query(sql).bind(LINE_OA).bind(PERSON).bind(count);
        fill.execute(&mut self.db).await.unwrap();
    }
}

/// The options for a table of users.
fn users() -> SqlArgs {
    SqlArgs {
        table: Some("public.users".to_owned()),
        kind: Some(EventKind::AttributeChanged),
        line_oa_id: Some(LINE_OA),
        user_column: Some("line_id".to_owned()),
        ..SqlArgs::default()
    }
}
