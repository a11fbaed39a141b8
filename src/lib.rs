//! A server that joins cron triggers delivered to registered backends with
//! event rules and deferred actions. `docs/ARCHITECTURE.md` is the map.

pub mod api;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
mod demo;
pub mod domain;
pub mod egress;
pub mod error;
pub mod executor;
mod listen;
pub mod monitor;
pub mod secrets;
pub mod serve;
pub mod store;
pub mod telemetry;
