//! Trigger rules. As of LINE OAs, a machine finds none.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, FromQueryResult,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use uuid::Uuid;

use super::dialect::{self, hex, time};
use super::entity::line_oa;
use super::entity::trigger_rule::{ActiveModel, Column, Entity, Model};
use super::paging::{By, page};
use super::wanted::Wanted;
use super::{Hold, Tx, scope};
use crate::domain::access::Scope;
use crate::domain::id::{LineOaId, TriggerRuleId, WorkflowId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::rule::{Frequency, TriggerRule};
use crate::error::{Error, Result};

impl From<Model> for TriggerRule {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            organization_id: row.organization_id.into(),
            line_oa_id: row.line_oa_id.into(),
            name: row.name,
            description: row.description,
            source_type: row.source_type,
            source_config: row.source_config,
            source_key: row.source_key,
            action_type: row.action_type,
            action_config: row.action_config,
            enabled: row.enabled,
            frequency: Frequency::from_name(&row.frequency).unwrap_or_default(),
            cooldown_seconds: row.cooldown_seconds,
            workflow_id: row.workflow_id.map(Into::into),
            workflow_node_path: row.workflow_node_path,
            evaluated_at: row.evaluated_at,
            next_fire_at: row.next_fire_at,
            version: row.version,
            created_date: row.created_date,
            updated_date: row.updated_date,
            deleted_date: row.deleted_date,
        }
    }
}

fn row(rule: &TriggerRule) -> ActiveModel {
    Model {
        id: rule.id.0,
        organization_id: rule.organization_id.0,
        line_oa_id: rule.line_oa_id.0,
        name: rule.name.clone(),
        description: rule.description.clone(),
        source_type: rule.source_type.clone(),
        source_config: rule.source_config.clone(),
        source_key: rule.source_key.clone(),
        action_type: rule.action_type.clone(),
        action_config: rule.action_config.clone(),
        enabled: rule.enabled,
        frequency: rule.frequency.as_str().to_owned(),
        cooldown_seconds: rule.cooldown_seconds,
        workflow_id: rule.workflow_id.map(Into::into),
        workflow_node_path: rule.workflow_node_path.clone(),
        evaluated_at: rule.evaluated_at,
        next_fire_at: rule.next_fire_at,
        version: rule.version,
        created_date: rule.created_date,
        updated_date: rule.updated_date,
        deleted_date: rule.deleted_date,
    }
    .into_active_model()
    .reset_all()
}

