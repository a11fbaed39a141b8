//! The least that delivering can cost with this HTTP client and this database: claim 500, POST
//! them, mark them done. No lease, signature, log, retry, fairness or occurrence.

use anyhow::Result;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement, Value};
use trigger_manager::egress::{AddressPolicy, CallbackUrl, Egress, Outgoing, Sent};
use trigger_manager::store::{Engine, Store, Tx};
use uuid::Uuid;

use crate::place::{Place, egress};
use crate::receiver::Receiver;

const BATCH: i64 = 500;
/// Two loops, so that one may wait for the database while the other sends.
const LOOPS: usize = 2;
const IN_FLIGHT: usize = 50;

/// A bare worker.
#[derive(Clone)]
pub struct Bare {
    pub store: Store,
    egress: Egress,
    url: CallbackUrl,
}

#[derive(FromQueryResult)]
struct Job {
    id: Uuid,
    body: String,
}

impl Bare {
    /// Writes a job for each time of `due`.
    pub async fn new(
        place: &Place,
        receiver: &Receiver,
        due: impl Iterator<Item = DateTime<Utc>>,
    ) -> Result<Self> {
        let config = place.config()?;
        let policy = AddressPolicy::new(config.callbacks.allowed_networks.clone());
        let url = policy.parse_url(&receiver.url("hooks/bare"))?;
        let bare = Self { store: place.store().await?, egress: egress(&config)?, url };
        bare.fill(due).await?;
        Ok(bare)
    }

    async fn fill(&self, due: impl Iterator<Item = DateTime<Utc>>) -> Result<()> {
        let tx = self.store.begin().await?;
        let (id, time) = match tx.engine() {
            Engine::Sqlite => ("blob", "text"),
            Engine::Postgres => ("uuid", "timestamptz"),
        };
        let table = format!(
            "CREATE TABLE bare_job (id {id} PRIMARY KEY, due_at {time} NOT NULL,
                body text NOT NULL, status text NOT NULL)"
        );
        tx.execute_unprepared(&table).await?;
        let index = "CREATE INDEX bare_due ON bare_job (due_at) WHERE status = 'pending'";
        tx.execute_unprepared(index).await?;
        for due in due {
            let values = vec![Uuid::now_v7().into(), due.into(), body(due).into()];
            tx.execute_raw(sql(&tx, "INSERT INTO bare_job VALUES ($1, $2, $3, 'pending')", values))
                .await?;
        }
        tx.execute_unprepared("ANALYZE bare_job").await?;
        Ok(tx.commit_unaudited().await?)
    }

    /// Works until nothing is left.
    pub async fn run(&self) -> Result<()> {
        let loops = (0..LOOPS).map(|_| {
            let bare = self.clone();
            tokio::spawn(async move {
                while bare.batch().await? {}
                anyhow::Ok(())
            })
        });
        for ended in loops.collect::<Vec<_>>() {
            ended.await??;
        }
        Ok(())
    }

    async fn batch(&self) -> Result<bool> {
        let jobs = self.claim().await?;
        if jobs.is_empty() {
            return Ok(false);
        }
        let sent = stream::iter(jobs).map(|job| self.send(job)).buffer_unordered(IN_FLIGHT);
        let done: Vec<_> = sent.collect().await;
        self.mark(done.into_iter().collect::<Result<_>>()?).await?;
        Ok(true)
    }

    async fn claim(&self) -> Result<Vec<Job>> {
        let tx = self.store.begin().await?;
        let skip = match tx.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => "FOR UPDATE SKIP LOCKED",
        };
        let materialized = match tx.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => "MATERIALIZED",
        };
        let claim = format!(
            "WITH due AS {materialized} (SELECT id FROM bare_job
                WHERE status = 'pending' AND due_at <= $1 ORDER BY due_at LIMIT $2 {skip})
            UPDATE bare_job SET status = 'processing' WHERE id IN (SELECT id FROM due)
            RETURNING id, body"
        );
        let values = vec![now().into(), BATCH.into()];
        let rows = tx.query_all_raw(sql(&tx, &claim, values)).await?;
        let jobs = rows.iter().map(|row| Job::from_query_result(row, ""));
        let jobs = jobs.collect::<Result<_, _>>()?;
        tx.commit_unaudited().await?;
        Ok(jobs)
    }

    async fn send(&self, job: Job) -> Result<Uuid> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let id = HeaderValue::from_str(&job.id.to_string())?;
        headers.insert(HeaderName::from_static("webhook-id"), id);
        let (url, body) = (self.url.clone(), Bytes::from(job.body));
        let outgoing = Outgoing { method: Method::POST, url, headers, body, timeout: None };
        match self.egress.send(outgoing).await {
            Sent::Answered { .. } => Ok(job.id),
            Sent::Failed { detail, .. } => anyhow::bail!(detail),
        }
    }

    async fn mark(&self, done: Vec<Uuid>) -> Result<()> {
        let tx = self.store.begin().await?;
        let list = match tx.engine() {
            Engine::Sqlite => "SELECT unhex(value) FROM json_each($1)",
            Engine::Postgres => "SELECT x::uuid FROM json_array_elements_text($1::json) x",
        };
        let mark = format!("UPDATE bare_job SET status = 'done' WHERE id IN ({list})");
        let ids: Vec<_> = done.iter().map(|id| id.simple().to_string()).collect();
        tx.execute_raw(sql(&tx, &mark, vec![serde_json::to_string(&ids)?.into()])).await?;
        Ok(tx.commit_unaudited().await?)
    }
}

/// A body of about the size of ours.
fn body(due: DateTime<Utc>) -> String {
    let at = due.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
    let body = serde_json::json!({
        "trigger_id": Uuid::now_v7(), "trigger_name": "Nightly report 17",
        "cron_expression": "0 0 0 * * *", "run_key": "nightly-report-17", "executed_at": at,
    });
    body.to_string()
}

fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A statement for the engine of a transaction.
pub fn sql(tx: &Tx, text: &str, values: Vec<Value>) -> Statement {
    let backend = match tx.engine() {
        Engine::Sqlite => DbBackend::Sqlite,
        Engine::Postgres => DbBackend::Postgres,
    };
    Statement::from_sql_and_values(backend, text, values)
}
