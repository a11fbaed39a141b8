//! A server that joins cron triggers delivered to registered backends with
//! event rules and deferred actions. `docs/ARCHITECTURE.md` is the map.

pub mod api;
pub mod clock;
pub mod error;
