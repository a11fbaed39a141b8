//! What an executor reads and writes, a batch a statement.
//!
//! Each function is one step of a transaction that the executor begins and commits. All of them
//! may be repeated after a crash or a lost answer: occurrences are unique per trigger and due
//! time, windows only move forward under the trigger's lock, and finishing needs the lease.

mod pass;
mod queue;
mod status;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::scheduled_action::ScheduledAction;

pub use pass::*;
pub use queue::*;
pub use status::*;

/// The right to work on what was claimed, until `until`. Whoever finishes shows the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Unique per claim.
    pub token: Uuid,
    /// From when the work may be taken over.
    pub until: DateTime<Utc>,
}

/// Work that this executor holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// What is to be done, as far as that takes: without its project, its subject, what its rule
    /// looked at, and the row that it was copied from.
    pub action: ScheduledAction,
    /// Until when it is ours.
    pub lease: Lease,
}
