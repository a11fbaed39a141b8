//! What a stretch of work costs: time, processor, memory, and the database's own counts.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};
use trigger_manager::store::{Engine, Store};

use crate::receiver::Arrival;
use crate::report::Figures;

/// How many times a second the kernel counts processor time, on every common build of it.
const TICKS: u32 = 100;

/// Counts from [`Meter::start`] to [`Meter::stop`].
pub struct Meter {
    stores: Vec<Store>,
    postmaster: Option<u32>,
    began: Instant,
    before: Counts,
}

#[derive(Clone, Copy)]
struct Counts {
    cpu: Duration,
    commits: u64,
    statements: u64,
    wal: i64,
}

impl Meter {
    /// `stores` are all that take part.
    pub async fn start(stores: &[&Store]) -> Result<Self> {
        let stores: Vec<_> = stores.iter().map(|store| (*store).clone()).collect();
        let mut meter = Self {
            postmaster: postmaster(&stores[0]).await?,
            stores,
            began: Instant::now(),
            before: Counts { cpu: Duration::ZERO, commits: 0, statements: 0, wal: 0 },
        };
        // Forgets how large the process ever was. Without the right to do so, the peak is too high.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        meter.before = meter.counts().await?;
        meter.began = Instant::now();
        Ok(meter)
    }

    async fn counts(&self) -> Result<Counts> {
        let server = self.postmaster.map_or(Ok(Duration::ZERO), family_cpu)?;
        let traffic = || self.stores.iter().map(Store::traffic);
        Ok(Counts {
            commits: traffic().map(|traffic| traffic.commits()).sum(),
            statements: traffic().map(|traffic| traffic.statements()).sum(),
            cpu: server + cpu("self")?,
            wal: wal(&self.stores[0]).await?,
        })
    }

    /// The figures for `deliveries` since the start, `took` long (none: until now).
    pub async fn stop(self, deliveries: usize) -> Result<Figures> {
        let took = self.began.elapsed();
        let after = self.counts().await?;
        let each = |total: f64| Some(total / deliveries as f64);
        let wal = after.wal - self.before.wal;
        Ok(Figures {
            per_second: Some(deliveries as f64 / took.as_secs_f64()),
            cpu_us: each((after.cpu - self.before.cpu).as_secs_f64() * 1e6),
            commits: each((after.commits - self.before.commits) as f64),
            statements: each((after.statements - self.before.statements) as f64),
            wal_bytes: each(wal as f64).filter(|_| self.postmaster.is_some()),
            peak_mb: Some(memory("self", "VmHWM")?),
            ..Figures::default()
        })
    }
}

/// Adds what the receiver noted: how much, how much of it different, and how late.
pub fn arrived(figures: &mut Figures, arrivals: &[Arrival]) {
    let mut ids: Vec<_> = arrivals.iter().map(|arrival| &arrival.webhook_id).collect();
    ids.sort_unstable();
    ids.dedup();
    figures.received = Some(arrivals.len() as f64);
    figures.unique = Some(ids.len() as f64);
}

/// Adds the lateness of arrivals.
pub fn late(figures: &mut Figures, arrivals: &[Arrival]) {
    let mut late: Vec<_> = arrivals.iter().map(|a| a.lateness().as_secs_f64() * 1e3).collect();
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late.get(((late.len() - 1) as f64 * part) as usize).copied();
    figures.p50_ms = at(0.5);
    figures.p99_ms = at(0.99);
}

/// The rate from the time at which all was due to the last arrival.
pub fn since_due(figures: &mut Figures, arrivals: &[Arrival]) {
    let last = arrivals.iter().map(|arrival| arrival.lateness().as_secs_f64());
    let last = last.fold(0.0, f64::max);
    figures.per_second = Some(arrivals.len() as f64 / last).filter(|rate| rate.is_finite());
}

/// The processor time of a process so far.
pub fn cpu(process: &str) -> Result<Duration> {
    Ok(ticks(&stat(process)?, 11..13))
}

/// A line of `/proc/…/status`, in megabytes.
pub fn memory(process: &str, key: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
    let kilobytes = line.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    Ok(kilobytes.context("no number")? / 1024.0)
}

/// The fields of `/proc/…/stat` after the name.
fn stat(process: &str) -> Result<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("no name")?;
    Ok(fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}

fn ticks(fields: &[u64], which: std::ops::Range<usize>) -> Duration {
    let ticks: u64 = fields[which].iter().sum();
    Duration::from_secs(ticks) / TICKS
}

/// The processor time of a process's children, ended ones included.
fn family_cpu(parent: u32) -> Result<Duration> {
    let mut total = ticks(&stat(&parent.to_string())?, 11..15);
    for entry in std::fs::read_dir("/proc")? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        // One that has just ended is counted in its parent.
        if let Ok(fields) = stat(&name)
            && fields.get(1) == Some(&u64::from(parent))
        {
            total += ticks(&fields, 11..13);
        }
    }
    Ok(total)
}

/// The database server's first process, if it is one and runs on this machine.
async fn postmaster(store: &Store) -> Result<Option<u32>> {
    if store.engine() == Engine::Sqlite {
        return Ok(None);
    }
    let backend = number(store, "SELECT pg_backend_pid()::bigint AS n").await?;
    if !Path::new(&format!("/proc/{backend}")).exists() {
        return Ok(None);
    }
    Ok(stat(&backend.to_string())?.get(1).and_then(|parent| (*parent).try_into().ok()))
}

async fn wal(store: &Store) -> Result<i64> {
    match store.engine() {
        Engine::Sqlite => Ok(0),
        Engine::Postgres => {
            let position = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS n";
            number(store, position).await
        }
    }
}

/// Asks for one number, called `n`.
pub async fn number(store: &Store, sql: &str) -> Result<i64> {
    #[derive(FromQueryResult)]
    struct Row {
        n: i64,
    }
    let backend = match store.engine() {
        Engine::Sqlite => DbBackend::Sqlite,
        Engine::Postgres => DbBackend::Postgres,
    };
    let row = store.read().query_one_raw(Statement::from_string(backend, sql)).await?;
    Ok(Row::from_query_result(&row.context("no row")?, "")?.n)
}
