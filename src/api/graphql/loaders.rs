//! Nested fields, loaded for all rows of a level at once.
//!
//! One set a request, made for what its caller may see; nothing outlives the request. What the
//! caller may not see is missing, as if it were not there.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use async_graphql::dataloader::{DataLoader, Loader};

use crate::app::App;
use crate::domain::access::Scope;
use crate::domain::application::{Application, Backend};
use crate::domain::delivery::{Attempt, Delivery};
use crate::domain::id::{
    ApplicationId, BackendId, OccurrenceId, ProjectId, ScheduledActionId, TriggerId, UserId,
};
use crate::domain::people::{Project, User};
use crate::domain::trigger::{Occurrence, Trigger};
use crate::error::Error;

/// Loads by id. Its errors are shared by all who waited for the same load.
pub struct Loaders {
    app: Arc<App>,
    scope: Scope,
}

impl Loaders {
    /// Loaders for what `scope` lets see.
    pub fn new(app: Arc<App>, scope: Scope) -> DataLoader<Self> {
        DataLoader::new(Self { app, scope }, tokio::spawn)
    }
}

/// Asks for a trigger's latest occurrence.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatestOf(pub TriggerId);

/// Asks for an occurrence's deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveriesOf(pub OccurrenceId);

/// Asks for a delivery's attempts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptsOf(pub ScheduledActionId);

type Loaded<K, V> = Result<HashMap<K, V>, Arc<Error>>;

fn by<K: Eq + Hash, V>(rows: crate::error::Result<Vec<V>>, key: impl Fn(&V) -> K) -> Loaded<K, V> {
    Ok(rows?.into_iter().map(|row| (key(&row), row)).collect())
}

fn grouped<K: Eq + Hash, V>(
    rows: crate::error::Result<Vec<V>>,
    key: impl Fn(&V) -> K,
) -> Loaded<K, Vec<V>> {
    let mut groups = HashMap::<K, Vec<V>>::new();
    for row in rows? {
        groups.entry(key(&row)).or_default().push(row);
    }
    Ok(groups)
}

impl Loader<ProjectId> for Loaders {
    type Value = Project;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[ProjectId]) -> Loaded<ProjectId, Project> {
        by(self.app.projects_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Loader<UserId> for Loaders {
    type Value = User;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[UserId]) -> Loaded<UserId, User> {
        by(self.app.users_by_ids(ids).await, |row| row.id)
    }
}

impl Loader<ApplicationId> for Loaders {
    type Value = Application;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[ApplicationId]) -> Loaded<ApplicationId, Application> {
        by(self.app.applications_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Loader<BackendId> for Loaders {
    type Value = Backend;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[BackendId]) -> Loaded<BackendId, Backend> {
        by(self.app.backends_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Loader<TriggerId> for Loaders {
    type Value = Trigger;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[TriggerId]) -> Loaded<TriggerId, Trigger> {
        by(self.app.triggers_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Loader<OccurrenceId> for Loaders {
    type Value = Occurrence;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[OccurrenceId]) -> Loaded<OccurrenceId, Occurrence> {
        by(self.app.occurrences_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Loader<LatestOf> for Loaders {
    type Value = Occurrence;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[LatestOf]) -> Loaded<LatestOf, Occurrence> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        by(self.app.latest_occurrences(&ids).await, |row| LatestOf(row.trigger_id))
    }
}

impl Loader<DeliveriesOf> for Loaders {
    type Value = Vec<Delivery>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[DeliveriesOf]) -> Loaded<DeliveriesOf, Vec<Delivery>> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        grouped(self.app.deliveries_of(&ids).await, |row| DeliveriesOf(row.occurrence_id))
    }
}

impl Loader<AttemptsOf> for Loaders {
    type Value = Vec<Attempt>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[AttemptsOf]) -> Loaded<AttemptsOf, Vec<Attempt>> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        grouped(self.app.attempts_of(&ids).await, |row| AttemptsOf(row.delivery_id))
    }
}
