//! The vocabulary and the rules of the product: plain values and pure functions.
//!
//! Nothing here waits, stores, sends or asks for the time: whoever needs `now`
//! is given it. Only fresh ids hold the time of their making, for their order. This module must not know SQL, HTTP, GraphQL or the async runtime.

pub mod access;
pub mod application;
pub mod attributes;
pub mod audience;
pub mod audit;
pub mod cron;
pub mod cycle;
pub mod delivery;
pub mod event;
pub mod executor;
pub mod fan_out;
pub mod id;
pub mod input;
pub mod keys;
pub mod line;
pub mod page;
pub mod people;
pub mod rule;
pub mod scheduled_action;
pub mod trigger;
pub mod trigger_log;
pub mod window;
pub mod workflow;