/// Writes a new rule.
pub async fn insert(db: &impl ConnectionTrait, new: &TriggerRule) -> Result<()> {
    Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a rule's row anew.
pub async fn update(db: &impl ConnectionTrait, changed: &TriggerRule) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

/// Counts a change of the LINE OA's rules and answers the new count. The LINE OA's row stays held
/// until the transaction ends, so that counts become visible in their order: whoever has seen
/// count n has seen every change up to it.
pub async fn next_version(tx: &Tx, line_oa: LineOaId) -> Result<i64> {
    hold_rules(tx, &[line_oa]).await?;
    let next = Expr::col(line_oa::Column::RulesVersion).add(1);
    let counted = line_oa::Entity::update_many()
        .col_expr(line_oa::Column::RulesVersion, next)
        .filter(line_oa::Column::Id.eq(line_oa.0))
        .exec(&**tx)
        .await?;
    if counted.rows_affected == 0 {
        return Err(Error::NotFound { what: LineOaId::WHAT });
    }
    let versions = read_versions(tx, &[line_oa]).await?;
    versions.first().map(|(_, version)| *version).ok_or(Error::NotFound { what: LineOaId::WHAT })
}

/// How often the rules of each LINE OA have changed. No rule of theirs changes until the transaction
/// ends: what it queues is there when a disable or delete looks for work to cancel.
pub async fn versions(tx: &Tx, line_oas: &[LineOaId]) -> Result<Vec<(LineOaId, i64)>> {
    tx.hold_names(&dialect::SHARE_NAMES, &names(line_oas)).await?;
    read_versions(tx, line_oas).await
}

/// Holds the rules of LINE OAs until the transaction ends, for whoever changes them or deletes a LINE
/// OA. Who comes first is served first: a change does not wait for a gap between those who read.
pub async fn hold_rules(tx: &Tx, line_oas: &[LineOaId]) -> Result<()> {
    tx.hold_names(&dialect::HOLD_NAMES, &names(line_oas)).await
}

fn names(line_oas: &[LineOaId]) -> Vec<String> {
    line_oas.iter().map(|id| format!("rules/{id}")).collect()
}

async fn read_versions(tx: &Tx, line_oas: &[LineOaId]) -> Result<Vec<(LineOaId, i64)>> {
    let rows = line_oa::Entity::find()
        .filter(line_oa::Column::Id.is_in(line_oas.iter().map(|id| id.0)))
        .select_only()
        .columns([line_oa::Column::Id, line_oa::Column::RulesVersion])
        .into_tuple::<(Uuid, i64)>()
        .all(&**tx)
        .await?;
    Ok(rows.into_iter().map(|(id, version)| (id.into(), version)).collect())
}

/// The rules of a LINE OA that changed after its count was `version`, deleted ones too. From
/// version 0 on: only those that are enabled and not deleted.
pub async fn changed_since(
    db: &impl ConnectionTrait,
    line_oa: LineOaId,
    version: i64,
) -> Result<Vec<TriggerRule>> {
    let mut select = Entity::find().filter(Column::LineOaId.eq(line_oa.0));
    select = match version {
        0 => select.filter(Column::Enabled.eq(true)).filter(Column::DeletedDate.is_null()),
        _ => select.filter(Column::Version.gt(version)),
    };
    let rows = select.order_by_asc(Column::Id).all(db).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The rule of that id in `scope`, unless it was deleted.
pub async fn find(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: TriggerRuleId,
) -> Result<TriggerRule> {
    let row = Entity::find_by_id(id.0)
        .filter(Column::DeletedDate.is_null())
        .filter(scope::of_people(scope, Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TriggerRuleId::WHAT })
}

/// [`find`], held until the transaction ends.
pub async fn find_held(tx: &Tx, scope: Scope, id: TriggerRuleId) -> Result<TriggerRule> {
    let select = Entity::find_by_id(id.0)
        .filter(Column::DeletedDate.is_null())
        .filter(scope::of_people(scope, Column::OrganizationId));
    let row = tx.holding(select, Hold::Change).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TriggerRuleId::WHAT })
}

/// The rules of these ids in `scope`, deleted ones too: history names them.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[TriggerRuleId],
) -> Result<Vec<TriggerRule>> {
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::of_people(scope, Column::OrganizationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which rules are wanted. Empty: all that the scope lets see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: Option<LineOaId>,
    /// Enabled ones, or the others.
    pub enabled: Option<bool>,
    /// With this source type.
    pub source_type: Option<String>,
    /// With this action type.
    pub action_type: Option<String>,
    /// Part of this workflow.
    pub workflow_id: Option<WorkflowId>,
    /// With this text in the name, whatever its case.
    pub name_contains: Option<String>,
}

/// How a list of rules is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By the time of creation.
    #[default]
    CreatedDate,
    /// By name.
    Name,
    /// By the time of the last change.
    UpdatedDate,
}

/// The rules in `scope` that `filter` asks for, deleted ones left out.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    sort: (Sort, Direction),
    request: &PageRequest,
) -> Result<Page<TriggerRule>> {
    let visible = scope::of_people(scope, Column::OrganizationId);
    let wanted = Wanted::among(visible.add(Column::DeletedDate.is_null()))
        .eq(Column::LineOaId, filter.line_oa_id.map(|id| id.0))
        .eq(Column::Enabled, filter.enabled)
        .eq(Column::WorkflowId, filter.workflow_id.map(|id| id.0))
        .eq(Column::SourceType, filter.source_type.as_deref())
        .eq(Column::ActionType, filter.action_type.as_deref())
        .contains(Column::Name, filter.name_contains.as_ref());
    let select = Entity::find().filter(wanted);
    let column = match sort.0 {
        Sort::CreatedDate => Column::Id,
        Sort::Name => Column::Name,
        Sort::UpdatedDate => Column::UpdatedDate,
    };
    page(db, select, By { column, id: Column::Id, direction: sort.1 }, request).await
}

