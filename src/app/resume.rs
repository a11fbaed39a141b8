//! What workflow services queue: "resume this workflow at this node, at that time".

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};

use super::App;
use super::event::{checked_payload, instant};
use super::scheduled_action::{CANCELLED, taken_back};
use crate::actions::ResumeWorkflow;
use crate::domain::access::{Actor, Scope};
use crate::domain::application::Application;
use crate::domain::audit::{Caller, Change};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{LineOaId, ScheduledActionId, WorkflowId};
use crate::domain::line::user_id;
use crate::domain::rule::duration::{MAX_SECONDS, Span};
use crate::domain::rule::misfit::text;
use crate::domain::scheduled_action::{ActionConfig, Cause, Concern, ScheduledAction};
use crate::domain::workflow::{NODE_PATH_MAX, Workflow};
use crate::error::{Error, Result};
use crate::store::{Hold, Tx, application, line, scheduled_action, workflow};

const ACTION_TYPE: &str = "resume_workflow";
/// The source type of what a workflow service queued.
const SOURCE_TYPE: &str = "workflow";
const DEDUPE_KEY_MAX: usize = 200;

/// A resume to be queued. Texts are not checked yet.
#[derive(Debug, Clone)]
pub struct ScheduleResume {
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The node: 1 to [`NODE_PATH_MAX`] characters.
    pub node_path: String,
    /// LINE's id of the user.
    pub user_id: Option<String>,
    /// A LINE OA of the application's project.
    pub line_oa_id: Option<LineOaId>,
    /// When, RFC 3339, at most 366 days ahead; a time that has passed is now. Not beside `delay`.
    pub execute_at: Option<String>,
    /// After how long, such as `2h`. With neither it is due at once.
    pub delay: Option<String>,
    /// How long after that it is not done any more, such as `1d`; never longer than deliveries
    /// are tried.
    pub expires_after: Option<String>,
    /// Reaches the backends as it is; as large as an event's.
    pub payload: Option<Value>,
    /// 1 to 200 characters: with one that the application used already, nothing is queued.
    pub dedupe_key: Option<String>,
}

impl App {
    /// Queues a resume of a workflow, for the backends of its application. Answers it and whether
    /// it is new: a second one with the same dedupe key answers the first, whatever became of it,
    /// as long as it is kept. Allowed to the application's machine users and to maintainers.
    ///
    /// # Errors
    /// `NOT_FOUND` for a workflow or a LINE OA that the caller may not see; `FORBIDDEN`; `INVALID`
    /// on a field; `CONFLICT` on `dedupeKey` when it was given to a resume of another workflow, at
    /// another node or for another user.
    pub async fn schedule_resume(
        &self,
        caller: &Caller,
        new: ScheduleResume,
    ) -> Result<(ScheduledAction, bool)> {
        let now = self.now();
        let scope = caller.actor.scope();
        let tx = self.store.begin().await?;
        let workflow = workflow::find_held(&tx, scope, new.workflow_id, Hold::Change).await?;
        let application = application::find(&*tx, scope, workflow.application_id).await?;
        self.may_keep_backends(&*tx, &caller.actor, &application).await?;
        if let Some(id) = new.line_oa_id {
            let line_oa = line::find(&*tx, scope, id).await?;
            if line_oa.organization_id != workflow.organization_id {
                return Err(Error::NotFound { what: LineOaId::WHAT });
            }
        }
        let dedupe = new.dedupe_key.as_deref().map(|key| dedupe(&workflow, key)).transpose()?;
        let action = self.resume(&workflow, new, now)?;
        let queued = scheduled_action::insert(&*tx, &[(action.clone(), dedupe.clone())]).await?;
        if queued.is_empty() {
            let first = scheduled_action::by_dedupe(&*tx, &dedupe.unwrap_or_default()).await?;
            // Gone in this moment, its retention being over.
            let first = first.ok_or(Error::Busy)?;
            asks_for_the_same(&first, &action)?;
            return Ok((first, false));
        }
        let created = created(&application, &action);
        tx.commit(caller, now, &[created]).await?;
        self.wake.hint();
        Ok((action, true))
    }

