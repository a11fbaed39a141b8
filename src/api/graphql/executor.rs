//! What the executors do.

use async_graphql::{Context, ID, Object, SimpleObject};

use super::context::{app, scope};
use super::time::DateTime;
use crate::app;
use crate::domain::executor::ExecutorInstance;
use crate::error::Result;

/// What the executors do, and what waits for them.
#[derive(SimpleObject)]
pub struct ExecutorStatus {
    /// The executors whose last pass is younger than an hour, the latest start first, at most 100.
    executors: Vec<Executor>,
    /// How many triggers are enabled, in all projects.
    active_triggers: i64,
    /// How much work for backends is pending, due or not, by application, of the applications that the
    /// caller may see: deliveries of triggers, and calls of rules and workflows.
    waiting: Vec<Waiting>,
    /// The earliest time at which something is due; none when nothing is.
    next_due_at: Option<DateTime>,
    /// The IANA time zone of schedules that name none.
    time_zone: String,
    /// The release of the IANA time zone data that schedules are read with, for example `2026a`.
    time_zone_data_version: String,
}

/// A process that evaluates schedules and works the queue.
#[derive(SimpleObject)]
pub struct Executor {
    /// The id, new at each start.
    id: ID,
    /// The machine's name.
    host: String,
    /// The process's number on that machine.
    process_id: i64,
    /// The program's version.
    version: String,
    /// When it started.
    started_at: DateTime,
    /// When it last evaluated what was due of schedules; at first when it started. A pass that failed
    /// does not count.
    last_pass_at: DateTime,
    /// How many attempts were under way when it last told of itself.
    in_flight: i32,
    /// How far its clock was ahead of the database's at that time, in milliseconds; negative is
    /// behind.
    clock_skew_ms: i32,
    /// Whether it is at work: it has not stopped, and its last pass is recent.
    alive: bool,
}

/// What waits in one application.
#[derive(SimpleObject)]
pub struct Waiting {
    /// The application's id.
    application_id: ID,
    /// How many pieces of work are pending.
    count: i64,
}

impl From<app::ExecutorStatus> for ExecutorStatus {
    fn from(status: app::ExecutorStatus) -> Self {
        let waiting = |(id, count): (crate::domain::id::ApplicationId, i64)| Waiting {
            application_id: id.to_string().into(),
            count,
        };
        Self {
            executors: status.executors.into_iter().map(Into::into).collect(),
            active_triggers: status.active_triggers,
            waiting: status.waiting.into_iter().map(waiting).collect(),
            next_due_at: status.next_due_at.map(Into::into),
            time_zone: status.time_zone,
            time_zone_data_version: status.time_zone_data_version,
        }
    }
}

impl From<(ExecutorInstance, bool)> for Executor {
    fn from((instance, alive): (ExecutorInstance, bool)) -> Self {
        Self {
            id: instance.id.to_string().into(),
            host: instance.host,
            process_id: instance.process_id,
            version: instance.version,
            started_at: instance.started_at.into(),
            last_pass_at: instance.last_pass_at.into(),
            in_flight: instance.in_flight,
            clock_skew_ms: instance.clock_skew_ms,
            alive,
        }
    }
}

/// Queries of the executors.
#[derive(Default)]
pub struct ExecutorQuery;

#[Object]
impl ExecutorQuery {
    /// What the executors do, and what waits for them. Anyone who is signed in may ask.
    async fn executor_status(&self, ctx: &Context<'_>) -> Result<ExecutorStatus> {
        let scope = scope(ctx)?;
        Ok(app(ctx).executor_status(scope).await?.into())
    }
}
