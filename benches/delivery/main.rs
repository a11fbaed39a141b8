//! What delivering costs, end to end, out of the box: the production driver on a real clock with
//! default settings, against a receiver in a process of its own.
//!
//! `cargo bench --bench delivery -- [drain herd steady sparse idle api events]… [--engine sqlite|postgres|both]
//! [--rounds N] [--json FILE]`; without a scenario all run. PostgreSQL is the one that
//! `PFY_BENCH_POSTGRES_URL` names, or a throw-away one with fsync on. Of several rounds the
//! median of each figure is shown.
//!
//! Rates and times depend on the machine and on what else it does: compare only within one run.
//! So each is shown as a ratio as well: `drain`, `herd` and `steady` to a bare loop (see [`bare`]),
//! `events` to one of its own ([`bare_events`]), the list to the same from memory, the mutation to a
//! transaction with nothing but its two rows, the others to few triggers or rules. Commits, statements and bytes of WAL hold everywhere; WAL is counted without full page
//! images, since no checkpoint falls into a run. Nothing here fails because something is slow.

#![expect(clippy::disallowed_methods, reason = "measures real time")]

mod api;
mod bare;
mod bare_events;
mod measure;
mod place;
mod receiver;
mod report;
mod rules;
mod scenarios;
mod seed;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use trigger_manager::store::Engine;

use report::{Line, Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// What to measure; nothing: everything.
    scenarios: Vec<Scenario>,
    /// On which database.
    #[arg(long, value_enum, default_value = "both")]
    engine: Engines,
    /// How often; the median counts.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Where to write the figures as JSON as well.
    #[arg(long)]
    json: Option<PathBuf>,
    /// A PostgreSQL to use; its role must be allowed to make schemas.
    #[arg(long, env = "PFY_BENCH_POSTGRES_URL", hide_env_values = true)]
    postgres: Option<String>,
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// 10,000 waiting deliveries.
    Drain,
    /// 10,000 triggers due in the same second.
    Herd,
    /// 100 triggers each second, and a single one.
    Steady,
    /// 10 due among 1,000 and among 1,000,000 triggers.
    Sparse,
    /// Nothing due among 1,000,000 triggers.
    Idle,
    /// A list of 50 rows and a mutation, over the API.
    Api,
    /// Events that meet one or 3 of 1,000 and of 10,000 rules, the matcher alone, and a cycle.
    Events,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engines {
    Sqlite,
    Postgres,
    Both,
}

fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .init();
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some(receiver::ROLE) => return receiver::serve(),
        Some(scenarios::IDLER) => return scenarios::idle_here(words.collect()),
        _ => {}
    }
    let mut arguments = Arguments::parse();
    if arguments.scenarios.is_empty() {
        arguments.scenarios = Scenario::value_variants().to_vec();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let started = match (&arguments.postgres, arguments.engine) {
        (None, Engines::Postgres | Engines::Both) => Some(start_postgres(&mut arguments)?),
        _ => None,
    };
    let report = runtime.block_on(run(&arguments));
    if started == Some(Started::Now) {
        postgres("stop")?;
    }
    let report = report?;
    print!("{report}");
    if let Some(file) = arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Started {
    Now,
    Before,
}

fn start_postgres(arguments: &mut Arguments) -> Result<Started> {
    let running = postgres("url");
    let started = if running.is_ok() { Started::Before } else { Started::Now };
    arguments.postgres = Some(running.or_else(|_| postgres("start"))?);
    Ok(started)
}

fn postgres(action: &str) -> Result<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres");
    let output = Command::new(script)
        .arg(action)
        .env("PFY_POSTGRES_DURABLE", "1")
        .output()
        .context("tests/postgres")?;
    if !output.status.success() {
        bail!("tests/postgres {action}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

async fn run(arguments: &Arguments) -> Result<Report> {
    let mut report = Report::default();
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let wanted = match engine {
            Engine::Sqlite => arguments.engine != Engines::Postgres,
            Engine::Postgres => arguments.engine != Engines::Sqlite,
        };
        if !wanted {
            continue;
        }
        let source = place::Source { engine, postgres: arguments.postgres.clone() };
        for scenario in &arguments.scenarios {
            let mut rounds = Vec::new();
            for _ in 0..arguments.rounds.max(1) {
                rounds.push(measure(&source, *scenario).await?);
            }
            report.add(engine, rounds);
        }
    }
    Ok(report)
}

async fn measure(source: &place::Source, scenario: Scenario) -> Result<Vec<Line>> {
    match scenario {
        Scenario::Drain => scenarios::drain(source).await,
        Scenario::Herd => scenarios::herd(source).await,
        Scenario::Steady => scenarios::steady(source).await,
        Scenario::Sparse => scenarios::sparse(source).await,
        Scenario::Idle => scenarios::idle(source).await,
        Scenario::Api => api::api(source).await,
        Scenario::Events => rules::events(source).await,
    }
}
