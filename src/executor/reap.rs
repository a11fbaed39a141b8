//! Reaping: what an executor held and did not finish in time is due again.

use chrono::{DateTime, Utc};

use super::{BATCH, Executor};
use crate::domain::delivery::CALL_BACKEND;
use crate::error::{Error, Result};
use crate::store::executor::{self, NewLog};

impl Executor {
    /// Makes deliveries whose lease has ended due again, each as one attempt of unknown outcome.
    /// Answers how many.
    pub async fn reap(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let reaped = executor::reap(&*tx, now, BATCH).await?;
        if reaped.is_empty() {
            return Ok(0);
        }
        let logs = reaped.iter().map(|delivery| {
            Ok(NewLog {
                trigger_on: "trigger",
                action_type: Some(CALL_BACKEND),
                action_config: Some(
                    serde_json::to_value(&delivery.payload).map_err(Error::internal)?,
                ),
                status: "error",
                error_message: Some(
                    "its executor went away; whether the backend got it is not known",
                ),
                trigger_id: delivery.trigger_id.0,
                trigger_occurrence_id: delivery.occurrence_id.0,
                backend_id: Some(delivery.backend_id.0),
                scheduled_action_id: Some(delivery.id.0),
                application_id: delivery.application_id.0,
                attempt: Some(delivery.retry_count),
                response_status: None,
                duration_ms: None,
                reason: Some("lease_expired"),
                created_date: now,
            })
        });
        let logs = logs.collect::<Result<Vec<_>>>()?;
        executor::insert_logs(&*tx, &logs).await?;
        tx.commit_unaudited().await?;
        self.app.metrics.leases_expired(reaped.len() as u64);
        tracing::warn!(
            count = reaped.len(),
            "took back deliveries that an executor did not finish"
        );
        Ok(reaped.len())
    }
}
