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
//! `PFY_SIMULATION_SEEDS=0..5000` many; with `postgres`, `PFY_TEST_POSTGRES_URL` is what `tests/postgres start`
//! prints. The seeds of a normal run are always the same.
//!
//! # What is not
//! An executor does one thing after the other here: what several attempts at once, the driver's loop and its
//! end come to is for the tests of the driver, of processes and of `tests/fire`, and so is waiting for
//! PostgreSQL's locks, which the races of `store_contract` and `rules` are about. There is no double of
//! the store: both stores run under a clock that is set by hand, and behind the same checkpoints.

mod backend;
mod calendar;
mod calls;
mod cycle_invariants;
mod dice;
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

use crate::harness::{engine, variable};
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

/// How to run one seed again, on this engine.
fn command(seed: u64) -> String {
    let engine = match engine() {
        Engine::Sqlite => "PFY_TEST_ENGINE=sqlite",
        Engine::Postgres => {
            "PFY_TEST_ENGINE=postgres PFY_TEST_POSTGRES_URL=\"$(tests/postgres start | tail -1)\""
        }
    };
    format!("{engine} PFY_SIMULATION_SEED={seed} cargo test --test it simulation -- --nocapture")
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

#[test]
fn a_seed_is_run_again_by_a_command_that_names_the_engine_as_the_readme_does() {
    let readme = include_str!("../../../README.md");
    let many =
        "PFY_TEST_ENGINE=sqlite PFY_SIMULATION_SEEDS=0..5000 cargo test --test it simulation";
    assert!(readme.contains(many));
    let engine = variable("PFY_TEST_ENGINE").unwrap();
    let one = "PFY_SIMULATION_SEED=7 cargo test --test it simulation -- --nocapture";
    let command = command(7);
    assert!(command.starts_with(&format!("PFY_TEST_ENGINE={engine} ")), "{command}");
    assert!(command.ends_with(one), "{command}");
}
