//! The integration tests: one binary, run once on SQLite and once on PostgreSQL by `tests/run`.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod app;
mod delivery;
mod harness;
mod laws;
mod receiver;
mod store_contract;