    /// Work that is for the backends of an application, in the caller's scope.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn application_action(
        &self,
        actor: &Actor,
        id: ScheduledActionId,
    ) -> Result<ScheduledAction> {
        of_application(scheduled_action::find(self.store.read(), actor.scope(), id).await?)
    }

    /// Takes back work that is for the backends of an application, with its copies for several
    /// backends. An attempt under way is not stopped, but what comes of it changes nothing. Answers it
    /// and how many pieces were taken back: none when a person or a machine user had done so before,
    /// as whoever lost that answer asks again. Allowed to the application's machine users and to
    /// maintainers.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `CONFLICT` on `id` when all of it has ended, and none of it so.
    pub async fn cancel_application_action(
        &self,
        caller: &Caller,
        id: ScheduledActionId,
    ) -> Result<(ScheduledAction, u32)> {
        let now = self.now();
        let scope = caller.actor.scope();
        let tx = self.store.begin().await?;
        let before = of_application(scheduled_action::find(&*tx, scope, id).await?)?;
        let application_id = before
            .concern
            .application_id
            .ok_or(Error::NotFound { what: ScheduledActionId::WHAT })?;
        let application = application::find(&*tx, scope, application_id).await?;
        self.may_keep_backends(&*tx, &caller.actor, &application).await?;
        let cancelled = scheduled_action::cancel_with_copies(&*tx, id, CANCELLED, now).await?;
        // As it is now: it may have ended since it was found.
        let after = scheduled_action::find(&*tx, scope, id).await?;
        if cancelled == 0 {
            taken_back_before(&tx, &after).await?;
            return Ok((after, 0));
        }
        let taken = taken_back(application.project_id, (&before, &after), cancelled);
        tx.commit(caller, now, &[taken]).await?;
        let outcome = ActionStatus::Cancelled.as_str();
        self.metrics.actions_ended(&after.action_type, outcome, cancelled.into());
        Ok((after, cancelled))
    }

    fn resume(
        &self,
        workflow: &Workflow,
        new: ScheduleResume,
        now: DateTime<Utc>,
    ) -> Result<ScheduledAction> {
        text("nodePath", &new.node_path, NODE_PATH_MAX)?;
        let user_id = new.user_id.map(|id| user_id("userId", &id)).transpose()?;
        let execute_at = due(new.execute_at, new.delay, now)?;
        let payload = checked_payload("payload", new.payload)?;
        let budget = self.retry_policy().max_age;
        let lasts = match new.expires_after {
            Some(text) => expiry(text)?.min(budget),
            None => budget,
        };
        Ok(ScheduledAction {
            id: ScheduledActionId::new(),
            parent_id: None,
            action_type: ACTION_TYPE.to_owned(),
            config: ActionConfig::Rendered(ResumeWorkflow::rendered(execute_at, &payload)),
            cause: Cause {
                source_type: Some(SOURCE_TYPE.to_owned()),
                workflow_id: Some(workflow.id),
                workflow_node_path: Some(new.node_path),
                ..Cause::default()
            },
            concern: Concern {
                organization_id: Some(workflow.organization_id),
                line_oa_id: new.line_oa_id,
                user_id,
                application_id: Some(workflow.application_id),
                backend_id: None,
            },
            lane: workflow.application_id.0,
            status: ActionStatus::Pending,
            retry_count: 0,
            attempts_before: 0,
            execute_at,
            expires_at: execute_at.checked_add_signed(lasts),
            executed_at: None,
            last_error: None,
            created_at: now,
            updated_at: now,
        })
    }
}

