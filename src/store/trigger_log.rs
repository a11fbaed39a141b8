//! The trigger log of rules, as people read it.

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter};

use super::entity::trigger_log::{Column, Entity, Model};
use super::paging::{By, page};
use super::scope;
use super::wanted::Wanted;
use crate::domain::access::Scope;
use crate::domain::id::{EventId, LineOaId, ScheduledActionId, TriggerRuleId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::trigger_log::{LogStatus, TriggerLog};
use crate::error::Result;

impl From<Model> for TriggerLog {
    fn from(row: Model) -> Self {
        Self {
            id: row.id,
            trigger_rule_id: row.trigger_rule_id.map(Into::into),
            line_oa_id: row.line_oa_id.map(Into::into),
            organization_id: row.organization_id.map(Into::into),
            audience_id: row.audience_id.map(Into::into),
            user_id: row.user_id,
            trigger_on: row.trigger_on,
            action_type: row.action_type,
            action_config: row.action_config,
            status: LogStatus::from_name(&row.status).unwrap_or(LogStatus::Error),
            reason: row.reason,
            error_message: row.error_message,
            held_until: row.held_until,
            event_id: row.event_id.map(Into::into),
            scheduled_action_id: row.scheduled_action_id.map(Into::into),
            application_id: row.application_id.map(Into::into),
            backend_id: row.backend_id.map(Into::into),
            attempt: row.attempt,
            response_status: row.response_status,
            duration_ms: row.duration_ms,
            platform_request_id: row.platform_request_id,
            created_date: row.created_date,
        }
    }
}

/// Which rows are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// Of this rule.
    pub trigger_rule_id: Option<TriggerRuleId>,
    /// About this user.
    pub user_id: Option<String>,
    /// About this event, or of the walk of this cycle.
    pub event_id: Option<EventId>,
    /// About this work.
    pub scheduled_action_id: Option<ScheduledActionId>,
    /// Saying one of these; empty: any.
    pub statuses: Vec<LogStatus>,
    /// With this reason.
    pub reason: Option<String>,
    /// Written at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Written before this time.
    pub until: Option<DateTime<Utc>>,
}

/// What is in `scope` and about no trigger. A machine sees what was for its application's
/// backends.
fn visible(scope: Scope) -> Condition {
    let visible = match scope {
        Scope::Application(_) => scope::application(scope, Column::ApplicationId),
        _ => scope::project(scope, Column::OrganizationId),
    };
    Condition::all()
        .add(Column::OrganizationId.is_not_null())
        .add(Column::TriggerId.is_null())
        .add(visible)
}

/// The rows in `scope` that `filter` asks for, in the order of writing.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    direction: Direction,
    request: &PageRequest,
) -> Result<Page<TriggerLog>> {
    let wanted = Wanted::among(visible(scope))
        .eq(Column::LineOaId, filter.line_oa_id.map(|id| id.0))
        .eq(Column::TriggerRuleId, filter.trigger_rule_id.map(|id| id.0))
        .eq(Column::EventId, filter.event_id.map(|id| id.0))
        .eq(Column::ScheduledActionId, filter.scheduled_action_id.map(|id| id.0))
        .eq(Column::UserId, filter.user_id.as_deref())
        .eq(Column::Reason, filter.reason.as_deref())
        .one_of(Column::Status, filter.statuses.iter().map(|status| status.as_str()))
        .between(Column::CreatedDate, filter.since, filter.until);
    let select = Entity::find().filter(wanted);
    page(db, select, By { column: Column::Id, id: Column::Id, direction }, request).await
}

/// The rows of these numbers in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[i64],
) -> Result<Vec<TriggerLog>> {
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().copied()))
        .filter(visible(scope))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}
