//! What things are and what may happen to them: pure types and rules.
//!
//! Nothing here waits, stores, sends or knows an API.

pub mod access;
pub mod application;
pub mod audit;
pub mod delivery;
pub mod executor;
pub mod id;
pub mod input;
pub mod page;
pub mod people;
pub mod trigger;
