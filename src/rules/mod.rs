//! Evaluation: which rules an event meets, and what comes of it.
//!
//! A rule is compiled once ([`CompiledRule`]) and found by what its source waits for
//! ([`RuleIndex`]); an event is looked at once ([`Occasion`]) and then with each candidate
//! ([`evaluate`]). A dry run takes the same way and asks all gates ([`examine`]). Rate control is
//! not decided here, as it needs what was accepted before:
//! [`domain::rule::rate`](crate::domain::rule::rate) is its pure part.
//! Nothing here stores, sends or asks for the time.

mod compiled;
mod evaluate;
mod index;

#[cfg(test)]
mod tests;

pub use self::compiled::{CompiledRule, Parts};
pub use self::evaluate::{Evaluated, Firing, Gate, GateName, Occasion, Outcome, evaluate, examine};
pub use self::index::RuleIndex;
