//! A pass: due triggers become occurrences and deliveries, in one transaction with the windows.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Duration, Utc};
use serde_json::json;

use super::lanes::Work;
use super::{BATCH, Executor};
use crate::domain::cron::Schedule;
use crate::domain::delivery::{ActionStatus, Delivery};
use crate::domain::fan_out::fan_out;
use crate::domain::id::{ApplicationId, OccurrenceId};
use crate::domain::trigger::{Occurrence, OccurrenceStatus, Origin, Payload, Trigger};
use crate::domain::window::{self, Evaluation, Skipped};
use crate::error::Result;
use crate::store::Tx;
use crate::store::executor::{self, Claimed, Lease, Window};
use crate::store::log::{self, NewLog};

/// A transaction takes no further trigger once it has made so many deliveries or occurrences.
pub(super) const ROWS_PER_TRANSACTION: usize = 5_000;
/// Nor once it has looked at so many due times, most of which may be skipped together.
const DUE_TIMES_PER_TRANSACTION: usize = window::COUNTED_MAX;

/// How long it is not said again that an application has no active backend.
const SILENCE: Duration = Duration::minutes(5);

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassReport {
    /// Triggers evaluated. Less than was due when another executor had them, or when the batch
    /// was full: then the next pass takes the rest.
    pub triggers: usize,
    /// Occurrences made, those recorded as skipped included.
    pub occurrences: usize,
    /// Deliveries made.
    pub deliveries: usize,
}

/// What a pass is about to write.
#[derive(Default)]
struct Plan {
    occurrences: Vec<Occurrence>,
    deliveries: Vec<Delivery>,
    windows: Vec<Window>,
    due_times: usize,
}

impl Plan {
    fn is_full(&self) -> bool {
        self.deliveries.len().max(self.occurrences.len()) >= ROWS_PER_TRANSACTION
            || self.due_times >= DUE_TIMES_PER_TRANSACTION
    }

    fn skipped(&self) -> impl Iterator<Item = &Occurrence> {
        self.occurrences.iter().filter(|new| new.status == OccurrenceStatus::Skipped)
    }
}

/// A pass that is written and not yet committed. It holds its triggers; dropped, or after a crash, it has
/// not happened, and they are due as before.
#[must_use]
pub struct Prepared {
    tx: Tx,
    report: PassReport,
    plan: Plan,
    written: HashSet<OccurrenceId>,
    deliveries: Vec<(Delivery, Option<Lease>)>,
    /// What this executor holds from then on.
    work: Vec<Work>,
}

impl Executor {
    /// Evaluates triggers that are due at `now`, one batch of them. Up to `room` of the deliveries
    /// are held by this executor from birth. Repeating a pass makes nothing twice.
    pub async fn pass(&self, now: DateTime<Utc>, room: usize) -> Result<PassReport> {
        match self.prepare(now, room).await? {
            Some(prepared) => self.complete(prepared).await,
            None => Ok(PassReport::default()),
        }
    }

    /// All of a pass at `now` but its commit, so that it can be had ready when `now` comes. None:
    /// nothing will be due, or others have it.
    pub async fn prepare(&self, now: DateTime<Utc>, room: usize) -> Result<Option<Prepared>> {
        let tx = self.app.store.begin().await?;
        let due = executor::due_triggers(&*tx, now, BATCH).await?;
        if due.is_empty() {
            return Ok(None);
        }
        let backends = self.active(&tx, due.iter().map(|t| t.application_id), now).await?;
        let mut plan = Plan::default();
        for trigger in &due {
            let active = backends.get(&trigger.application_id).map_or(&[][..], Vec::as_slice);
            self.plan(&mut plan, trigger, active, now);
            if plan.is_full() {
                break;
            }
        }
        let written = executor::insert_occurrences(&*tx, &plan.occurrences).await?;
        plan.deliveries.retain(|delivery| written.contains(&delivery.occurrence_id));
        let deliveries = std::mem::take(&mut plan.deliveries);
        let (lease, deliveries) = self.lease_some(deliveries, room, now);
        executor::insert_deliveries(&*tx, &deliveries).await?;
        executor::move_windows(&*tx, &plan.windows).await?;
        let logs: Vec<_> = plan.skipped().map(|skipped| row(skipped, now)).collect();
        log::insert_logs(&*tx, &logs).await?;
        let held = deliveries.iter().filter(|(_, leased)| leased.is_some());
        let held = held.map(|(delivery, _)| Claimed { action: delivery.clone().into(), lease });
        let work = self.aim(held.collect(), now).await;
        let report = PassReport {
            triggers: plan.windows.len(),
            occurrences: written.len(),
            deliveries: deliveries.len(),
        };
        Ok(Some(Prepared { tx, report, plan, written, deliveries, work }))
    }

