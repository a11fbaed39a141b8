//! A server for cron triggers and trigger rules. `docs/ARCHITECTURE.md` is the map.

pub mod actions;
pub mod api;
pub mod app;
#[doc(hidden)]
pub mod checkpoint;
pub mod cli;
pub mod clock;
pub mod config;
#[cfg(test)]
#[path = "../tests/corpus/mod.rs"]
mod corpus;
mod demo;
pub mod domain;
pub mod egress;
pub mod error;
pub mod executor;
pub mod line;
mod listen;
pub mod monitor;
mod outbox;
pub mod pg_source;
pub mod rules;
pub mod secrets;
pub mod serve;
pub mod sources;
pub mod store;
pub mod telemetry;
