//! What one query reads for many rows at once, so that a nested field costs one query a level and
//! not one a row. Answers come in no order, and leave out what the scope does not let see.

use super::App;
use crate::domain::access::Scope;
use crate::domain::application::Backend;
use crate::domain::delivery::{Attempt, Delivery};
use crate::domain::id::{BackendId, OccurrenceId, ScheduledActionId, TriggerId};
use crate::domain::trigger::{Occurrence, Trigger};
use crate::error::Result;
use crate::store::{application, delivery, trigger};

impl App {
    /// The backends of these ids, without their secrets.
    pub async fn backends_by_ids(&self, scope: Scope, ids: &[BackendId]) -> Result<Vec<Backend>> {
        let rows = application::backends_by_ids(self.store.read(), scope, ids).await?;
        Ok(rows.into_iter().map(|(backend, _)| backend).collect())
    }

    /// The triggers of these ids.
    pub async fn triggers_by_ids(&self, scope: Scope, ids: &[TriggerId]) -> Result<Vec<Trigger>> {
        trigger::find_all(self.store.read(), scope, ids).await
    }

    /// The occurrences of these ids.
    pub async fn occurrences_by_ids(
        &self,
        scope: Scope,
        ids: &[OccurrenceId],
    ) -> Result<Vec<Occurrence>> {
        trigger::occurrences_by_ids(self.store.read(), scope, ids).await
    }

    /// The latest occurrence of each of these triggers. For triggers in the caller's scope.
    pub async fn latest_occurrences(&self, triggers: &[TriggerId]) -> Result<Vec<Occurrence>> {
        trigger::latest_occurrences(self.store.read(), triggers).await
    }

    /// The deliveries of these occurrences, oldest first. For occurrences in the caller's scope.
    pub async fn deliveries_of(&self, occurrences: &[OccurrenceId]) -> Result<Vec<Delivery>> {
        delivery::of_occurrences(self.store.read(), occurrences).await
    }

    /// The attempts of these deliveries, oldest first. For deliveries in the caller's scope.
    pub async fn attempts_of(&self, deliveries: &[ScheduledActionId]) -> Result<Vec<Attempt>> {
        delivery::attempts(self.store.read(), deliveries).await
    }
}
