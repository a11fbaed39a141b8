//! Queued work of rules and workflow services: what people read of it, and the two changes that they
//! make to it. Maintainers and owners write.

mod retry_key;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::App;
use super::change::note_cancelled;
use super::retry::gone;
use super::take_back::refuse_while_taken_back;
use crate::actions::{Action, SendMessage};
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audit::{Caller, Change};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ProjectId, ScheduledActionId};
use crate::domain::line::CALL_BUDGET;
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::scheduled_action::ScheduledAction;
use crate::error::{Error, Result};
use crate::store::withdrawal::Kind;
use crate::store::{Hold, Tx, application, delivery, line, rule, scheduled_action, workflow};

pub use crate::store::scheduled_action::Filter as ScheduledActionFilter;

/// What work that a person took back has in the place of its last error.
pub(super) const CANCELLED: &str = "cancelled_by_request";

impl App {
    /// The work of that id; the delivery of a trigger is not found. Machine users find what is for
    /// their application's backends.
    pub async fn scheduled_action(
        &self,
        scope: Scope,
        id: ScheduledActionId,
    ) -> Result<ScheduledAction> {
        scheduled_action::find(self.store.read(), scope, id).await
    }

    /// The work of these ids, in no order; that out of scope is left out.
    pub async fn scheduled_actions_by_ids(
        &self,
        scope: Scope,
        ids: &[ScheduledActionId],
    ) -> Result<Vec<ScheduledAction>> {
        scheduled_action::find_all(self.store.read(), scope, ids).await
    }

    /// The copies of these calls, one for each backend but the first, oldest first.
    pub async fn scheduled_action_copies(
        &self,
        scope: Scope,
        of: &[ScheduledActionId],
    ) -> Result<Vec<ScheduledAction>> {
        scheduled_action::copies(self.store.read(), scope, of).await
    }

    /// The work that the scope lets see and `filter` asks for, by creation.
    pub async fn scheduled_actions(
        &self,
        scope: Scope,
        filter: &ScheduledActionFilter,
        direction: Direction,
        request: &PageRequest,
    ) -> Result<Page<ScheduledAction>> {
        scheduled_action::list(self.store.read(), scope, filter, direction, request).await
    }

    /// Takes back work that waits or is being done. An attempt under way is not stopped, but what
    /// comes of it changes nothing. A call's copies, which go to other backends, are taken back too.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for the delivery of a trigger; `FORBIDDEN`; `CONFLICT` when it has ended.
    pub async fn cancel_scheduled_action(
        &self,
        caller: &Caller,
        id: ScheduledActionId,
    ) -> Result<ScheduledAction> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (project, before) = self.writable_action(&tx, &caller.actor, id).await?;
        let cancelled = scheduled_action::cancel_with_copies(&*tx, id, CANCELLED, now).await?;
        if cancelled == 0 {
            // As it is now: it may have ended since it was found.
            let ended = scheduled_action::find(&*tx, Scope::Everything, id).await?;
            let reason = format!(
                "only pending or processing work can be cancelled, this is {}",
                ended.status.as_str()
            );
            return Err(Error::conflict("id", reason));
        }
        let after = scheduled_action::find(&*tx, Scope::Everything, id).await?;
        let change = taken_back(project, (&before, &after), cancelled);
        tx.commit(caller, now, &[change]).await?;
        let outcome = ActionStatus::Cancelled.as_str();
        self.metrics.actions_ended(&after.action_type, outcome, cancelled.into());
        Ok(after)
    }

    /// Makes work that ended as failed, expired or cancelled due again, with a fresh budget:
    /// `dispatch.retry.max_age`, without an application at most [`CALL_BUDGET`], and of a message that an
    /// earlier attempt may have sent no longer than [`CALL_BUDGET`] after that. Its id stays the same, and
    /// with it what the other side knows it by.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for the delivery of a trigger; `FORBIDDEN`; `CONFLICT` in any other state,
    /// when its rule, workflow, LINE OA, application or backend was deleted since, while what the rule
    /// had queued when it was disabled is still being cancelled, and for a message
    /// that an attempt may have sent [`CALL_BUDGET`] ago or earlier.
    pub async fn retry_scheduled_action(
        &self,
        caller: &Caller,
        id: ScheduledActionId,
    ) -> Result<ScheduledAction> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (project, before) = self.writable_action(&tx, &caller.actor, id).await?;
        hold_what_it_needs(&tx, &before).await?;
        let age = self.retry_policy().max_age;
        let by_line = before.concern.application_id.is_none();
        let end = now + if by_line { age.min(CALL_BUDGET) } else { age };
        let expires_at = key_ends(&tx, &before, now).await?.map_or(end, |known| known.min(end));
        if scheduled_action::requeue(&*tx, &[id], now, expires_at).await?.is_empty() {
            let found = scheduled_action::find(&*tx, Scope::Everything, id).await?;
            let reason = format!(
                "only failed, expired or cancelled work can be retried, this is {}",
                found.status.as_str()
            );
            return Err(Error::conflict("id", reason));
        }
        let after = scheduled_action::find(&*tx, Scope::Everything, id).await?;
        let change = action_change("scheduled_action.retry", project, (&before, &after));
        tx.commit(caller, now, &[change]).await?;
        if let Some(application) = after.concern.application_id {
            self.metrics.queued(application, 1);
        }
        self.wake.hint();
        Ok(after)
    }

    /// The work of that id, if `actor` may see and change it, and its project.
    async fn writable_action(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: ScheduledActionId,
    ) -> Result<(ProjectId, ScheduledAction)> {
        let action = scheduled_action::find(&**tx, actor.scope(), id).await?;
        let project = action.concern.organization_id;
        let project = project.ok_or(Error::NotFound { what: ScheduledActionId::WHAT })?;
        self.require(&**tx, actor, project, Role::Maintainer).await?;
        Ok((project, action))
    }
}

