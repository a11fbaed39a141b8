//! Reaping: what an executor held and did not finish in time is due again.

use chrono::{DateTime, Utc};

use super::{BATCH, Executor};
use crate::error::Result;
use crate::store::executor::{self, NewAttempt};

impl Executor {
    /// Makes deliveries whose lease has ended due again, each as one attempt of unknown outcome.
    /// Answers how many.
    pub async fn reap(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let reaped = executor::reap(&*tx, now, BATCH).await?;
        if reaped.is_empty() {
            return Ok(0);
        }
        let attempts = reaped.iter().map(|delivery| NewAttempt {
            scheduled_action_id: delivery.id.0,
            status: "error",
            error_message: Some("its executor went away; whether the backend got it is not known"),
            attempt: delivery.retry_count,
            response_status: None,
            duration_ms: None,
            reason: Some("lease_expired"),
            created_date: now,
        });
        executor::log_attempts(&*tx, &attempts.collect::<Vec<_>>()).await?;
        tx.commit_unaudited().await?;
        self.app.metrics.leases_expired(reaped.len() as u64);
        tracing::warn!(
            count = reaped.len(),
            "took back deliveries that an executor did not finish"
        );
        Ok(reaped.len())
    }
}
