//! The integration tests: one binary, run once on SQLite and once on PostgreSQL by `tests/run`.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod api;
mod app;
mod authoring;
mod client;
#[path = "../corpus/mod.rs"]
mod corpus;
mod coverage;
mod delivery;
mod driver;
mod harness;
mod intake;
mod introspect;
mod isolation;
mod laws;
mod line;
mod pg_source;
mod process;
mod receiver;
mod retention;
mod rule_history;
mod rules;
mod served;
mod simulation;
mod store_contract;
mod taken_back;
