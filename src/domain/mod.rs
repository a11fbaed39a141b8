//! The vocabulary and the rules of the product, as plain values and pure functions.
//!
//! Nothing here waits, stores, sends or asks for the time: whoever needs `now`
//! is given it. This module must not know SQL, HTTP, GraphQL or the async runtime.

pub mod cron;
