//! The LINE platform: what is asked of it, what it tells us, and a stand-in for it.
//!
//! # Sending
//! [`LineClient`] makes one call a time and says what became of it. It must not decide when a
//! call is tried again, read the store, or know of rules: whoever owns the queue does.
//!
//! A message that is pushed carries a retry key from its first attempt on. The key is the id of
//! the queued action, which is a UUID already, and the body is a function of the call alone: every
//! attempt of one action is the same request, so that the platform can tell a repetition from a
//! second message. It remembers a key for 24 hours; an action must not be tried for longer.
//! Linking and unlinking a rich menu carry no key (the platform refuses one there): doing them
//! twice leaves the same state.
//!
//! # Receiving
//! [`signature`] says whether a webhook's body is the platform's; it is asked first, about the raw
//! bytes. [`webhook`] then reads the body. Both are pure.
//!
//! # Standing in
//! [`stand_in`] is a small server that answers as the platform does, for tests and the demo. What
//! it does not do stands there.

mod answer;
mod client;
mod pace;
pub mod signature;
pub mod stand_in;
#[cfg(test)]
mod tests;
pub mod webhook;

pub use answer::{LineAnswer, Outcome};
pub use client::{ChannelAccess, LineClient};
