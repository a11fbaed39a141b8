//! What is known of a running executor.

use chrono::{DateTime, Utc};

use super::id::ExecutorId;

/// A process that evaluates schedules and works the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorInstance {
    /// The id, new at each start.
    pub id: ExecutorId,
    /// The machine's name.
    pub host: String,
    /// The process's number there.
    pub process_id: i64,
    /// The program's version.
    pub version: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it last evaluated what was due of schedules; at first when it started. A pass that failed
    /// does not count.
    pub last_pass_at: DateTime<Utc>,
    /// How many attempts were under way when it told this.
    pub in_flight: i32,
    /// How far its clock was ahead of the database's, in milliseconds.
    pub clock_skew_ms: i32,
    /// When it ended in good order.
    pub stopped_at: Option<DateTime<Utc>>,
}
