//! What came of trigger rules: events, cycles and the trigger log, as people read them.

use std::collections::HashMap;

use super::App;
use crate::domain::access::Scope;
use crate::domain::cycle::Cycle;
use crate::domain::event::Event;
use crate::domain::id::{CycleId, EventId, TriggerRuleId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::trigger_log::TriggerLog;
use crate::error::Result;
use crate::store::{cycle, event, rule, trigger_log};

pub use crate::store::cycle::Filter as CycleFilter;
pub use crate::store::event::Filter as EventFilter;
pub use crate::store::trigger_log::Filter as TriggerLogFilter;

impl App {
    /// The event of that id. Machine users find none.
    pub async fn event(&self, scope: Scope, id: EventId) -> Result<Event> {
        event::find(self.store.read(), scope, id).await
    }

    /// The events of these ids, in no order; those out of scope are left out.
    pub async fn events_by_ids(&self, scope: Scope, ids: &[EventId]) -> Result<Vec<Event>> {
        event::find_all(self.store.read(), scope, ids).await
    }

    /// The events that the scope lets see and `filter` asks for, in the order of storing. Machine
    /// users see none.
    pub async fn events(
        &self,
        scope: Scope,
        filter: &EventFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<Event>> {
        event::list(self.store.read(), scope, filter, direction, request).await
    }

    /// The cycle of that id. Machine users find none.
    pub async fn cycle(&self, scope: Scope, id: CycleId) -> Result<Cycle> {
        cycle::find(self.store.read(), scope, id).await
    }

    /// The cycles of these ids, in no order; those out of scope are left out.
    pub async fn cycles_by_ids(&self, scope: Scope, ids: &[CycleId]) -> Result<Vec<Cycle>> {
        cycle::find_all(self.store.read(), scope, ids).await
    }

    /// The cycles that the scope lets see and `filter` asks for, by due time. Machine users see
    /// none.
    pub async fn cycles(
        &self,
        scope: Scope,
        filter: &CycleFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<Cycle>> {
        cycle::list(self.store.read(), scope, filter, direction, request).await
    }

    /// The rows of the trigger log that the scope lets see and `filter` asks for, in the order of
    /// writing. Machine users see what was for their application's backends.
    pub async fn trigger_logs(
        &self,
        scope: Scope,
        filter: &TriggerLogFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<TriggerLog>> {
        trigger_log::list(self.store.read(), scope, filter, direction, request).await
    }

    /// The names of the rules of these ids, of deleted ones too; those out of scope are left out.
    /// Machine users see none.
    pub async fn rule_names(
        &self,
        scope: Scope,
        ids: &[TriggerRuleId],
    ) -> Result<HashMap<TriggerRuleId, String>> {
        if matches!(scope, Scope::Application(_)) {
            return Ok(HashMap::new());
        }
        let rules = rule::find_all(self.store.read(), scope, ids).await?;
        Ok(rules.into_iter().map(|rule| (rule.id, rule.name)).collect())
    }
}
