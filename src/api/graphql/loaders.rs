//! Nested fields, loaded for all rows of a level at once.
//!
//! One set a request, made for what its caller may see; nothing outlives the request. What the
//! caller may not see is missing, as if it were not there.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::batch::{Batches, Load, Loaded};
use crate::app::App;
use crate::domain::access::Scope;
use crate::domain::application::{Application, Backend};
use crate::domain::audience::Audience;
use crate::domain::cycle::Cycle;
use crate::domain::delivery::{Attempt, Delivery};
use crate::domain::event::Event;
use crate::domain::id::{
    ApplicationId, AudienceId, BackendId, CycleId, EventId, LineOaId, OccurrenceId, ProjectId,
    ScheduledActionId, TriggerId, TriggerRuleId, UserId, WorkflowId,
};
use crate::domain::line::{LineOa, LineUser};
use crate::domain::people::{Project, User};
use crate::domain::rule::TriggerRule;
use crate::domain::scheduled_action::ScheduledAction;
use crate::domain::trigger::{Occurrence, Trigger};
use crate::domain::workflow::Workflow;

/// Loads by id. Its errors are shared by all who waited for the same load.
pub struct Loaders {
    app: Arc<App>,
    scope: Scope,
}

impl Loaders {
    /// Loaders for what `scope` lets see. With `keeps`, what was loaded is kept until the end of the
    /// request.
    pub fn of_request(app: Arc<App>, scope: Scope, keeps: bool) -> RequestLoaders {
        Batches::new(Self { app, scope }, keeps)
    }
}

/// The loaders of one request.
pub type RequestLoaders = Batches<Loaders>;

/// Asks for a trigger's latest occurrence.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatestOf(pub TriggerId);

/// Asks for an occurrence's deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveriesOf(pub OccurrenceId);

/// Asks for a delivery's attempts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptsOf(pub ScheduledActionId);

/// Asks how many members an audience has; none: none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MembersOf(pub AudienceId);

/// Asks for the copies of a call that went to several backends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopiesOf(pub ScheduledActionId);

/// Asks for the name of a rule, which may have been deleted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameOf(pub TriggerRuleId);

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

impl Load<ProjectId> for Loaders {
    type Value = Project;

    async fn load(&self, ids: &[ProjectId]) -> Loaded<ProjectId, Project> {
        by(self.app.projects_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<UserId> for Loaders {
    type Value = User;

    async fn load(&self, ids: &[UserId]) -> Loaded<UserId, User> {
        by(self.app.users_by_ids(ids).await, |row| row.id)
    }
}

impl Load<ApplicationId> for Loaders {
    type Value = Application;

    async fn load(&self, ids: &[ApplicationId]) -> Loaded<ApplicationId, Application> {
        by(self.app.applications_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<BackendId> for Loaders {
    type Value = Backend;

    async fn load(&self, ids: &[BackendId]) -> Loaded<BackendId, Backend> {
        by(self.app.backends_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<TriggerId> for Loaders {
    type Value = Trigger;

    async fn load(&self, ids: &[TriggerId]) -> Loaded<TriggerId, Trigger> {
        by(self.app.triggers_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<OccurrenceId> for Loaders {
    type Value = Occurrence;

    async fn load(&self, ids: &[OccurrenceId]) -> Loaded<OccurrenceId, Occurrence> {
        by(self.app.occurrences_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<LatestOf> for Loaders {
    type Value = Occurrence;

    async fn load(&self, keys: &[LatestOf]) -> Loaded<LatestOf, Occurrence> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        by(self.app.latest_occurrences(&ids).await, |row| LatestOf(row.trigger_id))
    }
}

impl Load<DeliveriesOf> for Loaders {
    type Value = Vec<Delivery>;

    async fn load(&self, keys: &[DeliveriesOf]) -> Loaded<DeliveriesOf, Vec<Delivery>> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        grouped(self.app.deliveries_of(&ids).await, |row| DeliveriesOf(row.occurrence_id))
    }
}

impl Load<AttemptsOf> for Loaders {
    type Value = Vec<Attempt>;

    async fn load(&self, keys: &[AttemptsOf]) -> Loaded<AttemptsOf, Vec<Attempt>> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        grouped(self.app.attempts_of(&ids).await, |row| AttemptsOf(row.delivery_id))
    }
}

impl Load<LineOaId> for Loaders {
    type Value = LineOa;

    async fn load(&self, ids: &[LineOaId]) -> Loaded<LineOaId, LineOa> {
        by(self.app.line_oas_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<AudienceId> for Loaders {
    type Value = Audience;

    async fn load(&self, ids: &[AudienceId]) -> Loaded<AudienceId, Audience> {
        by(self.app.audiences_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<WorkflowId> for Loaders {
    type Value = Workflow;

    async fn load(&self, ids: &[WorkflowId]) -> Loaded<WorkflowId, Workflow> {
        by(self.app.workflows_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<TriggerRuleId> for Loaders {
    type Value = TriggerRule;

    async fn load(&self, ids: &[TriggerRuleId]) -> Loaded<TriggerRuleId, TriggerRule> {
        by(self.app.trigger_rules_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<(LineOaId, String)> for Loaders {
    type Value = LineUser;

    async fn load(&self, keys: &[(LineOaId, String)]) -> Loaded<(LineOaId, String), LineUser> {
        let users = self.app.line_users_by_ids(keys).await;
        by(users, |row| (row.line_oa_id, row.user_id.clone()))
    }
}

impl Load<MembersOf> for Loaders {
    type Value = i64;

    async fn load(&self, keys: &[MembersOf]) -> Loaded<MembersOf, i64> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        let sizes = self.app.audience_sizes(&ids).await?;
        Ok(sizes.into_iter().map(|(id, members)| (MembersOf(id), members)).collect())
    }
}

impl Load<EventId> for Loaders {
    type Value = Event;

    async fn load(&self, ids: &[EventId]) -> Loaded<EventId, Event> {
        by(self.app.events_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<CycleId> for Loaders {
    type Value = Cycle;

    async fn load(&self, ids: &[CycleId]) -> Loaded<CycleId, Cycle> {
        by(self.app.cycles_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<ScheduledActionId> for Loaders {
    type Value = ScheduledAction;

    async fn load(&self, ids: &[ScheduledActionId]) -> Loaded<ScheduledActionId, ScheduledAction> {
        by(self.app.scheduled_actions_by_ids(self.scope, ids).await, |row| row.id)
    }
}

impl Load<CopiesOf> for Loaders {
    type Value = Vec<ScheduledAction>;

    async fn load(&self, keys: &[CopiesOf]) -> Loaded<CopiesOf, Vec<ScheduledAction>> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        let copies = self.app.scheduled_action_copies(self.scope, &ids).await?;
        grouped(Ok(copies), |row| CopiesOf(row.parent_id.unwrap_or(row.id)))
    }
}

impl Load<NameOf> for Loaders {
    type Value = String;

    async fn load(&self, keys: &[NameOf]) -> Loaded<NameOf, String> {
        let ids: Vec<_> = keys.iter().map(|key| key.0).collect();
        let names = self.app.rule_names(self.scope, &ids).await?;
        Ok(names.into_iter().map(|(id, name)| (NameOf(id), name)).collect())
    }
}
