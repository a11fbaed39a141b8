//! Trigger rules of LINE OAs. Maintainers and owners write; machine users see none.
//!
//! # Locks
//! Whoever changes rules holds the LINE OA's row (by counting the change) and then the rule's. Work
//! that is to be cancelled comes before both, as whoever finishes work holds it first; and once
//! more behind them, for what was queued meanwhile.

mod check;
mod dry_run;
mod tested;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::App;
use super::change::change;
use super::take_back::refuse_while_taken_back;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audit::{Caller, Change};
use crate::domain::cron::Zone;
use crate::domain::id::{AudienceId, LineOaId, TriggerRuleId, WorkflowId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::rule::{Frequency, TriggerRule};
use crate::domain::window;
use crate::error::Result;
use crate::sources::{self, Timetable};
use crate::store::withdrawal::{Kind, Owner};
use crate::store::{Tx, cycle, rule};

pub use dry_run::{RuleToTest, SampleEvent};
pub use tested::{DryRun, TestedAction, TestedGate};

/// What a new rule is made of.
#[derive(Debug, Clone)]
pub struct CreateTriggerRule {
    /// The LINE OA whose events it meets.
    pub line_oa_id: LineOaId,
    /// Required, up to 100 characters; need not be unique.
    pub name: String,
    /// Up to 1000 characters.
    pub description: String,
    /// A source type of the catalog.
    pub source_type: String,
    /// As the source type's schema says; keys may be in snake_case.
    pub source_config: Value,
    /// An action type of the catalog.
    pub action_type: String,
    /// As the action type's schema says; keys may be in snake_case.
    pub action_config: Value,
    /// Whether it fires from now on.
    pub enabled: bool,
    /// How often it may fire for one user.
    pub frequency: Frequency,
    /// The shortest time between two firings, 0 to 366 days.
    pub cooldown_seconds: i32,
    /// A workflow of the LINE OA's project.
    pub workflow_id: Option<WorkflowId>,
    /// A node of that workflow, 1 to 500 characters.
    pub workflow_node_path: Option<String>,
}

/// What of a rule is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateTriggerRule {
    /// A new name.
    pub name: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// Another source type.
    pub source_type: Option<String>,
    /// A whole new configuration of the source.
    pub source_config: Option<Value>,
    /// Another action type.
    pub action_type: Option<String>,
    /// A whole new configuration of the action.
    pub action_config: Option<Value>,
    /// On or off.
    pub enabled: Option<bool>,
    /// A new frequency.
    pub frequency: Option<Frequency>,
    /// A new cooldown.
    pub cooldown_seconds: Option<i32>,
    /// Another workflow; `Some(None)`: none.
    pub workflow_id: Option<Option<WorkflowId>>,
    /// Another node; `Some(None)`: none.
    pub workflow_node_path: Option<Option<String>>,
}

impl UpdateTriggerRule {
    /// Whether what the rule waits for or does has to be looked at again. Everything else can be
    /// changed of a rule whose audience is gone, too; it can be disabled above all.
    fn concerns_parts(&self) -> bool {
        self.source_type.is_some()
            || self.source_config.is_some()
            || self.action_type.is_some()
            || self.action_config.is_some()
            || self.workflow_id.is_some()
            || self.workflow_node_path.is_some()
            || self.enabled == Some(true)
    }
}