/// A delivery to an application; whatever else is in the queue is not found here.
fn of_application(action: ScheduledAction) -> Result<ScheduledAction> {
    match action.concern.application_id {
        Some(_) => Ok(action),
        None => Err(Error::NotFound { what: ScheduledActionId::WHAT }),
    }
}

/// Whether work of which nothing is left to be taken back, or a copy of it, was taken back by request.
async fn taken_back_before(tx: &Tx, action: &ScheduledAction) -> Result<()> {
    let copies = scheduled_action::copies(&**tx, Scope::Everything, &[action.id]).await?;
    let by_request = |action: &ScheduledAction| {
        action.status == ActionStatus::Cancelled && action.last_error.as_deref() == Some(CANCELLED)
    };
    if by_request(action) || copies.iter().any(by_request) {
        return Ok(());
    }
    let reason = format!("it has ended already: it is {}", action.status.as_str());
    Err(Error::conflict("id", reason))
}

/// Whether two requests with one key ask for the same, as far as that can be told: a `delay` has
/// another end each time, and a payload may come back from the database in another spelling.
fn asks_for_the_same(first: &ScheduledAction, second: &ScheduledAction) -> Result<()> {
    let parts = [
        ("workflowId", first.cause.workflow_id == second.cause.workflow_id),
        ("nodePath", first.cause.workflow_node_path == second.cause.workflow_node_path),
        ("userId", first.concern.user_id == second.concern.user_id),
    ];
    let others: Vec<_> = parts.iter().filter(|(_, same)| !same).map(|(part, _)| *part).collect();
    if others.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "dedupeKey was given to work with another {} before; give each piece of work a key of its own",
        others.join(" and another ")
    );
    Err(Error::conflict("dedupeKey", reason))
}

/// A key is the application's own: no other one meets it.
fn dedupe(workflow: &Workflow, key: &str) -> Result<String> {
    text("dedupeKey", key, DEDUPE_KEY_MAX)?;
    Ok(format!("workflow:{}:{key}", workflow.application_id))
}

fn due(
    execute_at: Option<String>,
    delay: Option<String>,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>> {
    match (execute_at, delay) {
        (Some(_), Some(_)) => {
            let reason = "delay must be left out where there is executeAt: give one of the two";
            Err(Error::invalid("delay", reason))
        }
        (None, None) => Ok(now),
        (None, Some(delay)) => Ok(now + span("delay", delay)?.duration()),
        (Some(at), None) => {
            let at = instant("executeAt", &at)?;
            if at > now + Duration::seconds(MAX_SECONDS) {
                let reason = "executeAt must not lie more than 366 days in the future";
                return Err(Error::invalid("executeAt", reason));
            }
            Ok(at.max(now))
        }
    }
}

fn expiry(text: String) -> Result<Duration> {
    let after = span("expiresAfter", text)?;
    if after.seconds() == 0 {
        return Err(Error::invalid("expiresAfter", "expiresAfter must be at least 1s"));
    }
    Ok(after.duration())
}

fn span(field: &'static str, text: String) -> Result<Span> {
    Span::try_from(text).map_err(|reason| Error::invalid(field, format!("{field} {reason}")))
}

/// Work as an audit row shows it: without the payload, which is the application's own affair.
fn shown(action: &ScheduledAction) -> Value {
    json!({
        "actionType": action.action_type,
        "workflowId": action.cause.workflow_id,
        "nodePath": action.cause.workflow_node_path,
        "userId": action.concern.user_id,
        "lineOaId": action.concern.line_oa_id,
        "status": action.status.as_str(),
        "executeAt": action.execute_at,
        "expiresAt": action.expires_at,
    })
}

fn created(application: &Application, action: &ScheduledAction) -> Change {
    Change {
        action: "scheduled_action.create",
        entity_type: "scheduled_action",
        entity_id: action.id.0,
        project_id: Some(application.project_id),
        application_id: Some(application.id),
        before: None,
        after: Some(shown(action)),
    }
}
