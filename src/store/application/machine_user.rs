//! Machine users of applications.

use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    Select,
};

use crate::domain::access::Scope;
use crate::domain::application::MachineUser;
use crate::domain::id::{ApplicationId, MachineUserId, ProjectId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::entity::{application, machine_user};
use crate::store::paging::{By, page};
use crate::store::scope;

impl From<machine_user::Model> for MachineUser {
    fn from(row: machine_user::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            name: row.name,
            environment: row.environment,
            username: row.username,
            token_prefix: row.token_prefix,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// A machine user's secrets, as hashes.
#[derive(Debug, Clone)]
pub struct MachineCredentials {
    /// The password's hash, for Basic authentication; none: only the token holds.
    pub password_hash: Option<String>,
    /// The token's hash.
    pub token_hash: String,
}

/// A machine user with its secrets and its application's project.
#[derive(Debug, Clone)]
pub struct KnownMachine {
    /// The machine user.
    pub machine_user: MachineUser,
    /// Its secrets.
    pub credentials: MachineCredentials,
    /// Its application's project.
    pub project_id: ProjectId,
}

/// Writes a new machine user. `CONFLICT` when the user name is taken.
pub async fn insert_machine_user(
    db: &impl ConnectionTrait,
    new: &MachineUser,
    credentials: &MachineCredentials,
) -> Result<()> {
    let row = machine_user_row(new, credentials);
    machine_user::Entity::insert(row).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a machine user's row anew.
pub async fn update_machine_user(
    db: &impl ConnectionTrait,
    changed: &MachineUser,
    credentials: &MachineCredentials,
) -> Result<()> {
    machine_user_row(changed, credentials).update(db).await?;
    Ok(())
}

fn machine_user_row(
    machine_user: &MachineUser,
    credentials: &MachineCredentials,
) -> machine_user::ActiveModel {
    machine_user::Model {
        id: machine_user.id.0,
        application_id: machine_user.application_id.0,
        name: machine_user.name.clone(),
        environment: machine_user.environment.clone(),
        username: machine_user.username.clone(),
        password_hash: credentials.password_hash.clone(),
        token_hash: credentials.token_hash.clone(),
        token_prefix: machine_user.token_prefix.clone(),
        created_at: machine_user.created_at,
        updated_at: machine_user.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes a machine user. Backends that it registered stay.
pub async fn delete_machine_user(db: &impl ConnectionTrait, id: MachineUserId) -> Result<()> {
    machine_user::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The machine user of that id in `scope`, with its secrets.
pub async fn machine_user(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: MachineUserId,
) -> Result<(MachineUser, MachineCredentials)> {
    let row = machine_user::Entity::find_by_id(id.0)
        .filter(scope::application(scope, machine_user::Column::ApplicationId))
        .one(db)
        .await?
        .ok_or(Error::NotFound { what: MachineUserId::WHAT })?;
    Ok(with_credentials(row))
}

fn with_credentials(row: machine_user::Model) -> (MachineUser, MachineCredentials) {
    let credentials = MachineCredentials {
        password_hash: row.password_hash.clone(),
        token_hash: row.token_hash.clone(),
    };
    (row.into(), credentials)
}

/// The machine user with this token.
pub async fn machine_by_token(
    db: &impl ConnectionTrait,
    token_hash: &str,
) -> Result<Option<KnownMachine>> {
    known(db, machine_user::Entity::find().filter(machine_user::Column::TokenHash.eq(token_hash)))
        .await
}

/// The machine user with this user name.
pub async fn machine_by_username(
    db: &impl ConnectionTrait,
    username: &str,
) -> Result<Option<KnownMachine>> {
    known(db, machine_user::Entity::find().filter(machine_user::Column::Username.eq(username)))
        .await
}

async fn known(
    db: &impl ConnectionTrait,
    select: Select<machine_user::Entity>,
) -> Result<Option<KnownMachine>> {
    let found = select.find_also_related(application::Entity).one(db).await?;
    Ok(found.and_then(|(row, application)| Some((row, application?))).map(|(row, application)| {
        let (machine_user, credentials) = with_credentials(row);
        KnownMachine { machine_user, credentials, project_id: application.project_id.into() }
    }))
}

/// An application's machine users in `scope`, oldest first.
pub async fn machine_users(
    db: &impl ConnectionTrait,
    scope: Scope,
    application: ApplicationId,
    request: &PageRequest,
) -> Result<Page<MachineUser>> {
    use machine_user::{Column, Entity};
    let select = Entity::find()
        .filter(Column::ApplicationId.eq(application.0))
        .filter(scope::application(scope, Column::ApplicationId));
    let by = By { column: Column::Id, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
