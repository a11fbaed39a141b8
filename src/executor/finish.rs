//! Finishing: what came of attempts is recorded, a batch a transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::Executor;
use super::attempt::Done;
use super::effect;
use super::gone::deactivate;
use crate::domain::audit::Caller;
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ApplicationId, ScheduledActionId};
use crate::domain::trigger::OccurrenceStatus;
use crate::error::Result;
use crate::store::executor::{self, Lease, Settled};
use crate::store::log::{self, NewAttempt};
use crate::store::{Tx, delivery};
use crate::telemetry::DispatchStatus;

/// What a finish recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinishReport {
    /// Pieces of work recorded.
    pub recorded: usize,
    /// Pieces of work whose lease had ended: somebody else has them, and nothing was recorded of them
    /// but the attempt.
    pub fenced: usize,
    /// Occurrences that ended.
    pub settled: usize,
}

impl Executor {
    /// Records a batch. May be repeated, with `again`, when the answer to the commit was lost: what
    /// was recorded is then fenced, and its attempt is not logged once more.
    pub(super) async fn finish(&self, done: &mut [Done], again: bool) -> Result<FinishReport> {
        let now = self.clock().now();
        let tx = self.app.store.begin().await?;
        effect::cancel_lost(&tx, done, now).await?;
        let done = &*done;
        let latest = latest(done);
        let is_latest = |done: &&Done| latest.get(&done.finished.id) == Some(&done.claimed.lease);
        let finished = done.iter().filter(is_latest).map(|done| done.finished.clone());
        let recorded = executor::finish(&*tx, &finished.collect::<Vec<_>>(), now).await?;
        let ours = || {
            let is_ours = |done: &&Done| recorded.contains(&done.finished.id);
            done.iter().filter(is_latest).filter(is_ours)
        };
        let ended = ours().filter_map(|done| {
            let delivered = match done.finished.status {
                ActionStatus::Completed => true,
                ActionStatus::Failed | ActionStatus::Cancelled => false,
                _ => return None,
            };
            Some((done.claimed.action.cause.occurrence_id?, delivered))
        });
        let known = if again { logged(&tx, done).await? } else { HashSet::new() };
        let attempts = done.iter().filter(|done| !known.contains(&attempt_key(done)));
        let attempts: Vec<_> = attempts.filter_map(row).collect();
        log::log_attempts(&*tx, &attempts).await?;
        // Late, since another finisher may wait for these occurrences.
        let settled = executor::settle(&*tx, ended, now).await?;
        let effects = ours().filter_map(|done| Some((done, done.effect.as_ref()?)));
        let mut changes = deactivate(&tx, ours(), now).await?;
        changes.extend(effect::apply(&tx, effects, now).await?);
        self.wake_overtaken(&tx, ours(), now).await?;
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
        let calls = || done.iter().filter(|done| done.claimed.action.concern.backend_id.is_some());
        let attempts = || calls().filter_map(|done| done.attempt.as_ref());
        let successes = attempts().filter(|attempt| attempt.success).count() as u64;
        metrics.dispatched(DispatchStatus::Success, successes);
        metrics.dispatched(DispatchStatus::Error, attempts().count() as u64 - successes);
        let refused = attempts().filter(|attempt| attempt.reason == Some("refused")).count();
        metrics.callbacks_refused(refused as u64);
        metrics.fenced(report.fenced as u64);
        let mut failed = BTreeMap::<ApplicationId, u64>::new();
        for done in ours {
            let (action, status) = (&done.claimed.action, done.finished.status);
            if status == ActionStatus::Failed {
                failed_for_good(done);
            }
            if action.cause.trigger_id.is_none() && status != ActionStatus::Pending {
                metrics.actions_ended(&action.action_type, status.as_str(), 1);
            }
            let Some(application) = action.concern.application_id else { continue };
            match status {
                ActionStatus::Failed | ActionStatus::Expired => {
                    *failed.entry(application).or_default() += 1;
                }
                ActionStatus::Completed | ActionStatus::Cancelled => {}
                ActionStatus::Pending | ActionStatus::Processing => continue,
            }
            let took = (done.at - action.created_at).to_std().unwrap_or_default();
            metrics.processed(application, took);
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

/// Says so to whoever watches. What the other side said stands in the trigger log alone.
fn failed_for_good(done: &Done) {
    let action = &done.claimed.action;
    let attempt = done.attempt.as_ref();
    tracing::warn!(
        id = %action.id,
        action_type = action.action_type,
        trigger = action.cause.trigger_id.map(tracing::field::display),
        rule = action.cause.trigger_rule_id.map(tracing::field::display),
        backend = action.concern.backend_id.map(tracing::field::display),
        line_oa = action.concern.line_oa_id.map(tracing::field::display),
        attempts = done.finished.retry_count,
        reason = attempt.and_then(|attempt| attempt.reason),
        response_status = attempt.and_then(|attempt| attempt.response_status),
        "work failed for good"
    );
}

/// The lease under which each piece of work was claimed last. An executor that stood still may hold some
/// twice, the older under a lease that was taken from it: no row may count for both.
fn latest(done: &[Done]) -> HashMap<ScheduledActionId, Lease> {
    let mut latest = HashMap::<_, Lease>::new();
    for Done { finished, claimed, .. } in done {
        let lease = latest.entry(finished.id).or_insert(claimed.lease);
        if claimed.lease.until > lease.until {
            *lease = claimed.lease;
        }
    }
    latest
}

/// What tells an attempt from all others: its work, its number and its end.
type AttemptKey = (ScheduledActionId, i32, DateTime<Utc>);

fn attempt_key(done: &Done) -> AttemptKey {
    let number = done.attempt.as_ref().map_or(0, |attempt| attempt.number);
    (done.claimed.action.id, number, done.at)
}

/// Those attempts of `done` that the log holds.
async fn logged(tx: &Tx, done: &[Done]) -> Result<HashSet<AttemptKey>> {
    let attempts = done
        .iter()
        .filter_map(|done| Some((done.claimed.action.id, done.attempt.as_ref()?.number)));
    delivery::logged(&**tx, &attempts.collect::<Vec<_>>()).await
}

fn row(done: &Done) -> Option<NewAttempt<'_>> {
    let attempt = done.attempt.as_ref()?;
    Some(NewAttempt {
        scheduled_action_id: done.claimed.action.id.0,
        status: if attempt.success { "success" } else { "error" },
        error_message: attempt.error.as_deref(),
        attempt: attempt.number,
        response_status: attempt.response_status,
        duration_ms: i64::try_from(attempt.duration.as_millis()).ok(),
        reason: attempt.reason,
        platform_request_id: attempt.platform_request_id.as_deref(),
        created_date: done.at,
    })
}
