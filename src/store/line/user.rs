//! The users that a LINE OA knows.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter,
    QuerySelect, QueryTrait,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::access::Scope;
use crate::domain::id::{AudienceId, LineOaId};
use crate::domain::line::{FollowState, LineUser};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::entity::{audience_member, line_user};
use crate::store::paging::{By, page};
use crate::store::wanted::Wanted;
use crate::store::{Hold, Tx, dialect, scope};

impl From<line_user::Model> for LineUser {
    fn from(row: line_user::Model) -> Self {
        Self {
            line_oa_id: row.line_oa_id.into(),
            organization_id: row.organization_id.into(),
            user_id: row.user_id,
            follow_state: FollowState::from_name(&row.follow_state).unwrap_or_default(),
            attributes: match row.attributes {
                Value::Object(attributes) => attributes,
                _ => Map::new(),
            },
            followed_at: row.followed_at,
            unfollowed_at: row.unfollowed_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// A user's key as it stands in a list of rows.
#[derive(Serialize)]
struct KeyRow<'a> {
    line_oa_id: String,
    user_id: Cow<'a, str>,
}

fn keys(users: &[(LineOaId, impl AsRef<str>)]) -> Result<sea_orm::Value> {
    let rows: Vec<_> = users
        .iter()
        .map(|(line_oa, user)| KeyRow {
            line_oa_id: dialect::hex(line_oa.0),
            user_id: dialect::storable(user.as_ref()),
        })
        .collect();
    dialect::rows(&rows)
}

/// Makes users known; those that are known already stay as they are, and those of a LINE OA that
/// is gone are left out. One statement, however many. Answers how many became known.
pub async fn seen(
    db: &impl ConnectionTrait,
    users: &[(LineOaId, impl AsRef<str>)],
    now: DateTime<Utc>,
) -> Result<u64> {
    if users.is_empty() {
        return Ok(0);
    }
    dialect::SEE_USERS.run(db, vec![keys(users)?, now.into()]).await
}

/// How a user stood to an account before a webhook told of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The user was known.
    pub known: bool,
    /// The user had been a friend at some time before.
    pub had_followed: bool,
    /// The change was news: nothing later was known.
    pub news: bool,
}

/// A user became a friend of the account at `at`. What happened earlier than what is known, and
/// the same once more, changes nothing. `NOT_FOUND` when the account is gone.
pub async fn follow(
    tx: &Tx,
    user: (LineOaId, &str),
    at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Standing> {
    let (known, stored) = held(tx, user, now).await?;
    let news = stored.followed_at.is_none_or(|last| at > last)
        && stored.unfollowed_at.is_none_or(|last| at >= last);
    if news {
        let mut row = row_of(&stored, now);
        row.follow_state = Set(FollowState::Following.as_str().to_owned());
        row.followed_at = Set(Some(at));
        row.update(&**tx).await?;
    }
    let had_followed = stored.followed_at.is_some() || stored.unfollowed_at.is_some();
    Ok(Standing { known, had_followed, news })
}

/// A user blocked the account at `at`. What happened earlier than what is known, and the same once
/// more, changes nothing. `NOT_FOUND` when the account is gone.
pub async fn unfollow(
    tx: &Tx,
    user: (LineOaId, &str),
    at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Standing> {
    let (known, stored) = held(tx, user, now).await?;
    let news = stored.unfollowed_at.is_none_or(|last| at > last)
        && stored.followed_at.is_none_or(|last| at >= last);
    if news {
        let mut row = row_of(&stored, now);
        row.follow_state = Set(FollowState::Blocked.as_str().to_owned());
        row.unfollowed_at = Set(Some(at));
        row.update(&**tx).await?;
    }
    let had_followed = stored.followed_at.is_some() || stored.unfollowed_at.is_some();
    Ok(Standing { known, had_followed, news })
}

/// The user, made known if need be, and held; and whether it was known before. `NOT_FOUND` when
/// the account is gone.
pub async fn held(
    tx: &Tx,
    (line_oa, user): (LineOaId, &str),
    now: DateTime<Utc>,
) -> Result<(bool, LineUser)> {
    let known = seen(&**tx, &[(line_oa, user)], now).await? == 0;
    let select = line_user::Entity::find_by_id((line_oa.0, dialect::storable(user).into_owned()));
    let row = tx.holding(select, Hold::Change).one(&**tx).await?;
    let row = row.ok_or(Error::NotFound { what: LineOaId::WHAT })?;
    Ok((known, row.into()))
}

/// Writes a user's attributes, as `user` has them.
pub async fn set_attributes(
    db: &impl ConnectionTrait,
    user: &LineUser,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut row = row_of(user, now);
    row.attributes = Set(Value::Object(user.attributes.clone()));
    row.update(db).await?;
    Ok(())
}

/// A change of a user's row.
fn row_of(user: &LineUser, now: DateTime<Utc>) -> line_user::ActiveModel {
    line_user::ActiveModel {
        line_oa_id: Set(user.line_oa_id.0),
        user_id: Set(user.user_id.clone()),
        updated_at: Set(now),
        ..Default::default()
    }
}

/// The user of a LINE OA in `scope`, for people: a machine finds none.
pub async fn user(
    db: &impl ConnectionTrait,
    scope: Scope,
    (line_oa, user): (LineOaId, &str),
) -> Result<LineUser> {
    let row = line_user::Entity::find_by_id((line_oa.0, user.to_owned()))
        .filter(scope::of_people(scope, line_user::Column::OrganizationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: "LINE user" })
}

/// The users of these keys, whoever's they are, in no order; unknown ones are left out. One
/// statement, however many.
pub async fn users_by_ids(
    db: &impl ConnectionTrait,
    users: &[(LineOaId, impl AsRef<str>)],
) -> Result<Vec<LineUser>> {
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let rows = dialect::USERS_BY_IDS.rows::<line_user::Model>(db, vec![keys(users)?]).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which users of a LINE OA are wanted. Empty: all.
#[derive(Debug, Clone, Default)]
pub struct UserFilter {
    /// In this state.
    pub follow_state: Option<FollowState>,
    /// In this audience of the LINE OA.
    pub audience_id: Option<AudienceId>,
    /// With this text in the user id, whatever its case.
    pub user_id_contains: Option<String>,
}

/// The users of a LINE OA in `scope`, for people, by user id.
pub async fn users(
    db: &impl ConnectionTrait,
    scope: Scope,
    line_oa: LineOaId,
    filter: &UserFilter,
    request: &PageRequest,
) -> Result<Page<LineUser>> {
    use line_user::{Column, Entity};
    let members = filter.audience_id.map(|audience| {
        let members = audience_member::Entity::find()
            .select_only()
            .column(audience_member::Column::UserId)
            .filter(audience_member::Column::AudienceId.eq(audience.0))
            .filter(audience_member::Column::LineOaId.eq(line_oa.0));
        Column::UserId.in_subquery(members.into_query())
    });
    let wanted = Wanted::among(scope::of_people(scope, Column::OrganizationId))
        .eq(Column::LineOaId, Some(line_oa.0))
        .eq(Column::FollowState, filter.follow_state.map(|state| state.as_str()))
        .and(members)
        .contains(Column::UserId, filter.user_id_contains.as_ref());
    let select = Entity::find().filter(wanted);
    let by = By { column: Column::UserId, id: Column::UserId, direction: Direction::Ascending };
    page(db, select, by, request).await
}
