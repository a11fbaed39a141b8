//! The figures, as a table and as JSON.

use std::fmt;

use serde::Serialize;
use trigger_manager::store::Engine;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident = $title:literal, $digits:literal;)+) => {
        /// What was measured; what was not is none.
        #[derive(Debug, Clone, Default, Serialize)]
        pub struct Figures {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<f64>,)+
        }

        impl Figures {
            fn median(of: &[Self]) -> Self {
                Self { $($name: median(of.iter().filter_map(|figures| figures.$name).collect()),)+ }
            }

            fn cells(&self) -> Vec<String> {
                vec![$(self.$name.map_or("-".to_owned(), |n| format!("{n:.*}", $digits)),)+]
            }
        }

        const TITLES: &[&str] = &[$($title),+];
    };
}

figures! {
    received = "received", 0;
    unique = "unique", 0;
    per_second = "per s", 0;
    /// The rate as a part of the bare loop's.
    rate_to_bare = "x bare", 2;
    /// Processor time of worker and database, each delivery.
    cpu_us = "CPU us", 1;
    cpu_to_bare = "x bare", 2;
    commits = "commits", 4;
    statements = "stmts", 4;
    wal_bytes = "WAL B", 0;
    p50_ms = "p50 ms", 2;
    p99_ms = "p99 ms", 2;
    /// The 99th percentile as a multiple of the bare loop's.
    p99_to_bare = "x bare", 2;
    /// One pass and the look at what is due next.
    pass_ms = "pass ms", 3;
    /// Against the smallest number of triggers.
    pass_to_small = "x small", 2;
    cpu_ms_per_second = "CPU ms/s", 2;
    peak_mb = "peak MB", 1;
}

impl Figures {
    /// These, with what they are to the bare loop's.
    pub fn beside(mut self, bare: &Self) -> Self {
        let ratio = |own: Option<f64>, bare: Option<f64>| Some(own? / bare?);
        self.rate_to_bare = ratio(self.per_second, bare.per_second);
        self.cpu_to_bare = ratio(self.cpu_us, bare.cpu_us);
        self.p99_to_bare = ratio(self.p99_ms, bare.p99_ms);
        self
    }
}

/// One line: what was done, and its figures.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    pub what: String,
    #[serde(flatten)]
    pub figures: Figures,
}

impl Line {
    pub fn new(what: impl Into<String>, figures: Figures) -> Self {
        Self { what: what.into(), figures }
    }
}

/// All lines of a run.
#[derive(Debug, Default, Serialize)]
pub struct Report(Vec<Entry>);

#[derive(Debug, Serialize)]
struct Entry {
    engine: &'static str,
    #[serde(flatten)]
    line: Line,
}

impl Report {
    /// Adds the rounds of one scenario; each has the same lines.
    pub fn add(&mut self, engine: Engine, rounds: Vec<Vec<Line>>) {
        let engine = match engine {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        };
        for index in 0..rounds[0].len() {
            let figures: Vec<_> = rounds.iter().map(|lines| lines[index].figures.clone()).collect();
            let line = Line::new(rounds[0][index].what.clone(), Figures::median(&figures));
            self.0.push(Entry { engine, line });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |engine: &str, what: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
            writeln!(f, "{engine:<9}{what:<23}{cells}")
        };
        row("engine", "what", TITLES.iter().map(|title| (*title).to_owned()).collect())?;
        for Entry { engine, line } in &self.0 {
            row(engine, &line.what, line.figures.cells())?;
        }
        Ok(())
    }
}

fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}
