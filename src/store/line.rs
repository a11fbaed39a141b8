//! LINE Official Accounts and the users that they know.
//!
//! An account's credentials come in and go out encrypted; what opens them is not here.

mod user;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};

use super::entity::{
    audience, line_oa, line_user, rule_user_state, scheduled_trigger_execution, trigger_rule,
};
use super::paging::{By, page};
use super::{Hold, Tx, dialect, scope};
use crate::domain::access::Scope;
use crate::domain::id::{LineOaId, ProjectId};
use crate::domain::line::LineOa;
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

pub use user::*;

impl From<line_oa::Model> for LineOa {
    fn from(row: line_oa::Model) -> Self {
        Self {
            id: row.id.into(),
            organization_id: row.organization_id.into(),
            name: row.name,
            channel_id: row.channel_id,
            paused_until: row.paused_until,
            paused_reason: row.paused_reason,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// An account's credentials, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSecrets {
    /// Checks the signatures of webhooks.
    pub channel_secret: String,
    /// Authorizes calls of the platform.
    pub channel_access_token: String,
}

/// Encrypted credentials that take the place of those that there are; what is none stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewLineSecrets {
    /// A new channel secret.
    pub channel_secret: Option<String>,
    /// A new access token.
    pub channel_access_token: Option<String>,
}

/// Writes a new LINE OA. `CONFLICT` when the channel is in use, in whichever project.
pub async fn insert(db: &impl ConnectionTrait, new: &LineOa, secrets: &LineSecrets) -> Result<()> {
    let row = line_oa::Model {
        id: new.id.0,
        organization_id: new.organization_id.0,
        name: new.name.clone(),
        channel_id: new.channel_id.clone(),
        channel_secret: secrets.channel_secret.clone(),
        channel_access_token: secrets.channel_access_token.clone(),
        rules_version: 0,
        paused_until: new.paused_until,
        paused_reason: new.paused_reason.clone(),
        created_at: new.created_at,
        updated_at: new.updated_at,
    };
    line_oa::Entity::insert(row.into_active_model()).exec_without_returning(db).await?;
    Ok(())
}

/// Writes what people change of a LINE OA, and its pause. The version of its rules stays.
/// `CONFLICT` when the channel is in use.
pub async fn update(
    db: &impl ConnectionTrait,
    changed: &LineOa,
    secrets: NewLineSecrets,
) -> Result<()> {
    let mut row = line_oa::ActiveModel {
        id: Set(changed.id.0),
        name: Set(changed.name.clone()),
        channel_id: Set(changed.channel_id.clone()),
        paused_until: Set(changed.paused_until),
        paused_reason: Set(changed.paused_reason.clone()),
        updated_at: Set(changed.updated_at),
        ..Default::default()
    };
    if let Some(secret) = secrets.channel_secret {
        row.channel_secret = Set(secret);
    }
    if let Some(token) = secrets.channel_access_token {
        row.channel_access_token = Set(token);
    }
    row.update(db).await?;
    Ok(())
}

/// The LINE OA of that id whose project is in `scope`: machines, too, find those of their project,
/// for which they send events and work.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: LineOaId) -> Result<LineOa> {
    let row = line_oa::Entity::find_by_id(id.0)
        .filter(scope::project(scope, line_oa::Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: LineOaId::WHAT })
}

/// The LINE OA of that id in `scope`, for people: a machine finds none.
pub async fn shown(db: &impl ConnectionTrait, scope: Scope, id: LineOaId) -> Result<LineOa> {
    let row = line_oa::Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, line_oa::Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: LineOaId::WHAT })
}

/// The LINE OA of that id in `scope`, for people, held.
pub async fn find_held(tx: &Tx, scope: Scope, id: LineOaId, hold: Hold) -> Result<LineOa> {
    if hold == Hold::Delete {
        super::rule::hold_rules(tx, &[shown(&**tx, scope, id).await?.id]).await?;
    }
    let select = line_oa::Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, line_oa::Column::OrganizationId));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: LineOaId::WHAT })
}

