//! Users, their tokens, projects and memberships.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::entity::{application, personal_access_token, project, project_member, user};
use super::paging::{By, page};
use super::{Hold, Tx, dialect, scope};
use crate::domain::access::{Role, Scope};
use crate::domain::id::{PersonalAccessTokenId, ProjectId, ProjectMemberId, UserId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::people::{PersonalAccessToken, Project, ProjectMember, User};
use crate::error::{Error, Result};

impl From<user::Model> for User {
    fn from(row: user::Model) -> Self {
        Self {
            id: row.id.into(),
            email: row.email,
            name: row.name,
            administrator: row.administrator,
            disabled_at: row.disabled_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<project::Model> for Project {
    fn from(row: project::Model) -> Self {
        Self {
            id: row.id.into(),
            slug: row.slug,
            name: row.name,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<project_member::Model> for ProjectMember {
    fn from(row: project_member::Model) -> Self {
        Self {
            id: row.id.into(),
            project_id: row.project_id.into(),
            user_id: row.user_id.into(),
            role: Role::from_name(&row.role).unwrap_or(Role::Member),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<personal_access_token::Model> for PersonalAccessToken {
    fn from(row: personal_access_token::Model) -> Self {
        Self {
            id: row.id.into(),
            user_id: row.user_id.into(),
            name: row.name,
            token_prefix: row.token_prefix,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
            created_at: row.created_at,
        }
    }
}

/// What signing in needs to know of a user.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user.
    pub user: User,
    /// The password's hash; none: the user can't sign in with one.
    pub password_hash: Option<String>,
    /// Sessions that began earlier no longer hold.
    pub sessions_valid_from: DateTime<Utc>,
}

impl From<user::Model> for Credentials {
    fn from(row: user::Model) -> Self {
        Self {
            password_hash: row.password_hash.clone(),
            sessions_valid_from: row.sessions_valid_from,
            user: row.into(),
        }
    }
}

/// The number of users.
pub async fn count_users(db: &impl ConnectionTrait) -> Result<u64> {
    Ok(user::Entity::find().count(db).await?)
}

/// Writes a new user. `CONFLICT` when the address is taken.
pub async fn insert_user(
    db: &impl ConnectionTrait,
    new: &User,
    password_hash: Option<String>,
) -> Result<()> {
    let row = user::ActiveModel {
        id: Set(new.id.0),
        email: Set(new.email.clone()),
        name: Set(new.name.clone()),
        password_hash: Set(password_hash),
        administrator: Set(new.administrator),
        sessions_valid_from: Set(new.created_at),
        disabled_at: Set(new.disabled_at),
        created_at: Set(new.created_at),
        updated_at: Set(new.updated_at),
    };
    user::Entity::insert(row).exec_without_returning(db).await?;
    Ok(())
}

/// A new password's hash, and from when sessions hold.
#[derive(Debug, Clone)]
pub struct NewPassword {
    /// The hash.
    pub hash: String,
    /// Sessions that began earlier no longer hold.
    pub sessions_valid_from: DateTime<Utc>,
}

/// Writes a user's row anew; the password only if one is given.
pub async fn update_user(
    db: &impl ConnectionTrait,
    changed: &User,
    password: Option<NewPassword>,
) -> Result<()> {
    let mut row = user::ActiveModel {
        id: Set(changed.id.0),
        email: Set(changed.email.clone()),
        name: Set(changed.name.clone()),
        administrator: Set(changed.administrator),
        disabled_at: Set(changed.disabled_at),
        updated_at: Set(changed.updated_at),
        ..Default::default()
    };
    if let Some(password) = password {
        row.password_hash = Set(Some(password.hash));
        row.sessions_valid_from = Set(password.sessions_valid_from);
    }
    // What was begun before does not hold again when the user is enabled again.
    if let Some(disabled_at) = changed.disabled_at {
        row.sessions_valid_from = Set(disabled_at.max(changed.updated_at));
    }
    row.update(db).await?;
    Ok(())
}

/// Deletes a user with tokens and memberships.
pub async fn delete_user(db: &impl ConnectionTrait, id: UserId) -> Result<()> {
    user::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The user of that id.
pub async fn user(db: &impl ConnectionTrait, id: UserId) -> Result<User> {
    let row = user::Entity::find_by_id(id.0).one(db).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: UserId::WHAT })
}

/// What signing in needs to know, by id.
pub async fn credentials(db: &impl ConnectionTrait, id: UserId) -> Result<Option<Credentials>> {
    Ok(user::Entity::find_by_id(id.0).one(db).await?.map(Into::into))
}

/// What signing in needs to know, by id; the row is held for a change.
pub async fn credentials_for_change(tx: &Tx, id: UserId) -> Result<Credentials> {
    let select = tx.holding(user::Entity::find_by_id(id.0), Hold::Change);
    let row = select.one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: UserId::WHAT })
}

/// What signing in needs to know, by address.
pub async fn credentials_by_email(
    db: &impl ConnectionTrait,
    email: &str,
) -> Result<Option<Credentials>> {
    let found = user::Entity::find().filter(user::Column::Email.eq(email)).one(db).await?;
    Ok(found.map(Into::into))
}

/// The users of these ids, in no order; missing ones are left out.
pub async fn users_by_ids(db: &impl ConnectionTrait, ids: &[UserId]) -> Result<Vec<User>> {
    let ids = ids.iter().map(|id| id.0);
    let rows = user::Entity::find().filter(user::Column::Id.is_in(ids)).all(db).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// All users, oldest first.
pub async fn users(db: &impl ConnectionTrait, request: &PageRequest) -> Result<Page<User>> {
    let by = By { column: user::Column::Id, id: user::Column::Id, direction: Direction::Ascending };
    page(db, user::Entity::find(), by, request).await
}

/// The oldest administrator who may sign in.
pub async fn first_administrator(db: &impl ConnectionTrait) -> Result<Option<User>> {
    let oldest = user::Entity::find()
        .filter(user::Column::Administrator.eq(true))
        .filter(user::Column::DisabledAt.is_null())
        .order_by_asc(user::Column::Id)
        .one(db)
        .await?;
    Ok(oldest.map(Into::into))
}

/// The administrators who may sign in. They are held: while the transaction runs, none of them
/// stops being one.
pub async fn hold_administrators(tx: &Tx) -> Result<Vec<UserId>> {
    let select = user::Entity::find()
        .filter(user::Column::Administrator.eq(true))
        .filter(user::Column::DisabledAt.is_null())
        .order_by_asc(user::Column::Id);
    let rows = tx.holding(select, Hold::Delete).all(&**tx).await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

/// Writes a new token.
pub async fn insert_token(
    db: &impl ConnectionTrait,
    new: &PersonalAccessToken,
    token_hash: &str,
) -> Result<()> {
    let row = personal_access_token::ActiveModel {
        id: Set(new.id.0),
        user_id: Set(new.user_id.0),
        name: Set(new.name.clone()),
        token_hash: Set(token_hash.to_owned()),
        token_prefix: Set(new.token_prefix.clone()),
        expires_at: Set(new.expires_at),
        last_used_at: Set(None),
        created_at: Set(new.created_at),
    };
    personal_access_token::Entity::insert(row).exec_without_returning(db).await?;
    Ok(())
}

/// The token with this hash and its user.
pub async fn token_by_hash(
    db: &impl ConnectionTrait,
    hash: &str,
) -> Result<Option<(PersonalAccessToken, User)>> {
    let found = personal_access_token::Entity::find()
        .filter(personal_access_token::Column::TokenHash.eq(hash))
        .find_also_related(user::Entity)
        .one(db)
        .await?;
    Ok(found.and_then(|(token, user)| Some((token.into(), user?.into()))))
}

/// Notes that a token was used.
pub async fn touch_token(
    db: &impl ConnectionTrait,
    id: PersonalAccessTokenId,
    now: DateTime<Utc>,
) -> Result<()> {
    let row = personal_access_token::ActiveModel {
        id: Set(id.0),
        last_used_at: Set(Some(now)),
        ..Default::default()
    };
    personal_access_token::Entity::update_many()
        .set(row)
        .filter(personal_access_token::Column::Id.eq(id.0))
        .exec(db)
        .await?;
    Ok(())
}

/// A user's own token.
pub async fn token(
    db: &impl ConnectionTrait,
    owner: UserId,
    id: PersonalAccessTokenId,
) -> Result<PersonalAccessToken> {
    let row = personal_access_token::Entity::find_by_id(id.0)
        .filter(personal_access_token::Column::UserId.eq(owner.0))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: PersonalAccessTokenId::WHAT })
}

/// A user's own token, held to be deleted: of two that delete it, one finds it.
pub async fn token_held(
    tx: &Tx,
    owner: UserId,
    id: PersonalAccessTokenId,
) -> Result<PersonalAccessToken> {
    let select = personal_access_token::Entity::find_by_id(id.0)
        .filter(personal_access_token::Column::UserId.eq(owner.0));
    let row = tx.holding(select, Hold::Delete).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: PersonalAccessTokenId::WHAT })
}

/// A user's own tokens, oldest first.
pub async fn tokens(
    db: &impl ConnectionTrait,
    owner: UserId,
    request: &PageRequest,
) -> Result<Page<PersonalAccessToken>> {
    use personal_access_token::{Column, Entity};
    let by = By { column: Column::Id, id: Column::Id, direction: Direction::Ascending };
    page(db, Entity::find().filter(Column::UserId.eq(owner.0)), by, request).await
}

/// Deletes a token.
pub async fn delete_token(db: &impl ConnectionTrait, id: PersonalAccessTokenId) -> Result<()> {
    personal_access_token::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// Writes a new project. `CONFLICT` when the slug is taken.
pub async fn insert_project(db: &impl ConnectionTrait, new: &Project) -> Result<()> {
    project::Entity::insert(project_row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a project's row anew.
pub async fn update_project(db: &impl ConnectionTrait, changed: &Project) -> Result<()> {
    project_row(changed).update(db).await?;
    Ok(())
}

fn project_row(project: &Project) -> project::ActiveModel {
    project::Model {
        id: project.id.0,
        slug: project.slug.clone(),
        name: project.name.clone(),
        created_at: project.created_at,
        updated_at: project.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes all work of a project: of its applications, rules and workflows.
pub async fn delete_work_of_project(db: &impl ConnectionTrait, id: ProjectId) -> Result<()> {
    let applications = applications_of(db, id).await?;
    super::delivery::delete_of_applications(db, &applications).await?;
    dialect::DELETE_PROJECT_WORK.run(db, vec![id.0.into()]).await?;
    Ok(())
}

/// Deletes a project with everything in it, its LINE OAs and queued work included, as deleting each
/// of its applications would.
pub async fn delete_project(db: &impl ConnectionTrait, id: ProjectId) -> Result<()> {
    let applications = applications_of(db, id).await?;
    delete_work_of_project(db, id).await?;
    super::workflow::delete_of_applications(db, &applications).await?;
    super::line::delete_of_project(db, id).await?;
    project::Entity::delete_by_id(id.0).exec(db).await?;
    // What was queued meanwhile by those who hold nothing of it.
    super::delivery::delete_open_of_applications(db, &applications).await?;
    dialect::DELETE_OPEN_PROJECT_WORK.run(db, vec![id.0.into()]).await?;
    Ok(())
}

async fn applications_of(db: &impl ConnectionTrait, id: ProjectId) -> Result<Vec<Uuid>> {
    let ids = application::Entity::find()
        .select_only()
        .column(application::Column::Id)
        .filter(application::Column::ProjectId.eq(id.0));
    Ok(ids.into_tuple().all(db).await?)
}

/// The project of that id in `scope`.
pub async fn project(db: &impl ConnectionTrait, scope: Scope, id: ProjectId) -> Result<Project> {
    let row = project::Entity::find_by_id(id.0)
        .filter(scope::project(scope, project::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ProjectId::WHAT })
}

/// The project of that id in `scope`, held.
pub async fn project_held(tx: &Tx, scope: Scope, id: ProjectId, hold: Hold) -> Result<Project> {
    let select =
        project::Entity::find_by_id(id.0).filter(scope::project(scope, project::Column::Id));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ProjectId::WHAT })
}

/// The project of that slug in `scope`.
pub async fn project_by_slug(
    db: &impl ConnectionTrait,
    scope: Scope,
    slug: &str,
) -> Result<Project> {
    let row = project::Entity::find()
        .filter(project::Column::Slug.eq(slug))
        .filter(scope::project(scope, project::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ProjectId::WHAT })
}

/// The projects of these ids in `scope`, in no order.
pub async fn projects_by_ids(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[ProjectId],
) -> Result<Vec<Project>> {
    let rows = project::Entity::find()
        .filter(project::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::project(scope, project::Column::Id))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The projects in `scope`, by slug.
pub async fn projects(
    db: &impl ConnectionTrait,
    scope: Scope,
    request: &PageRequest,
) -> Result<Page<Project>> {
    use project::{Column, Entity};
    let by = By { column: Column::Slug, id: Column::Id, direction: Direction::Ascending };
    page(db, Entity::find().filter(scope::project(scope, Column::Id)), by, request).await
}

/// A user's role in a project, none for whoever is no member.
pub async fn role(
    db: &impl ConnectionTrait,
    user: UserId,
    project: ProjectId,
) -> Result<Option<Role>> {
    let row = project_member::Entity::find()
        .filter(project_member::Column::UserId.eq(user.0))
        .filter(project_member::Column::ProjectId.eq(project.0))
        .one(db)
        .await?;
    Ok(row.map(|row| ProjectMember::from(row).role))
}

/// Writes a new membership. `CONFLICT` when the user is a member already.
pub async fn insert_member(db: &impl ConnectionTrait, new: &ProjectMember) -> Result<()> {
    project_member::Entity::insert(member_row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a membership's row anew.
pub async fn update_member(db: &impl ConnectionTrait, changed: &ProjectMember) -> Result<()> {
    member_row(changed).update(db).await?;
    Ok(())
}

fn member_row(member: &ProjectMember) -> project_member::ActiveModel {
    project_member::Model {
        id: member.id.0,
        project_id: member.project_id.0,
        user_id: member.user_id.0,
        role: member.role.as_str().to_owned(),
        created_at: member.created_at,
        updated_at: member.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes a membership.
pub async fn delete_member(db: &impl ConnectionTrait, id: ProjectMemberId) -> Result<()> {
    project_member::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The membership of that id in `scope`; a machine sees none.
pub async fn member(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: ProjectMemberId,
) -> Result<ProjectMember> {
    let row = project_member::Entity::find_by_id(id.0)
        .filter(scope::of_people(scope, project_member::Column::ProjectId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ProjectMemberId::WHAT })
}

/// A project's members in `scope`, oldest first; a machine sees none.
pub async fn members(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: ProjectId,
    request: &PageRequest,
) -> Result<Page<ProjectMember>> {
    use project_member::{Column, Entity};
    let select = Entity::find()
        .filter(Column::ProjectId.eq(project.0))
        .filter(scope::of_people(scope, Column::ProjectId));
    let by = By { column: Column::Id, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
