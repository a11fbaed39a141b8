//! Finishing: what came of attempts is recorded, a batch a transaction.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Executor;
use super::attempt::Done;
use crate::domain::access::Scope;
use crate::domain::audit::{Caller, Change};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ApplicationId, BackendId};
use crate::domain::trigger::OccurrenceStatus;
use crate::error::{Error, Result};
use crate::store::executor::{NewAttempt, Settled};
use crate::store::{Tx, application, executor};
use crate::telemetry::DispatchStatus;

/// What a finish recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinishReport {
    /// Deliveries recorded.
    pub recorded: usize,
    /// Deliveries whose lease had ended: somebody else has them, and nothing was recorded of them
    /// but the attempt.
    pub fenced: usize,
    /// Occurrences that ended.
    pub settled: usize,
}

impl Executor {
    /// Records a batch. May be repeated when the answer to the commit was lost: what was recorded
    /// is then fenced.
    pub(super) async fn finish(&self, done: &[Done]) -> Result<FinishReport> {
        let now = self.clock().now();
        let finished: Vec<_> = done.iter().map(|done| done.finished.clone()).collect();
        let tx = self.app.store.begin().await?;
        let recorded = executor::finish(&*tx, &finished, now).await?;
        let ours = || done.iter().filter(|done| recorded.contains(&done.finished.id));
        let ended = ours().filter_map(|done| {
            let delivered = match done.finished.status {
                ActionStatus::Completed => true,
                ActionStatus::Failed | ActionStatus::Cancelled => false,
                _ => return None,
            };
            Some((done.claimed.delivery.occurrence_id, delivered))
        });
        let settled = executor::settle(&*tx, ended, now).await?;
        let attempts: Vec<_> = done.iter().filter_map(log).collect();
        executor::log_attempts(&*tx, &attempts).await?;
        let gone = ours()
            .filter(|done| done.attempt.as_ref().is_some_and(|attempt| attempt.gone))
            .map(|done| done.claimed.delivery.backend_id);
        let changes = deactivate(&tx, gone, now).await?;
        match changes.is_empty() {
            true => tx.commit_unaudited().await?,
            false => tx.commit(&Caller::system(), now, &changes).await?,
        }
        let report = FinishReport {
            recorded: recorded.len(),
            fenced: done.len() - recorded.len(),
            settled: settled.len(),
        };
        self.count(done, ours(), &settled, report);
        Ok(report)
    }

    fn count<'a>(
        &self,
        done: &[Done],
        ours: impl Iterator<Item = &'a Done>,
        settled: &[Settled],
        report: FinishReport,
    ) {
        let metrics = &self.app.metrics;
        let attempts = || done.iter().filter_map(|done| done.attempt.as_ref());
        let successes = attempts().filter(|attempt| attempt.success).count() as u64;
        metrics.dispatched(DispatchStatus::Success, successes);
        metrics.dispatched(DispatchStatus::Error, attempts().count() as u64 - successes);
        let refused = attempts().filter(|attempt| attempt.reason == Some("refused")).count();
        metrics.callbacks_refused(refused as u64);
        metrics.fenced(report.fenced as u64);
        let mut failed = BTreeMap::<ApplicationId, u64>::new();
        for done in ours {
            let delivery = &done.claimed.delivery;
            match done.finished.status {
                ActionStatus::Completed | ActionStatus::Cancelled => {}
                ActionStatus::Failed => *failed.entry(delivery.application_id).or_default() += 1,
                _ => continue,
            }
            let took = (done.at - delivery.created_at).to_std().unwrap_or_default();
            metrics.processed(delivery.application_id, took);
        }
        for (application, count) in failed {
            metrics.delivery_failed(application, count);
        }
        let unhappy = settled.iter().filter(|end| end.status == OccurrenceStatus::Failed);
        for end in unhappy {
            tracing::warn!(occurrence = %end.id, application = %end.application_id, "an occurrence failed: no backend took it before its budget ended");
        }
        self.app.live.hint();
    }
}

fn log(done: &Done) -> Option<NewAttempt<'_>> {
    let attempt = done.attempt.as_ref()?;
    Some(NewAttempt {
        scheduled_action_id: done.claimed.delivery.id.0,
        status: if attempt.success { "success" } else { "error" },
        error_message: attempt.error.as_deref(),
        attempt: attempt.number,
        response_status: attempt.response_status,
        duration_ms: i64::try_from(attempt.duration.as_millis()).ok(),
        reason: attempt.reason,
        created_date: done.at,
    })
}

/// Deactivates backends that answered 410, until they register again.
async fn deactivate(
    tx: &Tx,
    gone: impl Iterator<Item = BackendId>,
    now: DateTime<Utc>,
) -> Result<Vec<Change>> {
    let mut ids: Vec<_> = gone.collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut changes = Vec::new();
    for (before, secrets) in application::backends_by_ids(&**tx, Scope::Everything, &ids).await? {
        if before.deactivated_at.is_some() {
            continue;
        }
        let mut after = before.clone();
        after.deactivated_at = Some(now);
        after.deactivated_reason = Some("it answered 410 Gone".to_owned());
        after.updated_at = now;
        application::upsert_backend(&**tx, &after, &secrets).await?;
        let owner = application::find(&**tx, Scope::Everything, before.application_id).await?;
        changes.push(Change {
            action: "backend.deactivate",
            entity_type: "backend",
            entity_id: before.id.0,
            project_id: Some(owner.project_id),
            application_id: Some(owner.id),
            before: Some(serde_json::to_value(&before).map_err(Error::internal)?),
            after: Some(serde_json::to_value(&after).map_err(Error::internal)?),
        });
    }
    Ok(changes)
}