/// All LINE OAs of a project, held to be deleted.
pub async fn hold_all_of(tx: &Tx, project: ProjectId) -> Result<Vec<LineOa>> {
    let select = line_oa::Entity::find()
        .filter(line_oa::Column::OrganizationId.eq(project.0))
        .order_by_asc(line_oa::Column::Id);
    let ids: Vec<_> = select.clone().all(&**tx).await?.iter().map(|row| row.id.into()).collect();
    super::rule::hold_rules(tx, &ids).await?;
    let rows = tx.holding(select, Hold::Delete).all(&**tx).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The LINE OAs of these ids in `scope`, for people, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[LineOaId],
) -> Result<Vec<LineOa>> {
    let rows = line_oa::Entity::find()
        .filter(line_oa::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::of_people(scope, line_oa::Column::OrganizationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The LINE OAs in `scope`, for people, of one project or of all, by name.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: Option<ProjectId>,
    request: &PageRequest,
) -> Result<Page<LineOa>> {
    use line_oa::{Column, Entity};
    let mut select = Entity::find().filter(scope::of_people(scope, Column::OrganizationId));
    if let Some(project) = project {
        select = select.filter(Column::OrganizationId.eq(project.0));
    }
    let by = By { column: Column::Name, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}

/// The LINE OAs of these ids with their credentials, whoever's they are, in no order.
pub async fn credentials(
    db: &impl ConnectionTrait,
    ids: &[LineOaId],
) -> Result<Vec<(LineOa, LineSecrets)>> {
    let rows = line_oa::Entity::find()
        .filter(line_oa::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .all(db)
        .await?;
    let pairs = rows.into_iter().map(|row| {
        let secrets = LineSecrets {
            channel_secret: row.channel_secret.clone(),
            channel_access_token: row.channel_access_token.clone(),
        };
        (row.into(), secrets)
    });
    Ok(pairs.collect())
}

/// The credentials of all, for whoever changes the key that they are encrypted with.
pub async fn all_secrets(db: &impl ConnectionTrait) -> Result<Vec<(LineOaId, LineSecrets)>> {
    let rows = line_oa::Entity::find().all(db).await?;
    let pairs = rows.into_iter().map(|row| {
        let (channel_secret, channel_access_token) = (row.channel_secret, row.channel_access_token);
        (row.id.into(), LineSecrets { channel_secret, channel_access_token })
    });
    Ok(pairs.collect())
}

/// Puts a LINE OA's credentials, encrypted anew, in the place of those that there are.
pub async fn reseal(db: &impl ConnectionTrait, id: LineOaId, secrets: LineSecrets) -> Result<()> {
    let row = line_oa::ActiveModel {
        channel_secret: Set(secrets.channel_secret),
        channel_access_token: Set(secrets.channel_access_token),
        ..Default::default()
    };
    let update = line_oa::Entity::update_many().set(row);
    update.filter(line_oa::Column::Id.eq(id.0)).exec(db).await?;
    Ok(())
}

/// How many LINE OAs are paused.
pub async fn count_paused(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<u64> {
    Ok(line_oa::Entity::find().filter(line_oa::Column::PausedUntil.gt(now)).count(db).await?)
}

/// Pauses a LINE OA until a time, unless it is paused for longer already, or a person changed it
/// after `began`, when the call that gives the reason began: maybe its credentials. Answers
/// whether it did.
pub async fn pause(
    db: &impl ConnectionTrait,
    id: LineOaId,
    until: DateTime<Utc>,
    reason: &str,
    began: DateTime<Utc>,
) -> Result<bool> {
    use line_oa::{Column, Entity};
    let shorter = Column::PausedUntil.is_null().or(Column::PausedUntil.lt(until));
    let paused = Entity::update_many()
        .col_expr(Column::PausedUntil, Expr::value(until))
        .col_expr(Column::PausedReason, Expr::value(reason))
        .filter(Column::Id.eq(id.0))
        .filter(Column::UpdatedAt.lte(began))
        .filter(shorter)
        .exec(db)
        .await?;
    Ok(paused.rows_affected == 1)
}

/// Makes what waits to be sent to the platform for a LINE OA due at `now`. Answers how much. To be
/// called by who holds the LINE OA; waits for nobody who works on the queue. Who puts work off
/// because the LINE OA is paused holds it too, and looks once more.
pub async fn wake(db: &impl ConnectionTrait, id: LineOaId, now: DateTime<Utc>) -> Result<u64> {
    dialect::WAKE_LANES.run(db, vec![dialect::ids([id.0]), now.into()]).await
}

/// How much belongs to a LINE OA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineContents {
    /// Users that it knows.
    pub users: u64,
    /// Audiences.
    pub audiences: u64,
    /// Trigger rules that are not deleted, enabled or not.
    pub trigger_rules: u64,
}

/// How much belongs to a LINE OA.
pub async fn contents(db: &impl ConnectionTrait, id: LineOaId) -> Result<LineContents> {
    let users = line_user::Entity::find().filter(line_user::Column::LineOaId.eq(id.0));
    let audiences = audience::Entity::find().filter(audience::Column::LineOaId.eq(id.0));
    let rules = trigger_rule::Entity::find()
        .filter(trigger_rule::Column::LineOaId.eq(id.0))
        .filter(trigger_rule::Column::DeletedDate.is_null());
    Ok(LineContents {
        users: users.count(db).await?,
        audiences: audiences.count(db).await?,
        trigger_rules: rules.count(db).await?,
    })
}

/// Deletes a LINE OA with its rules and what they remember, its cycles, events, users and
/// audiences. Its queued work is cancelled elsewhere, in the same transaction; the trigger log
/// keeps its rows until their time is up.
pub async fn delete(db: &impl ConnectionTrait, id: LineOaId) -> Result<()> {
    let rules = trigger_rule::Entity::find()
        .select_only()
        .column(trigger_rule::Column::Id)
        .filter(trigger_rule::Column::LineOaId.eq(id.0))
        .into_query();
    // Those that are being evaluated are left, and find no rules any more: whoever evaluates them
    // holds them and waits for the LINE OA, in this order.
    dialect::DELETE_EVENTS.run(db, vec![id.0.into()]).await?;
    scheduled_trigger_execution::Entity::delete_many()
        .filter(scheduled_trigger_execution::Column::LineOaId.eq(id.0))
        .exec(db)
        .await?;
    rule_user_state::Entity::delete_many()
        .filter(rule_user_state::Column::TriggerRuleId.in_subquery(rules))
        .exec(db)
        .await?;
    line_oa::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// Deletes all LINE OAs of a project. Its queued work is deleted elsewhere.
pub(super) async fn delete_of_project(db: &impl ConnectionTrait, project: ProjectId) -> Result<()> {
    let accounts: Vec<uuid::Uuid> = line_oa::Entity::find()
        .select_only()
        .column(line_oa::Column::Id)
        .filter(line_oa::Column::OrganizationId.eq(project.0))
        .order_by_asc(line_oa::Column::Id)
        .into_tuple()
        .all(db)
        .await?;
    for id in accounts {
        delete(db, id.into()).await?;
    }
    Ok(())
}
