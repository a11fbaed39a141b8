//! Deliveries that ended without success and are to be tried again: one of them, or many at once.
//! Maintainers and owners ask for it.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::App;
use super::change::change;
use super::take_back::refuse_while_taken_back;
use crate::domain::access::Scope;
use crate::domain::application::Application;
use crate::domain::audit::{Caller, Change};
use crate::domain::delivery::{ActionStatus, Delivery};
use crate::domain::id::{ApplicationId, ScheduledActionId};
use crate::error::{Error, Result};
use crate::store::withdrawal::Kind;
use crate::store::{Hold, Tx, application, delivery, trigger, withdrawal};

pub use crate::store::delivery::Retryable;

/// The most deliveries that one call makes due again, and how many it does unless told otherwise.
pub const RETRY_MAX: u32 = 1000;

/// What became of a retry of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retried {
    /// The application.
    pub application_id: ApplicationId,
    /// How many deliveries were made due again.
    pub retried: u64,
    /// Whether there are more of them: the same call takes the next.
    pub more: bool,
}

impl App {
    /// Makes a delivery that ended as failed or cancelled due again, with a fresh budget. Refused
    /// with `CONFLICT`: any other state, a trigger or backend that was deleted since, and a trigger of
    /// which what waited when it was disabled is still being cancelled.
    pub async fn retry_delivery(&self, caller: &Caller, id: ScheduledActionId) -> Result<Delivery> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = delivery::find(&*tx, caller.actor.scope(), id).await?;
        let application =
            self.writable_application(&*tx, &caller.actor, before.application_id).await?;
        let all = Scope::Everything;
        let trigger = trigger::find_held(&tx, all, before.trigger_id, Hold::Change).await;
        gone(trigger, ("trigger", "delivery"))?;
        refuse_while_taken_back(&tx, before.trigger_id.0, ("id", Kind::Trigger)).await?;
        let backend = application::backend(&*tx, all, before.backend_id).await;
        gone(backend, ("backend", "delivery"))?;
        if self.requeue(&tx, &[id], now).await? == 0 {
            return Err(Error::conflict("id", not_ended(&before)));
        }
        let after = delivery::find(&*tx, all, id).await?;
        let (was, is) = (summary(&before), summary(&after));
        let change = change("delivery.retry", ("delivery", id), Some(&was), Some(&is))?;
        tx.commit(caller, now, &[of(&application, change)]).await?;
        self.queued(application.id, 1);
        Ok(after)
    }

    /// Makes up to `limit` deliveries that ended as failed or cancelled due again, those that were
    /// due first, with a fresh budget. Those whose trigger or backend was deleted since are left
    /// out, and those of a trigger of which what waited is still being cancelled. May be repeated until
    /// there are no more.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on `statuses` for another state, and on `limit` unless it
    /// is from 1 to [`RETRY_MAX`].
    pub async fn retry_deliveries(
        &self,
        caller: &Caller,
        wanted: &Retryable,
        limit: Option<i32>,
    ) -> Result<Retried> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let application =
            self.writable_application(&*tx, &caller.actor, wanted.application_id).await?;
        let limit = checked(wanted, limit)?;
        delivery::hold_retries(&tx, application.id).await?;
        let mut found = delivery::retryable(&*tx, wanted, limit + 1).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let triggers: BTreeSet<_> = found.iter().map(|(_, trigger)| *trigger).collect();
        let there = trigger::hold_all(&tx, &triggers).await?;
        let withdrawn =
            withdrawal::going_on(&*tx, &there.iter().map(|id| id.0).collect::<Vec<_>>()).await?;
        found.retain(|(_, trigger)| there.contains(trigger) && !withdrawn.contains(&trigger.0));
        let ids: Vec<_> = found.into_iter().map(|(id, _)| id).collect();
        let retried = self.requeue(&tx, &ids, now).await?;
        let told = json!({ "filter": wanted, "limit": limit, "retried": retried, "more": more });
        let entity = ("application", application.id);
        let change = change("application.retry_deliveries", entity, None, Some(&told))?;
        tx.commit(caller, now, &[of(&application, change)]).await?;
        self.queued(application.id, retried);
        Ok(Retried { application_id: application.id, retried, more })
    }

    async fn requeue(
        &self,
        tx: &Tx,
        deliveries: &[ScheduledActionId],
        now: DateTime<Utc>,
    ) -> Result<u64> {
        delivery::requeue(&**tx, deliveries, now, now + self.retry_policy().max_age).await
    }

    fn queued(&self, application: ApplicationId, count: u64) {
        self.metrics.queued(application, count);
        self.wake.hint();
    }
}

/// How many deliveries are asked for, if what is asked for can be.
fn checked(wanted: &Retryable, limit: Option<i32>) -> Result<u32> {
    let ended =
        |status: &ActionStatus| matches!(status, ActionStatus::Failed | ActionStatus::Cancelled);
    if !wanted.statuses.iter().all(ended) {
        let reason = "statuses must hold nothing but FAILED and CANCELLED: only what ended without \
                      success can be retried";
        return Err(Error::invalid("statuses", reason));
    }
    let limit = limit.map_or(Some(RETRY_MAX), |limit| u32::try_from(limit).ok());
    limit
        .filter(|limit| (1..=RETRY_MAX).contains(limit))
        .ok_or_else(|| Error::invalid("limit", format!("limit must be from 1 to {RETRY_MAX}")))
}

/// Turns "not found" into a conflict: the delivery or other work is there, what it needs is not.
pub(super) fn gone<T>(found: Result<T>, (what, of): (&str, &str)) -> Result<()> {
    match found {
        Ok(_) => Ok(()),
        Err(Error::NotFound { .. }) => Err(Error::conflict(
            "id",
            format!("the {what} of this {of} was deleted, so it can't be retried"),
        )),
        Err(error) => Err(error),
    }
}

fn not_ended(delivery: &Delivery) -> String {
    let status = delivery.status.as_str();
    format!("only a failed or cancelled delivery can be retried, this one is {status}")
}

fn of(application: &Application, change: Change) -> Change {
    let (project_id, application_id) = (Some(application.project_id), Some(application.id));
    Change { project_id, application_id, ..change }
}

fn summary(delivery: &Delivery) -> serde_json::Value {
    json!({
        "status": delivery.status.as_str(),
        "triggerId": delivery.trigger_id,
        "occurrenceId": delivery.occurrence_id,
        "backendId": delivery.backend_id,
        "attempts": delivery.retry_count,
        "executeAt": delivery.execute_at,
        "lastError": delivery.last_error,
    })
}
