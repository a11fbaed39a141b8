//! Audiences and their members.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::entity::{audience, audience_member};
use super::paging::{By, page};
use super::wanted::Wanted;
use super::{Hold, Tx, dialect, line, scope};
use crate::domain::access::Scope;
use crate::domain::audience::{Audience, AudienceMember};
use crate::domain::id::{AudienceId, LineOaId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

impl From<audience::Model> for Audience {
    fn from(row: audience::Model) -> Self {
        Self {
            id: row.id.into(),
            line_oa_id: row.line_oa_id.into(),
            organization_id: row.organization_id.into(),
            name: row.name,
            description: row.description,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<audience_member::Model> for AudienceMember {
    fn from(row: audience_member::Model) -> Self {
        Self { audience_id: row.audience_id.into(), user_id: row.user_id, added_at: row.added_at }
    }
}

/// Writes a new audience. `CONFLICT` when the LINE OA has one of that name.
pub async fn insert(db: &impl ConnectionTrait, new: &Audience) -> Result<()> {
    audience::Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes an audience's row anew. `CONFLICT` when the LINE OA has one of that name.
pub async fn update(db: &impl ConnectionTrait, changed: &Audience) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

fn row(audience: &Audience) -> audience::ActiveModel {
    audience::Model {
        id: audience.id.0,
        line_oa_id: audience.line_oa_id.0,
        organization_id: audience.organization_id.0,
        name: audience.name.clone(),
        description: audience.description.clone(),
        created_at: audience.created_at,
        updated_at: audience.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes an audience with its memberships; the users stay known.
pub async fn delete(db: &impl ConnectionTrait, id: AudienceId) -> Result<()> {
    audience::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The audience of that id in `scope`, for people: a machine finds none.
pub async fn find(db: &impl ConnectionTrait, scope: Scope, id: AudienceId) -> Result<Audience> {
    let row = audience::Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, audience::Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: AudienceId::WHAT })
}

/// The audience of that id in `scope`, for people, held.
pub async fn find_held(tx: &Tx, scope: Scope, id: AudienceId, hold: Hold) -> Result<Audience> {
    let select = audience::Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, audience::Column::OrganizationId));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: AudienceId::WHAT })
}

/// The audiences of these ids in `scope`, for people, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[AudienceId],
) -> Result<Vec<Audience>> {
    let rows = audience::Entity::find()
        .filter(audience::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::of_people(scope, audience::Column::OrganizationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which audiences are wanted.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Of this LINE OA.
    pub line_oa_id: LineOaId,
    /// With this text in the name, whatever its case.
    pub name_contains: Option<String>,
}

/// How a list of audiences is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By name.
    #[default]
    Name,
    /// By the time of creation.
    CreatedAt,
    /// By the time of the last change.
    UpdatedAt,
}

/// The audiences in `scope`, for people, that `filter` asks for.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    filter: &Filter,
    sort: (Sort, Direction),
    request: &PageRequest,
) -> Result<Page<Audience>> {
    use audience::{Column, Entity};
    let wanted = Wanted::among(scope::of_people(scope, Column::OrganizationId))
        .eq(Column::LineOaId, Some(filter.line_oa_id.0))
        .contains(Column::Name, filter.name_contains.as_ref());
    let select = Entity::find().filter(wanted);
    let column = match sort.0 {
        Sort::Name => Column::Name,
        Sort::CreatedAt => Column::Id,
        Sort::UpdatedAt => Column::UpdatedAt,
    };
    page(db, select, By { column, id: Column::Id, direction: sort.1 }, request).await
}

/// A membership as it stands in a list of rows.
#[derive(Serialize)]
struct MemberRow<'a> {
    audience_id: String,
    line_oa_id: String,
    user_id: Cow<'a, str>,
}

/// Puts users into audiences of their LINE OA and makes them known. Who is in one already stays,
/// and audiences that no longer exist, or are another LINE OA's, are left out. Two statements,
/// however many. Answers how many memberships are new.
pub async fn add(
    db: &impl ConnectionTrait,
    members: &[(AudienceId, LineOaId, impl AsRef<str>)],
    now: DateTime<Utc>,
) -> Result<u64> {
    if members.is_empty() {
        return Ok(0);
    }
    let users: Vec<_> = members.iter().map(|(_, account, user)| (*account, user)).collect();
    line::seen(db, &users, now).await?;
    let rows: Vec<_> = members
        .iter()
        .map(|(audience, account, user)| MemberRow {
            audience_id: dialect::hex(audience.0),
            line_oa_id: dialect::hex(account.0),
            user_id: dialect::storable(user.as_ref()),
        })
        .collect();
    dialect::ADD_MEMBERS.run(db, vec![dialect::rows(&rows)?, now.into()]).await
}

/// Takes users out of an audience. One statement, however many. Answers how many were in it.
pub async fn remove(
    db: &impl ConnectionTrait,
    audience: AudienceId,
    users: &[String],
) -> Result<u64> {
    let values = vec![audience.0.into(), json!(users).to_string().into()];
    dialect::REMOVE_MEMBERS.run(db, values).await
}

/// How many members an audience has.
pub async fn count(db: &impl ConnectionTrait, audience: AudienceId) -> Result<u64> {
    use audience_member::{Column, Entity};
    Ok(Entity::find().filter(Column::AudienceId.eq(audience.0)).count(db).await?)
}

/// How many members each of these audiences has; those that have none are left out.
pub async fn counts(
    db: &impl ConnectionTrait,
    audiences: &[AudienceId],
) -> Result<Vec<(AudienceId, i64)>> {
    use audience_member::{Column, Entity};
    let rows: Vec<(Uuid, i64)> = Entity::find()
        .select_only()
        .column(Column::AudienceId)
        .column_as(Column::UserId.count(), "members")
        .filter(Column::AudienceId.is_in(audiences.iter().map(|id| id.0)))
        .group_by(Column::AudienceId)
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|(id, n)| (id.into(), n)).collect())
}

/// Whether the user is in the audience. None is in one that is not there.
pub async fn has_member(
    db: &impl ConnectionTrait,
    audience: AudienceId,
    user_id: &str,
) -> Result<bool> {
    use audience_member::{Column, Entity};
    let select =
        Entity::find().filter(Column::AudienceId.eq(audience.0)).filter(Column::UserId.eq(user_id));
    Ok(select.count(db).await? > 0)
}

/// The next members of an audience by user id, after `cursor`, at most `limit`.
pub async fn members_after(
    db: &impl ConnectionTrait,
    audience: AudienceId,
    cursor: Option<&str>,
    limit: u64,
) -> Result<Vec<String>> {
    use audience_member::{Column, Entity};
    let mut select = Entity::find()
        .select_only()
        .column(Column::UserId)
        .filter(Column::AudienceId.eq(audience.0));
    if let Some(cursor) = cursor {
        select = select.filter(Column::UserId.gt(cursor));
    }
    Ok(select.order_by_asc(Column::UserId).limit(limit).into_tuple().all(db).await?)
}

/// The members of an audience by user id. For an audience in the caller's scope.
pub async fn members(
    db: &impl ConnectionTrait,
    audience: AudienceId,
    request: &PageRequest,
) -> Result<Page<AudienceMember>> {
    use audience_member::{Column, Entity};
    let select = Entity::find().filter(Column::AudienceId.eq(audience.0));
    let by = By { column: Column::UserId, id: Column::UserId, direction: Direction::Ascending };
    page(db, select, by, request).await
}
