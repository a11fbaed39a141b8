//! The integration tests: one binary, run once on SQLite and once on PostgreSQL by `tests/run`.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod api;
mod app;
mod client;
mod coverage;
mod delivery;
mod driver;
mod harness;
mod introspect;
mod isolation;
mod laws;
mod process;
mod receiver;
mod served;
mod store_contract;