    /// Commits a pass and takes in what this executor holds of it.
    pub async fn complete(&self, prepared: Prepared) -> Result<PassReport> {
        let Prepared { tx, report, plan, written, deliveries, work } = prepared;
        tx.commit_unaudited().await?;
        self.lanes.push(work);
        self.count_pass(&deliveries, plan.skipped());
        self.count_unserved(plan.occurrences.iter().filter(|new| written.contains(&new.id)));
        Ok(report)
    }

    fn plan(
        &self,
        plan: &mut Plan,
        trigger: &Trigger,
        active: &[crate::domain::id::BackendId],
        now: DateTime<Utc>,
    ) {
        let schedule = Schedule::parse(&trigger.cron_expression);
        let zone = self.app.zone_of(trigger.time_zone.as_deref());
        let (Ok(schedule), Ok(zone)) = (schedule, zone) else {
            tracing::error!(trigger = %trigger.id, expression = %trigger.cron_expression, "the stored schedule can't be read; the trigger does not fire until it is saved anew");
            let (trigger_id, evaluated_at) = (trigger.id, trigger.evaluated_at);
            plan.windows.push(Window { trigger_id, evaluated_at, next_fire_at: None });
            return;
        };
        let limits = self.app.window_limits();
        let evaluation = window::evaluate(trigger, (&schedule, &zone), now, &limits);
        plan.due_times += evaluation.due_times();
        let Evaluation { fire, skipped, evaluated_at, next_fire_at } = evaluation;
        for at in fire {
            let mut occurrence = new(trigger, at, now);
            let policy = (&self.policy(), self.jitter());
            plan.deliveries.extend(fan_out(&mut occurrence, active, now, policy));
            plan.occurrences.push(occurrence);
        }
        plan.occurrences.extend(skipped.iter().map(|run| not_fired(trigger, run, now)));
        plan.windows.push(Window { trigger_id: trigger.id, evaluated_at, next_fire_at });
    }

    /// Puts up to `room` deliveries under a lease of this executor, of each backend no more than
    /// its lane has room for.
    fn lease_some(
        &self,
        deliveries: Vec<Delivery>,
        room: usize,
        now: DateTime<Utc>,
    ) -> (Lease, Vec<(Delivery, Option<Lease>)>) {
        let lease = self.lease(now);
        let (mut left, mut room_of) = (room, HashMap::new());
        let leased = deliveries.into_iter().map(|mut delivery| {
            let backend = delivery.backend_id;
            let own = room_of.entry(backend).or_insert_with(|| self.lanes.room_of(backend.0));
            if left == 0 || *own == 0 {
                return (delivery, None);
            }
            (left, *own) = (left - 1, *own - 1);
            delivery.status = ActionStatus::Processing;
            (delivery, Some(lease))
        });
        (lease, leased.collect())
    }

