//! Occurrences that found no backend are tried again.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::{BATCH, Executor};
use crate::domain::fan_out::fan_out;
use crate::domain::id::{ApplicationId, BackendId};
use crate::domain::trigger::{Occurrence, OccurrenceStatus};
use crate::error::Result;
use crate::store::{Tx, application, executor};

impl Executor {
    /// Fans out occurrences that wait for a backend and are due for another look. One that has
    /// waited as long as the budget allows ends as failed. Answers how many it looked at.
    pub async fn fan_out_waiting(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let mut waiting = executor::waiting_occurrences(&*tx, now, BATCH).await?;
        if waiting.is_empty() {
            return Ok(0);
        }
        let backends = self.active(&tx, waiting.iter().map(|w| w.application_id), now).await?;
        let mut deliveries = Vec::new();
        for occurrence in &mut waiting {
            let active = backends.get(&occurrence.application_id).map_or(&[][..], Vec::as_slice);
            let policy = (&self.policy(), self.jitter());
            let made = fan_out(occurrence, active, now, policy);
            deliveries.extend(made.into_iter().map(|new| (new, None)));
        }
        executor::update_waiting(&*tx, &waiting).await?;
        executor::insert_deliveries(&*tx, &deliveries).await?;
        tx.commit_unaudited().await?;
        self.count_waiting(&waiting);
        Ok(waiting.len())
    }

    fn count_waiting(&self, waiting: &[Occurrence]) {
        for occurrence in waiting {
            let application = occurrence.application_id;
            if occurrence.status == OccurrenceStatus::Failed {
                self.app.metrics.delivery_failed(application, 1);
                tracing::warn!(occurrence = %occurrence.id, %application, "an occurrence failed: no backend was active before its budget ended");
            }
            let made = u64::try_from(occurrence.deliveries).unwrap_or_default();
            self.app.metrics.queued(application, made);
        }
    }

    /// The active backends of each application.
    pub(super) async fn active(
        &self,
        tx: &Tx,
        applications: impl Iterator<Item = ApplicationId>,
        now: DateTime<Utc>,
    ) -> Result<HashMap<ApplicationId, Vec<BackendId>>> {
        let mut ids: Vec<_> = applications.collect();
        ids.sort_unstable();
        ids.dedup();
        let timeout = self.app.heartbeat_timeout();
        let mut active = HashMap::<_, Vec<_>>::new();
        for backend in application::backends_of(&**tx, &ids).await? {
            if backend.is_active(now, timeout) {
                active.entry(backend.application_id).or_default().push(backend.id);
            }
        }
        Ok(active)
    }
}