/// The time-based rules that will be due at some time.
pub async fn scheduled(db: &impl ConnectionTrait) -> Result<Vec<TriggerRule>> {
    let rows = Entity::find().filter(Column::NextFireAt.is_not_null()).all(db).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The time-based rules that are due at `now`, earliest first, held until the transaction ends.
pub async fn due(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<TriggerRule>> {
    let values = vec![now.into(), dialect::limit(limit)];
    let rows = dialect::DUE_RULES.rows::<Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// How far a time-based rule has been evaluated, and when it is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleWindow {
    /// The rule.
    pub rule_id: TriggerRuleId,
    /// The end of what was evaluated.
    pub evaluated_at: DateTime<Utc>,
    /// The next due time.
    pub next_fire_at: Option<DateTime<Utc>>,
}

/// Moves the windows of time-based rules.
pub async fn move_windows(db: &impl ConnectionTrait, windows: &[RuleWindow]) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        evaluated_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_fire_at: Option<String>,
    }
    let rows: Vec<_> = windows
        .iter()
        .map(|window| Row {
            id: hex(window.rule_id.0),
            evaluated_at: time(window.evaluated_at),
            next_fire_at: window.next_fire_at.map(time),
        })
        .collect();
    dialect::MOVE_RULES.run(db, vec![dialect::rows(&rows)?]).await?;
    Ok(())
}

/// Whether one rule may fire for one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The rule.
    pub rule_id: TriggerRuleId,
    /// LINE's id of the user; empty: the rule's events have none.
    pub user_id: String,
    /// The pause after an accepted firing, in milliseconds; none: for ever.
    pub pause_ms: Option<i64>,
    /// Of the event or cycle that asks.
    pub by: Uuid,
}

/// What rate control knows of a rule and a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Whether the one that asked may fire.
    pub taken: bool,
    /// When the last firing was accepted, with this one.
    pub last_fired_at: Option<DateTime<Utc>>,
}

/// For ever, in milliseconds: so long that no sum of it and a time overflows.
const FOR_EVER: i64 = i64::MAX / 4;

/// Asks for the right to fire, and takes it where it is given, in one statement: however many
/// executors ask at once, the pause holds. Each pair of rule and user may stand in `asks` once.
/// Answers by rule and user.
pub async fn take(
    db: &impl ConnectionTrait,
    asks: &[Ask],
    now: DateTime<Utc>,
) -> Result<Vec<(TriggerRuleId, String, Taken)>> {
    #[derive(Serialize)]
    struct Row<'a> {
        trigger_rule_id: String,
        user_id: &'a str,
        pause_ms: i64,
        taken_by: String,
    }
    #[derive(FromQueryResult)]
    struct Answer {
        trigger_rule_id: Uuid,
        user_id: String,
        last_fired_ms: Option<i64>,
        taken_by: Option<Uuid>,
    }
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<_> = asks
        .iter()
        .map(|ask| Row {
            trigger_rule_id: hex(ask.rule_id.0),
            user_id: &ask.user_id,
            pause_ms: ask.pause_ms.unwrap_or(FOR_EVER),
            taken_by: hex(ask.by),
        })
        .collect();
    let values = vec![dialect::rows(&rows)?, now.timestamp_millis().into()];
    let answers = dialect::TAKE_RATE.rows::<Answer>(db, values).await?;
    let by: std::collections::HashMap<_, _> =
        asks.iter().map(|ask| ((ask.rule_id.0, ask.user_id.as_str()), ask.by)).collect();
    let taken = answers.iter().map(|row| {
        let asked = by.get(&(row.trigger_rule_id, row.user_id.as_str())).copied();
        let taken = Taken {
            taken: asked.is_some() && row.taken_by == asked,
            last_fired_at: row.last_fired_ms.and_then(DateTime::from_timestamp_millis),
        };
        (row.trigger_rule_id.into(), row.user_id.clone(), taken)
    });
    Ok(taken.collect())
}

/// When a rule last fired for a user (empty: for none), as rate control remembers it.
pub async fn last_fired(
    db: &impl ConnectionTrait,
    rule: TriggerRuleId,
    user_id: &str,
) -> Result<Option<DateTime<Utc>>> {
    use super::entity::rule_user_state;
    let row = rule_user_state::Entity::find_by_id((rule.0, user_id.to_owned())).one(db).await?;
    Ok(row.and_then(|row| row.last_fired_ms).and_then(DateTime::from_timestamp_millis))
}
