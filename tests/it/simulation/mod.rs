//! A whole server in one process, again and again: several executors, calls that race them, faults
//! and deaths at every transaction and every request, clocks that are off. Then the promises.
//!
//! # What is simulated
//! [`world`] is one life of a server: processes with executors and clocks of their own, backends,
//! calls of the API. [`scheduler`] decides who goes on, checkpoint by checkpoint, and what happens
//! there: it passes, it fails before or after, its process dies, it stands still for longer than a
//! lease. [`watch`] looks at the tables after every commit. At the end all goes well and time passes
//! until nothing is open. [`invariants`] then look at the tables, at the audit log and at what the
//! backends wrote down. What was due they know from [`calendar`], which knows nothing of the
//! server's own.
//!
//! # To see a failure again
//! A failure names its seed and the command that repeats it. The seed decides everything as long as
//! it runs alone; beside others, on a busy machine, a few lives take another course.
//!
//! `PFY_TEST_ENGINE=sqlite PFY_SIMULATION_SEED=7 cargo test --test it simulation` runs one seed,
//! `PFY_SIMULATION_SEEDS=0..5000` many. The seeds of a normal run are always the same.
//!
//! # What is not simulated
//! That an executor has several attempts under way at once (`delivery/attempts.rs`, `delivery/ahead.rs`), the
//! driver's loop and its passes that are ready before their time (`driver.rs`, `process`), and transactions that
//! wait for each other's locks on PostgreSQL (`store_contract`, `rules/races.rs`; and `tests/fire`, which has all
//! three). There is no stand-in for the store: the real ones run here, both of them, on a clock that is set by hand.

mod backend;
mod calendar;
mod calls;
mod cycle_invariants;
mod dice;
mod fan_out;
mod invariants;
mod retry_invariants;
mod rule_invariants;
mod rules;
mod scheduler;
mod seen;
mod watch;
mod world;

use std::ops::Range;

use trigger_manager::store::Engine;

use crate::harness::variable;
use world::World;

/// In how many parts the seeds are run, beside each other.
const PARTS: u64 = 4;
/// The seeds of a normal run.
const SEEDS: Range<u64> = 0..200;

/// The seeds of a part.
fn seeds(part: u64) -> Vec<u64> {
    let number = |text: &str| text.trim().parse::<u64>().expect("a seed is a whole number");
    if let Some(seed) = variable("PFY_SIMULATION_SEED") {
        return if part == 0 { vec![number(&seed)] } else { Vec::new() };
    }
    let range = variable("PFY_SIMULATION_SEEDS").map(|range| {
        let (first, end) = range.split_once("..").expect("seeds are written as 0..5000");
        number(first)..number(end)
    });
    range.unwrap_or(SEEDS).filter(|seed| seed % PARTS == part).collect()
}

/// What runs a seed again.
fn command(seed: u64, engine: Engine) -> String {
    let engine = match engine {
        Engine::Sqlite => "PFY_TEST_ENGINE=sqlite",
        Engine::Postgres => {
            "PFY_TEST_ENGINE=postgres PFY_TEST_POSTGRES_URL=$(tests/postgres start | tail -1)"
        }
    };
    format!("{engine} PFY_SIMULATION_SEED={seed} cargo test --test it simulation -- --nocapture")
}

#[test]
fn what_runs_a_seed_again_names_the_engine_and_so_does_the_readme() {
    for (engine, name) in [(Engine::Sqlite, "sqlite"), (Engine::Postgres, "postgres")] {
        assert!(command(7, engine).starts_with(&format!("PFY_TEST_ENGINE={name} ")));
    }
    let readme = include_str!("../../../README.md");
    let told = readme.lines().find(|line| line.contains("PFY_SIMULATION_SEEDS="));
    let told = told.expect("the README tells of the long form");
    let whole =
        "`PFY_TEST_ENGINE=sqlite PFY_SIMULATION_SEEDS=0..5000 cargo test --test it simulation`";
    assert!(told.contains(whole), "{told}");
}

async fn run(part: u64) {
    for seed in seeds(part) {
        let mut world = World::new(seed).await;
        world.live().await;
        if let Err(broken) = invariants::check(&world).await {
            panic!("{broken}");
        }
    }
}

#[tokio::test]
async fn triggers_keep_their_promises_1() {
    run(0).await;
}

#[tokio::test]
async fn triggers_keep_their_promises_2() {
    run(1).await;
}

#[tokio::test]
async fn triggers_keep_their_promises_3() {
    run(2).await;
}

#[tokio::test]
async fn triggers_keep_their_promises_4() {
    run(3).await;
}