impl App {
    /// Makes a rule. Unless enabled, it does not fire until it is.
    ///
    /// # Errors
    /// `NOT_FOUND` for the LINE OA; `FORBIDDEN`; `UNKNOWN_SOURCE_TYPE`; `UNKNOWN_ACTION_TYPE`;
    /// `INVALID` on a field, in a configuration with its path; `NOT_FOUND` on the field of an
    /// audience, application or workflow that is not of the rule's LINE OA or project.
    pub async fn create_trigger_rule(
        &self,
        caller: &Caller,
        new: CreateTriggerRule,
    ) -> Result<TriggerRule> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let line_oa = self.writable_line_oa(&*tx, &caller.actor, new.line_oa_id).await?;
        let mut made = self.draft(&*tx, &line_oa, new, now).await?;
        made.version = rule::next_version(&tx, line_oa.id).await?;
        rule::insert(&*tx, &made).await?;
        let created = rule_change("trigger_rule.create", &made, None, Some(&made))?;
        tx.commit(caller, now, &[created]).await?;
        self.wake.hint();
        Ok(made)
    }

    /// Changes a rule. Another audience, or a source that walks none, ends the cycles that are being
    /// walked. What is queued already stays as it is, unless the rule is disabled: that,
    /// also once more, cancels it and ends the cycles that are being walked. Of very much, the rest
    /// is cancelled in steps by the executors, which start none of it. A new schedule, zone
    /// or enabling starts the window of a time-based rule now: what would have been due before is
    /// nobody's.
    ///
    /// # Errors
    /// `NOT_FOUND`; otherwise as [`App::create_trigger_rule`]; `CONFLICT` on `enabled` while what was
    /// queued when the rule was disabled is still being cancelled. A rule that refers to something that
    /// is gone can be disabled and renamed; enabling it is refused.
    pub async fn update_trigger_rule(
        &self,
        caller: &Caller,
        id: TriggerRuleId,
        update: UpdateTriggerRule,
    ) -> Result<TriggerRule> {
        const REASON: &str = "rule_disabled";
        let now = self.now();
        let tx = self.store.begin().await?;
        let found = self.writable_rule(&tx, &caller.actor, id).await?;
        let disable = update.enabled == Some(false);
        let mut back = self.take_back(&tx, owner(&found), (REASON, now));
        if disable {
            back.cancel().await?;
        }
        let before = held(&tx, caller.actor.scope(), &found).await?;
        if update.enabled == Some(true) {
            refuse_while_taken_back(&tx, id.0, ("enabled", Kind::TriggerRule)).await?;
        }
        let mut after = self.changed(&*tx, &before, update).await?;
        if disable {
            cycle::cancel_of_rule(&tx, id, REASON, now).await?;
            back.cancel().await?;
        } else if audience(&before) != audience(&after) {
            cycle::cancel_of_rule(&tx, id, "rule_changed", now).await?;
        } else {
            cycle::hold_of_rule(&tx, id).await?;
        }
        after.version = rule::next_version(&tx, before.line_oa_id).await?;
        after.updated_date = now;
        self.keep_window(&before, &mut after, now);
        rule::update(&*tx, &after).await?;
        let mut updated = rule_change("trigger_rule.update", &after, Some(&before), Some(&after))?;
        if disable {
            back.leave_rest(&mut updated.after, now).await?;
        }
        tx.commit(caller, now, &[updated]).await?;
        self.wake.hint();
        Ok(after)
    }

    /// Deletes a rule: it is not found any more, and never fires. Its queued work is cancelled, as when
    /// it is disabled, and its cycles end; history still names it.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for one that was deleted before; `FORBIDDEN`.
    pub async fn delete_trigger_rule(
        &self,
        caller: &Caller,
        id: TriggerRuleId,
    ) -> Result<TriggerRule> {
        const REASON: &str = "rule_deleted";
        let now = self.now();
        let tx = self.store.begin().await?;
        let found = self.writable_rule(&tx, &caller.actor, id).await?;
        let mut back = self.take_back(&tx, owner(&found), (REASON, now));
        back.cancel().await?;
        let before = held(&tx, caller.actor.scope(), &found).await?;
        cycle::cancel_of_rule(&tx, id, REASON, now).await?;
        back.cancel().await?;
        let version = rule::next_version(&tx, before.line_oa_id).await?;
        let gone = TriggerRule {
            version,
            next_fire_at: None,
            updated_date: now,
            deleted_date: Some(now),
            ..before.clone()
        };
        rule::update(&*tx, &gone).await?;
        let mut deleted = rule_change("trigger_rule.delete", &before, Some(&before), None)?;
        back.leave_rest(&mut deleted.before, now).await?;
        tx.commit(caller, now, &[deleted]).await?;
        self.wake.hint();
        Ok(gone)
    }

    /// The rule of that id; a deleted one is not found.
    pub async fn trigger_rule(&self, scope: Scope, id: TriggerRuleId) -> Result<TriggerRule> {
        rule::find(self.store.read(), scope, id).await
    }

    /// The rules of these ids, deleted ones too, in no order; those out of scope are left out.
    pub async fn trigger_rules_by_ids(
        &self,
        scope: Scope,
        ids: &[TriggerRuleId],
    ) -> Result<Vec<TriggerRule>> {
        rule::find_all(self.store.read(), scope, ids).await
    }

    /// The rules that the scope lets see and `filter` asks for, deleted ones left out.
    pub async fn trigger_rules(
        &self,
        scope: Scope,
        filter: &rule::Filter,
        sort: (rule::Sort, Direction),
        request: &PageRequest,
    ) -> Result<Page<TriggerRule>> {
        rule::list(self.store.read(), scope, filter, sort, request).await
    }

    /// The rule of that id, if `actor` may see it and has at least the maintainer role in its
    /// project.
    async fn writable_rule(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: TriggerRuleId,
    ) -> Result<TriggerRule> {
        let found = rule::find(&**tx, actor.scope(), id).await?;
        self.require(&**tx, actor, found.organization_id, Role::Maintainer).await?;
        Ok(found)
    }

    /// Starts the window of a time-based rule anew at `now`, if it is enabled or disabled, if what it
    /// waits for is due at other times than before, or if an executor stopped it because it was not
    /// understood.
    fn keep_window(&self, before: &TriggerRule, after: &mut TriggerRule, now: DateTime<Utc>) {
        let (old, new) = (timetable(before), timetable(after));
        let same = match (&old, &new) {
            (Some(old), Some(new)) => {
                old.schedule == new.schedule && self.zone_at(old) == self.zone_at(new)
            }
            (None, None) => true,
            _ => false,
        };
        let stopped = after.enabled && before.next_fire_at.is_none();
        if !same || stopped || before.enabled != after.enabled {
            let evaluated_at = before.evaluated_at.unwrap_or(now);
            self.start_rule_window(after, new.as_ref(), window::begin_anew(evaluated_at, now));
        }
    }

    /// Lets a rule's window begin at `start`. Only time-based rules have one.
    fn start_rule_window(
        &self,
        rule: &mut TriggerRule,
        timetable: Option<&Timetable>,
        start: DateTime<Utc>,
    ) {
        rule.evaluated_at = timetable.map(|_| start);
        rule.next_fire_at = timetable
            .filter(|_| rule.enabled)
            .and_then(|timetable| timetable.schedule.next(self.zone_at(timetable), start));
    }

    fn zone_at<'a>(&'a self, timetable: &'a Timetable) -> &'a Zone {
        timetable.zone.as_ref().unwrap_or(&self.zone)
    }
}

