//! The queue beside the deliveries of triggers: what rules and workflow services have queued, as
//! people read and change it.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::delivery::IdRow;
use super::dialect::{self, hex, time};
use super::entity::scheduled_action::{Column, Entity, Model};
use super::paging::{By, page};
use super::scope;
use super::wanted::Wanted;
use crate::domain::access::Scope;
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{
    ApplicationId, BackendId, EventId, LineOaId, OccurrenceId, ScheduledActionId, TriggerRuleId,
    WorkflowId,
};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::scheduled_action::{ActionConfig, Cause, Concern, ScheduledAction};
use crate::error::{Error, Result};

/// Reads the column `action_config`: of a trigger's delivery the callback's body.
pub(super) fn config(trigger_id: Option<Uuid>, stored: Value) -> ActionConfig {
    match trigger_id {
        Some(trigger) => ActionConfig::Callback(super::trigger::payload(trigger.into(), stored)),
        None => ActionConfig::Rendered(stored),
    }
}

impl From<Model> for ScheduledAction {
    fn from(row: Model) -> Self {
        let config = config(row.trigger_id, row.action_config);
        Self {
            id: row.id.into(),
            parent_id: row.parent_id.map(Into::into),
            action_type: row.action_type,
            config,
            cause: Cause {
                trigger_rule_id: row.trigger_rule_id.map(Into::into),
                source_type: row.source_type,
                source_config: row.source_config,
                event_id: row.event_id.map(Into::into),
                subject: row.subject,
                trigger_id: row.trigger_id.map(Into::into),
                occurrence_id: row.trigger_occurrence_id.map(Into::into),
                workflow_id: row.workflow_id.map(Into::into),
                workflow_node_path: row.workflow_node_path,
            },
            concern: Concern {
                organization_id: row.organization_id.map(Into::into),
                line_oa_id: row.line_oa_id.map(Into::into),
                user_id: row.user_id,
                application_id: row.application_id.map(Into::into),
                backend_id: row.backend_id.map(Into::into),
            },
            lane: row.lane,
            status: ActionStatus::from_name(&row.status).unwrap_or(ActionStatus::Pending),
            retry_count: row.retry_count,
            attempts_before: row.attempts_before,
            execute_at: row.execute_at,
            expires_at: row.expires_at,
            executed_at: row.executed_at,
            last_error: row.last_error,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Work to be queued, and what makes it the same as other work: with a `dedupe` that is in the
/// queue already, whatever became of it, it is left out.
pub type New = (ScheduledAction, Option<String>);

/// Queues work as pending. Answers the ids of what was queued.
pub async fn insert(db: &impl ConnectionTrait, new: &[New]) -> Result<HashSet<ScheduledActionId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        parent_id: Option<String>,
        trigger_rule_id: Option<String>,
        user_id: Option<&'a str>,
        action_type: &'a str,
        action_config: &'a Value,
        source_type: Option<&'a str>,
        source_config: Option<&'a Value>,
        execute_at: String,
        expires_at: Option<String>,
        workflow_id: Option<String>,
        workflow_node_path: Option<&'a str>,
        application_id: Option<String>,
        organization_id: Option<String>,
        line_oa_id: Option<String>,
        lane: String,
        dedupe: Option<&'a str>,
        event_id: Option<String>,
        subject: Option<&'a str>,
        created_at: String,
    }
    let id = |id: Option<Uuid>| id.map(hex);
    let mut rows = Vec::with_capacity(new.len());
    for (new, dedupe) in new {
        let ActionConfig::Rendered(config) = &new.config else {
            return Err(Error::internal("deliveries of triggers are queued with their occurrence"));
        };
        rows.push(Row {
            id: hex(new.id.0),
            parent_id: id(new.parent_id.map(|id| id.0)),
            trigger_rule_id: id(new.cause.trigger_rule_id.map(|id| id.0)),
            user_id: new.concern.user_id.as_deref(),
            action_type: &new.action_type,
            action_config: config,
            source_type: new.cause.source_type.as_deref(),
            source_config: new.cause.source_config.as_ref(),
            execute_at: time(new.execute_at),
            expires_at: new.expires_at.map(time),
            workflow_id: id(new.cause.workflow_id.map(|id| id.0)),
            workflow_node_path: new.cause.workflow_node_path.as_deref(),
            application_id: id(new.concern.application_id.map(|id| id.0)),
            organization_id: id(new.concern.organization_id.map(|id| id.0)),
            line_oa_id: id(new.concern.line_oa_id.map(|id| id.0)),
            lane: hex(new.lane),
            dedupe: dedupe.as_deref(),
            event_id: id(new.cause.event_id.map(|id| id.0)),
            subject: new.cause.subject.as_deref(),
            created_at: time(new.created_at),
        });
    }
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let queued = dialect::INSERT_ACTIONS.rows::<IdRow>(db, vec![dialect::rows(&rows)?]).await?;
    Ok(queued.into_iter().map(|row| row.id.into()).collect())
}

/// Sends calls on their way: each to the first of its backends, and a copy to each of the others.
/// A call without backends stays as it is.
pub async fn address(
    db: &impl ConnectionTrait,
    calls: &[(ScheduledActionId, Vec<BackendId>)],
    now: DateTime<Utc>,
) -> Result<()> {
    #[derive(Serialize)]
    struct First {
        id: String,
        backend_id: String,
    }
    #[derive(Serialize)]
    struct Copy {
        id: String,
        parent_id: String,
        backend_id: String,
    }
    let (mut firsts, mut copies) = (Vec::new(), Vec::new());
    for (call, backends) in calls {
        let Some((first, others)) = backends.split_first() else { continue };
        firsts.push(First { id: hex(call.0), backend_id: hex(first.0) });
        copies.extend(others.iter().map(|backend| Copy {
            id: hex(ScheduledActionId::new().0),
            parent_id: hex(call.0),
            backend_id: hex(backend.0),
        }));
    }
    if !copies.is_empty() {
        dialect::COPY_ACTIONS.run(db, vec![dialect::rows(&copies)?, now.into()]).await?;
    }
    if !firsts.is_empty() {
        dialect::ADDRESS_ACTIONS.run(db, vec![dialect::rows(&firsts)?, now.into()]).await?;
    }
    Ok(())
}

/// Which work is wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// Queued by this rule.
    pub trigger_rule_id: Option<TriggerRuleId>,
    /// Answering this event.
    pub event_id: Option<EventId>,
    /// For this user.
    pub user_id: Option<String>,
    /// That resumes this workflow, or that is part of it.
    pub workflow_id: Option<WorkflowId>,
    /// For this application's backends.
    pub application_id: Option<ApplicationId>,
    /// Of this action type.
    pub action_type: Option<String>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<ActionStatus>,
    /// Made at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Made before this time.
    pub until: Option<DateTime<Utc>>,
    /// Ended at this time or later.
    pub finished_since: Option<DateTime<Utc>>,
    /// Ended before this time.
    pub finished_until: Option<DateTime<Utc>>,
}