/// When a message must not be tried any more; none of other work, which may be done twice.
///
/// # Errors
/// `CONFLICT` when that is over.
async fn key_ends(
    tx: &Tx,
    action: &ScheduledAction,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>> {
    if action.action_type != SendMessage::TYPE {
        return Ok(None);
    }
    let attempts = delivery::attempts(&**tx, &[action.id]).await?;
    match retry_key::forgotten_at(action, &attempts) {
        Some(end) if end <= now => Err(Error::conflict(
            "id",
            "an attempt more than 23 hours ago may have sent the message, and the LINE platform \
             remembers that for 24 hours only: sending it again could reach the user twice",
        )),
        end => Ok(end),
    }
}

/// Holds what the work leads to and belongs to, so that nothing of it is deleted meanwhile, in the order
/// of locks. The work itself has ended, so that nobody who holds one of them waits for it.
async fn hold_what_it_needs(tx: &Tx, action: &ScheduledAction) -> Result<()> {
    let (all, concern, cause) = (Scope::Everything, &action.concern, &action.cause);
    if let Some(id) = concern.application_id {
        gone(application::find_held(tx, all, id, Hold::Change).await, ("application", "work"))?;
    }
    if let Some(id) = concern.line_oa_id {
        rule::hold_rules(tx, &[id]).await?;
        gone(line::shown(&**tx, all, id).await, ("LINE OA", "work"))?;
    }
    if let Some(id) = cause.workflow_id {
        gone(workflow::find_held(tx, all, id, Hold::Change).await, ("workflow", "work"))?;
    }
    if let Some(id) = cause.trigger_rule_id {
        gone(rule::find_held(tx, all, id).await, ("trigger rule", "work"))?;
        refuse_while_taken_back(tx, id.0, ("id", Kind::TriggerRule)).await?;
    }
    if let Some(id) = concern.line_oa_id {
        gone(line::find_held(tx, all, id, Hold::Change).await, ("LINE OA", "work"))?;
    }
    if let Some(id) = concern.backend_id {
        gone(application::backend(&**tx, all, id).await, ("backend", "work"))?;
    }
    Ok(())
}

/// The row of work that was taken back, whoever asked for it and by which way. It counts copies too:
/// the work itself may have ended before them.
pub(super) fn taken_back(
    project: ProjectId,
    states: (&ScheduledAction, &ScheduledAction),
    cancelled: u32,
) -> Change {
    let mut change = action_change("scheduled_action.cancel", project, states);
    note_cancelled(&mut change.after, "cancelledActions", cancelled);
    change
}

fn action_change(
    action: &'static str,
    project: ProjectId,
    (before, after): (&ScheduledAction, &ScheduledAction),
) -> Change {
    Change {
        action,
        entity_type: "scheduled_action",
        entity_id: after.id.0,
        project_id: Some(project),
        application_id: after.concern.application_id,
        before: Some(summary(before)),
        after: Some(summary(after)),
    }
}

fn summary(action: &ScheduledAction) -> serde_json::Value {
    json!({
        "status": action.status.as_str(),
        "actionType": action.action_type,
        "triggerRuleId": action.cause.trigger_rule_id,
        "workflowId": action.cause.workflow_id,
        "nodePath": action.cause.workflow_node_path,
        "lineOaId": action.concern.line_oa_id,
        "userId": action.concern.user_id,
        "applicationId": action.concern.application_id,
        "backendId": action.concern.backend_id,
        "attempts": action.retry_count,
        "executeAt": action.execute_at,
        "expiresAt": action.expires_at,
        "lastError": action.last_error,
    })
}