/// Holds the LINE OA's rules and the rule: as it is now. The LINE OA's row, where changes are counted,
/// comes after the rule's work, as for whoever records an attempt that pauses the LINE OA.
async fn held(tx: &Tx, scope: Scope, found: &TriggerRule) -> Result<TriggerRule> {
    rule::hold_rules(tx, &[found.line_oa_id]).await?;
    rule::find_held(tx, scope, found.id).await
}

/// A rule as the owner of work.
fn owner(rule: &TriggerRule) -> Owner {
    let project_id = rule.organization_id;
    Owner { kind: Kind::TriggerRule, id: rule.id.0, project_id, application_id: None }
}

/// When a time-based rule is due, and for whom; none of others, and of one that can't be understood.
pub fn timetable(rule: &TriggerRule) -> Option<Timetable> {
    let kind = sources::find(&rule.source_type).ok().filter(|kind| !kind.accepts_events)?;
    kind.parse_config(&rule.source_config).ok()?.timetable
}

/// Whom the cycles of a rule walk.
fn audience(rule: &TriggerRule) -> Option<AudienceId> {
    timetable(rule).map(|timetable| timetable.audience_id)
}

fn rule_change(
    action: &'static str,
    of: &TriggerRule,
    before: Option<&TriggerRule>,
    after: Option<&TriggerRule>,
) -> Result<Change> {
    let project_id = Some(of.organization_id);
    Ok(Change { project_id, ..change(action, ("trigger_rule", of.id), before, after)? })
}
