//! What happened and what waits: occurrences, deliveries, backends, the audit log, the executors.

use chrono::{DateTime, Duration, Utc};

use super::App;
use crate::domain::access::Scope;
use crate::domain::application::Backend;
use crate::domain::audit::AuditLog;
use crate::domain::cron::Zone;
use crate::domain::delivery::Delivery;
use crate::domain::executor::ExecutorInstance;
use crate::domain::id::{ApplicationId, BackendId, OccurrenceId, ScheduledActionId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::trigger::Occurrence;
use crate::error::{Error, Result};
use crate::store::application::Activity;
use crate::store::{application, audit, delivery, executor, trigger};

pub use crate::store::audit::Filter as AuditFilter;
pub use crate::store::delivery::Filter as DeliveryFilter;
pub use crate::store::trigger::OccurrenceFilter;

/// Executors whose last pass is older than this are left out.
const FORGOTTEN_AFTER: Duration = Duration::hours(1);

/// What the executors do, and what waits for them.
#[derive(Debug, Clone)]
pub struct ExecutorStatus {
    /// Those that reported within an hour, the latest start first, at most 100. With each:
    /// whether it is still at work.
    pub executors: Vec<(ExecutorInstance, bool)>,
    /// How many triggers are enabled, in all projects.
    pub active_triggers: i64,
    /// How much work for backends is pending, due or not, by application, of the applications that the
    /// caller may see: deliveries of triggers, and calls of rules and workflows.
    pub waiting: Vec<(ApplicationId, i64)>,
    /// The earliest time at which something is due.
    pub next_due_at: Option<DateTime<Utc>>,
    /// The zone of schedules that name none.
    pub time_zone: String,
    /// The release of the zone data.
    pub time_zone_data_version: String,
}

impl App {
    /// The occurrence of that id.
    pub async fn occurrence(&self, scope: Scope, id: OccurrenceId) -> Result<Occurrence> {
        trigger::occurrence(self.store.read(), scope, id).await
    }

    /// The occurrences that the scope lets see and `filter` asks for, by due time.
    pub async fn occurrences(
        &self,
        scope: Scope,
        filter: &OccurrenceFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<Occurrence>> {
        trigger::occurrences(self.store.read(), scope, filter, direction, request).await
    }

    /// The delivery of that id.
    pub async fn delivery(&self, scope: Scope, id: ScheduledActionId) -> Result<Delivery> {
        delivery::find(self.store.read(), scope, id).await
    }

    /// The deliveries that the scope lets see and `filter` asks for, by creation.
    pub async fn deliveries(
        &self,
        scope: Scope,
        filter: &DeliveryFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<Delivery>> {
        delivery::list(self.store.read(), scope, filter, direction, request).await
    }

    /// The backend of that id, without its secrets.
    pub async fn backend(&self, scope: Scope, id: BackendId) -> Result<Backend> {
        let (backend, _) = application::backend(self.store.read(), scope, id).await?;
        Ok(backend)
    }

    /// The backends that the scope lets see, of one application or of all, by name. `active`:
    /// only those that receive triggers now, or only the others.
    pub async fn backends(
        &self,
        scope: Scope,
        application: Option<ApplicationId>,
        active: Option<bool>,
        request: &PageRequest,
    ) -> Result<Page<Backend>> {
        let heartbeat_since = self.now() - self.heartbeat_timeout();
        let activity = active.map(|active| Activity { active, heartbeat_since });
        application::backends(self.store.read(), scope, application, activity, request).await
    }

    /// The audit log that the scope lets see and `filter` asks for, latest first. A machine user
    /// sees the rows of its own application only, not those of the whole project.
    pub async fn audit_logs(
        &self,
        scope: Scope,
        filter: &AuditFilter,
        request: &PageRequest,
    ) -> Result<Page<AuditLog>> {
        let mut filter = filter.clone();
        if let Scope::Application(own) = scope {
            match filter.application_id {
                Some(other) if other != own => return Ok(Page::empty(request)),
                _ => filter.application_id = Some(own),
            }
        }
        audit::list(self.store.read(), scope, &filter, request).await
    }

    /// What the executors do. Anyone who is signed in may ask; what waits is told for the
    /// applications in `scope` only.
    pub async fn executor_status(&self, scope: Scope) -> Result<ExecutorStatus> {
        let (db, now) = (self.store.read(), self.now());
        let executors = executor::instances(db, now - FORGOTTEN_AFTER).await?;
        let depth = executor::queue_depth(db).await?;
        let ids: Vec<_> = depth.iter().map(|(id, _)| *id).collect();
        let visible = application::find_all(db, scope, &ids).await?;
        let seen = |id: &ApplicationId| visible.iter().any(|application| application.id == *id);
        Ok(ExecutorStatus {
            executors: executors
                .into_iter()
                .map(|instance| {
                    let alive = self.is_alive(&instance, now);
                    (instance, alive)
                })
                .collect(),
            active_triggers: executor::active_triggers(db).await?,
            waiting: depth.into_iter().filter(|(id, _)| seen(id)).collect(),
            next_due_at: executor::next_due(db).await?.earliest(),
            time_zone: self.zone.name().to_owned(),
            time_zone_data_version: Zone::data_version(),
        })
    }

    /// An executor makes a pass at the latest every interval. One that missed two, and then the
    /// time that one may take, is gone.
    fn is_alive(&self, instance: &ExecutorInstance, now: DateTime<Utc>) -> bool {
        instance.stopped_at.is_none() && instance.last_pass_at >= now - self.patience()
    }

    /// `CONFLICT` on `field` while an executor lives: what is to be changed, running processes would not
    /// learn of.
    pub(super) async fn refuse_while_running(&self, field: &'static str) -> Result<()> {
        let now = self.now();
        let known = executor::instances(self.store.read(), now - self.patience()).await?;
        let Some(one) = known.into_iter().find(|instance| self.is_alive(instance, now)) else {
            return Ok(());
        };
        let reason = format!(
            "an executor runs on {} (process {}); stop all processes first. One that was killed \
             counts as running for {} s after its last pass",
            one.host,
            one.process_id,
            self.patience().num_seconds()
        );
        Err(Error::conflict(field, reason))
    }

    fn patience(&self) -> Duration {
        super::span(self.config.cron.trigger_check_interval) * 2
            + super::span(self.config.dispatch.lease)
    }
}