/// What is in `scope` and is no delivery of a trigger. A machine sees what is for its
/// application's backends.
fn visible(scope: Scope) -> Condition {
    let visible = match scope {
        Scope::Application(_) => scope::application(scope, Column::ApplicationId),
        _ => scope::project(scope, Column::OrganizationId),
    };
    Condition::all().add(Column::TriggerId.is_null()).add(visible)
}

/// The work in `scope` that `filter` asks for, by creation.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<ScheduledAction>> {
    let wanted = Wanted::among(visible(scope))
        .eq(Column::LineOaId, filter.line_oa_id.map(|id| id.0))
        .eq(Column::TriggerRuleId, filter.trigger_rule_id.map(|id| id.0))
        .eq(Column::EventId, filter.event_id.map(|id| id.0))
        .eq(Column::WorkflowId, filter.workflow_id.map(|id| id.0))
        .eq(Column::ApplicationId, filter.application_id.map(|id| id.0))
        .eq(Column::UserId, filter.user_id.as_deref())
        .eq(Column::ActionType, filter.action_type.as_deref())
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::CreatedAt, filter.since, filter.until)
        .between(Column::ExecutedAt, filter.finished_since, filter.finished_until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::Id, id: Column::Id, direction }, request).await
}

/// The work of that id in `scope`; the delivery of a trigger is not found.
pub async fn find(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: ScheduledActionId,
) -> Result<ScheduledAction> {
    let row = Entity::find_by_id(id.0).filter(visible(scope)).one(db).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ScheduledActionId::WHAT })
}

/// The work of these ids in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[ScheduledActionId],
) -> Result<Vec<ScheduledAction>> {
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(visible(scope))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The copies of these calls in `scope`, oldest first: one for each backend but the first.
pub async fn copies(
    db: &impl ConnectionTrait,
    scope: Scope,
    of: &[ScheduledActionId],
) -> Result<Vec<ScheduledAction>> {
    let rows = Entity::find()
        .filter(Column::ParentId.is_in(of.iter().map(|id| id.0)))
        .filter(visible(scope))
        .order_by_asc(Column::Id)
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The work that has this `dedupe`.
pub async fn by_dedupe(db: &impl ConnectionTrait, dedupe: &str) -> Result<Option<ScheduledAction>> {
    let row = Entity::find().filter(Column::Dedupe.eq(dedupe)).one(db).await?;
    Ok(row.map(Into::into))
}

/// Cancels one piece of work that waits or is being worked on. `false`, and nothing changes, when
/// it has ended.
pub async fn cancel(
    db: &impl ConnectionTrait,
    id: ScheduledActionId,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<bool> {
    let values = vec![id.0.into(), reason.into(), now.into()];
    Ok(dialect::CANCEL_ACTION.run(db, values).await? == 1)
}

/// [`cancel`] for work and its copies for other backends. Answers how many pieces it cancelled.
pub async fn cancel_with_copies(
    db: &impl ConnectionTrait,
    id: ScheduledActionId,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<u32> {
    let mut cancelled = u32::from(cancel(db, id, reason, now).await?);
    for copy in copies(db, Scope::Everything, &[id]).await? {
        cancelled += u32::from(cancel(db, copy.id, reason, now).await?);
    }
    Ok(cancelled)
}

/// Makes ended work due again, with a fresh budget until `expires_at`. What had not ended as
/// failed, expired or cancelled stays as it is. Answers the occurrence, if it has one, of each that
/// was made due.
pub async fn requeue(
    db: &impl ConnectionTrait,
    work: &[ScheduledActionId],
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<Vec<Option<OccurrenceId>>> {
    #[derive(FromQueryResult)]
    struct Row {
        id: Option<Uuid>,
    }
    let values = vec![dialect::ids(work.iter().copied()), now.into(), expires_at.into()];
    let requeued = dialect::REQUEUE_ACTIONS.rows::<Row>(db, values).await?;
    Ok(requeued.into_iter().map(|row| row.id.map(Into::into)).collect())
}

/// Makes these pieces of work due at `now` that wait for something that is there by now.
pub async fn wake(
    db: &impl ConnectionTrait,
    work: &[ScheduledActionId],
    now: DateTime<Utc>,
) -> Result<()> {
    if work.is_empty() {
        return Ok(());
    }
    dialect::WAKE_ACTIONS.run(db, vec![dialect::ids(work.iter().copied()), now.into()]).await?;
    Ok(())
}
