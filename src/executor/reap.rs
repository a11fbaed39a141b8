//! Reaping: what an executor held and did not finish in time is due again.

use chrono::{DateTime, Utc};

use super::{BATCH, Executor};
use crate::error::Result;
use crate::store::executor;
use crate::store::log::{self, NewAttempt};

impl Executor {
    /// Makes work whose lease has ended due again, each piece as one attempt of unknown outcome.
    /// Answers how many.
    pub async fn reap(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let reaped = executor::reap(&*tx, now, BATCH).await?;
        if reaped.is_empty() {
            return Ok(0);
        }
        let attempts = reaped.iter().map(|action| NewAttempt {
            scheduled_action_id: action.id.0,
            status: "error",
            error_message: Some("its executor went away; whether it was done is not known"),
            attempt: action.retry_count,
            response_status: None,
            duration_ms: None,
            reason: Some("lease_expired"),
            platform_request_id: None,
            created_date: now,
        });
        log::log_attempts(&*tx, &attempts.collect::<Vec<_>>()).await?;
        tx.commit_unaudited().await?;
        self.app.metrics.leases_expired(reaped.len() as u64);
        tracing::warn!(count = reaped.len(), "took back work that an executor did not finish");
        Ok(reaped.len())
    }
}
