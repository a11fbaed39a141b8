//! What found no backend: occurrences are tried again, and work that was put off while one came back
//! does not wait.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::attempt::Done;
use super::effect::Effect;
use super::job::Place;
use super::pass::ROWS_PER_TRANSACTION;
use super::{BATCH, Executor};
use crate::domain::fan_out::fan_out;
use crate::domain::id::{ApplicationId, BackendId, ScheduledActionId};
use crate::domain::trigger::{Occurrence, OccurrenceStatus};
use crate::error::Result;
use crate::store::{Tx, application, delivery, executor, scheduled_action};

impl Executor {
    /// Fans out occurrences that wait for a backend and are due for another look. One that has
    /// waited as long as the budget allows ends as failed. Answers how many it looked at.
    pub async fn fan_out_waiting(&self, now: DateTime<Utc>) -> Result<usize> {
        let tx = self.app.store.begin().await?;
        let mut waiting = executor::waiting_occurrences(&*tx, now, BATCH).await?;
        if waiting.is_empty() {
            return Ok(0);
        }
        delivery::hold_waiting(&tx, waiting.iter().map(|w| w.application_id)).await?;
        let backends = self.active(&tx, waiting.iter().map(|w| w.application_id), now).await?;
        let mut deliveries = Vec::new();
        let mut taken = 0;
        for occurrence in &mut waiting {
            if deliveries.len() >= ROWS_PER_TRANSACTION {
                break;
            }
            taken += 1;
            let active = backends.get(&occurrence.application_id).map_or(&[][..], Vec::as_slice);
            let policy = (&self.policy(), self.jitter());
            let made = fan_out(occurrence, active, now, policy);
            deliveries.extend(made.into_iter().map(|new| (new, None)));
        }
        // The others are due still.
        waiting.truncate(taken);
        executor::update_waiting(&*tx, &waiting).await?;
        executor::insert_deliveries(&*tx, &deliveries).await?;
        tx.commit_unaudited().await?;
        self.count_waiting(&waiting);
        Ok(waiting.len())
    }

    /// Makes work of `done` due that was put off for want of a backend which is active by now. Last in
    /// its transaction: nothing may be waited for once the applications are held.
    pub(super) async fn wake_overtaken(
        &self,
        tx: &Tx,
        done: impl Iterator<Item = &Done>,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let put_off: Vec<_> = done.filter_map(wanted).collect();
        if put_off.is_empty() {
            return Ok(());
        }
        let applications = || put_off.iter().map(|(application, ..)| *application);
        delivery::hold_waiting(tx, applications()).await?;
        let active = self.active(tx, applications(), now).await?;
        let is_there = |(application, backend, _): &&(_, Option<BackendId>, _)| {
            let active = active.get(application);
            active.is_some_and(|active| backend.is_none_or(|backend| active.contains(&backend)))
        };
        let awake: Vec<_> = put_off.iter().filter(is_there).map(|(.., id)| *id).collect();
        scheduled_action::wake(&**tx, &awake, now).await
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

/// The backend that work was put off for want of, unless any of the application would do.
fn wanted(done: &Done) -> Option<(ApplicationId, Option<BackendId>, ScheduledActionId)> {
    let Some(Effect::PutOff(place)) = &done.effect else { return None };
    match place {
        Place::Backend(backend) => {
            let application = done.claimed.action.concern.application_id?;
            Some((application, Some(*backend), done.finished.id))
        }
        Place::Application(application) => Some((*application, None, done.finished.id)),
        Place::LineOa(_) | Place::Here => None,
    }
}