    fn count_pass<'a>(
        &self,
        deliveries: &[(Delivery, Option<Lease>)],
        skipped: impl Iterator<Item = &'a Occurrence>,
    ) {
        let metrics = &self.app.metrics;
        let mut queued = std::collections::BTreeMap::<_, u64>::new();
        for (delivery, _) in deliveries {
            *queued.entry(delivery.application_id).or_default() += 1;
        }
        for (application, count) in queued {
            metrics.queued(application, count);
        }
        for run in skipped {
            let reason = skip_reason(run);
            metrics.occurrences_skipped(reason, u64::try_from(run.occurrences).unwrap_or(0));
            tracing::warn!(trigger = %run.trigger_id, reason, count = run.occurrences, "occurrences were recorded and not delivered");
        }
    }

    /// What is due and has nobody to go to is worth an alert: it fails only when its budget ends.
    fn count_unserved<'a>(&self, written: impl Iterator<Item = &'a Occurrence>) {
        let mut unserved = std::collections::BTreeMap::<_, u64>::new();
        for new in written.filter(|new| new.next_attempt_at.is_some()) {
            *unserved.entry(new.application_id).or_default() += 1;
        }
        for (application, count) in unserved {
            self.app.metrics.without_backend(application, count);
            if self.unserved.is_news(application, self.app.now()) {
                tracing::warn!(%application, "what is due waits: the application has no active backend");
            }
        }
    }
}

/// Applications of which was said that they have no active backend, and when.
#[derive(Default)]
pub(super) struct Unserved(Mutex<HashMap<ApplicationId, DateTime<Utc>>>);

impl Unserved {
    /// Whether to say it of this one at `now`: not again within a while.
    fn is_news(&self, application: ApplicationId, now: DateTime<Utc>) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, at| now - *at < SILENCE);
        let known = said.len();
        said.entry(application).or_insert(now);
        said.len() > known
    }
}

fn new(trigger: &Trigger, at: DateTime<Utc>, now: DateTime<Utc>) -> Occurrence {
    Occurrence {
        id: OccurrenceId::new(),
        trigger_id: trigger.id,
        application_id: trigger.application_id,
        scheduled_at: at,
        until_at: None,
        occurrences: 1,
        origin: Origin::Schedule,
        status: OccurrenceStatus::Pending,
        reason: None,
        payload: Payload::new(trigger, at),
        deliveries: 0,
        delivered: 0,
        failed: 0,
        fan_out_attempts: 0,
        next_attempt_at: None,
        created_at: now,
        finished_at: None,
    }
}

fn not_fired(trigger: &Trigger, run: &Skipped, now: DateTime<Utc>) -> Occurrence {
    Occurrence {
        until_at: Some(run.last),
        occurrences: i32::try_from(run.count).unwrap_or(i32::MAX),
        status: OccurrenceStatus::Skipped,
        reason: Some(run.reason.as_str().to_owned()),
        finished_at: Some(now),
        ..new(trigger, run.first, now)
    }
}

/// The reason of a skipped occurrence as one of a closed list.
fn skip_reason(run: &Occurrence) -> &'static str {
    use crate::domain::trigger::SkipReason;
    [SkipReason::WindowCap, SkipReason::CatchUpWindow, SkipReason::CatchUpPolicy]
        .into_iter()
        .map(SkipReason::as_str)
        .find(|reason| run.reason.as_deref() == Some(reason))
        .unwrap_or("unknown")
}

fn row(run: &Occurrence, now: DateTime<Utc>) -> NewLog<'_> {
    NewLog {
        trigger_on: "trigger",
        action_config: Some(Cow::Owned(json!({
            "occurrences": run.occurrences,
            "from": run.scheduled_at,
            "until": run.until_at,
        }))),
        status: "skipped",
        trigger_id: Some(run.trigger_id.0),
        trigger_occurrence_id: Some(run.id.0),
        application_id: Some(run.application_id.0),
        reason: run.reason.as_deref(),
        created_date: now,
        ..NewLog::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_an_application_has_no_backend_is_said_first_and_every_five_minutes() {
        let (unserved, one, other) =
            (Unserved::default(), ApplicationId::new(), ApplicationId::new());
        let at = |seconds| DateTime::UNIX_EPOCH + Duration::seconds(seconds);
        assert!(unserved.is_news(one, at(0)));
        assert!(unserved.is_news(other, at(1)));
        assert!(!unserved.is_news(one, at(299)));
        assert!(unserved.is_news(one, at(300)));
        assert!(!unserved.is_news(other, at(300)));
    }
}
