//! Applications, and their tenants, machine users and backends.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, Select,
};

use super::entity::{application, backend_registration, machine_user, tenant, trigger, workflow};
use super::paging::{By, page};
use super::{Hold, Tx, scope};
use crate::domain::access::Scope;
use crate::domain::application::{Application, Backend, MachineUser, Tenant};
use crate::domain::id::{ApplicationId, BackendId, MachineUserId, ProjectId, TenantId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

impl From<application::Model> for Application {
    fn from(row: application::Model) -> Self {
        Self {
            id: row.id.into(),
            project_id: row.project_id.into(),
            slug: row.slug,
            name: row.name,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<tenant::Model> for Tenant {
    fn from(row: tenant::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            slug: row.slug,
            name: row.name,
            environment: row.environment,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

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

impl From<backend_registration::Model> for Backend {
    fn from(row: backend_registration::Model) -> Self {
        Self {
            id: row.id.into(),
            application_id: row.application_id.into(),
            machine_user_id: row.machine_user_id.map(Into::into),
            name: row.name,
            description: row.description,
            callback_url: row.callback_url,
            version: row.version,
            registered_at: row.registered_at,
            last_heartbeat_at: row.last_heartbeat_at,
            deactivated_at: row.deactivated_at,
            deactivated_reason: row.deactivated_reason,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Writes a new application. `CONFLICT` when the project has the slug already.
pub async fn insert(db: &impl ConnectionTrait, new: &Application) -> Result<()> {
    application::Entity::insert(row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes an application's row anew.
pub async fn update(db: &impl ConnectionTrait, changed: &Application) -> Result<()> {
    row(changed).update(db).await?;
    Ok(())
}

fn row(application: &Application) -> application::ActiveModel {
    application::Model {
        id: application.id.0,
        project_id: application.project_id.0,
        slug: application.slug.clone(),
        name: application.name.clone(),
        created_at: application.created_at,
        updated_at: application.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes an application with all that belongs to it, its ledger and queued work included. The
/// trigger log and the audit log keep their rows until their time is up.
pub async fn delete(db: &impl ConnectionTrait, id: ApplicationId) -> Result<()> {
    super::delivery::delete_of_applications(db, &[id.0]).await?;
    super::workflow::delete_of_applications(db, &[id.0]).await?;
    application::Entity::delete_by_id(id.0).exec(db).await?;
    // What a pass that held the application meanwhile has queued.
    super::delivery::delete_of_applications(db, &[id.0]).await
}

/// The application of that id in `scope`.
pub async fn find(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: ApplicationId,
) -> Result<Application> {
    let row = application::Entity::find_by_id(id.0)
        .filter(scope::application(scope, application::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// The application of that id in `scope`, held.
pub async fn find_held(
    tx: &Tx,
    scope: Scope,
    id: ApplicationId,
    hold: Hold,
) -> Result<Application> {
    let select = application::Entity::find_by_id(id.0)
        .filter(scope::application(scope, application::Column::Id));
    let row = tx.holding(select, hold).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// All applications of a project, held to be deleted.
pub async fn hold_all_of(tx: &Tx, project: ProjectId) -> Result<Vec<Application>> {
    let select = application::Entity::find()
        .filter(application::Column::ProjectId.eq(project.0))
        .order_by_asc(application::Column::Id);
    let rows = tx.holding(select, Hold::Delete).all(&**tx).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// How much belongs to applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Tenants.
    pub tenants: u64,
    /// Machine users.
    pub machine_users: u64,
    /// Backends, active or not.
    pub backends: u64,
    /// Triggers, enabled or not.
    pub triggers: u64,
    /// Workflows.
    pub workflows: u64,
}

/// How much belongs to these applications together.
pub async fn contents(db: &impl ConnectionTrait, ids: &[ApplicationId]) -> Result<Contents> {
    let ids = || ids.iter().map(|id| id.0);
    let tenants = tenant::Entity::find().filter(tenant::Column::ApplicationId.is_in(ids()));
    let machine_users =
        machine_user::Entity::find().filter(machine_user::Column::ApplicationId.is_in(ids()));
    let backends = backend_registration::Entity::find()
        .filter(backend_registration::Column::ApplicationId.is_in(ids()));
    let triggers = trigger::Entity::find().filter(trigger::Column::ApplicationId.is_in(ids()));
    let workflows = workflow::Entity::find().filter(workflow::Column::ApplicationId.is_in(ids()));
    Ok(Contents {
        tenants: tenants.count(db).await?,
        machine_users: machine_users.count(db).await?,
        backends: backends.count(db).await?,
        triggers: triggers.count(db).await?,
        workflows: workflows.count(db).await?,
    })
}

/// The application of that slug in a project in `scope`.
pub async fn find_by_slug(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: ProjectId,
    slug: &str,
) -> Result<Application> {
    let row = application::Entity::find()
        .filter(application::Column::ProjectId.eq(project.0))
        .filter(application::Column::Slug.eq(slug))
        .filter(scope::application(scope, application::Column::Id))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: ApplicationId::WHAT })
}

/// The applications of these ids in `scope`, in no order.
pub async fn find_all(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[ApplicationId],
) -> Result<Vec<Application>> {
    let rows = application::Entity::find()
        .filter(application::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, application::Column::Id))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The applications in `scope`, of one project or of all, by slug.
pub async fn list(
    db: &impl ConnectionTrait,
    scope: Scope,
    project: Option<ProjectId>,
    request: &PageRequest,
) -> Result<Page<Application>> {
    use application::{Column, Entity};
    let mut select = Entity::find().filter(scope::application(scope, Column::Id));
    if let Some(project) = project {
        select = select.filter(Column::ProjectId.eq(project.0));
    }
    let by = By { column: Column::Slug, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}

/// Writes a new tenant. `CONFLICT` when the application and environment have the slug already.
pub async fn insert_tenant(db: &impl ConnectionTrait, new: &Tenant) -> Result<()> {
    tenant::Entity::insert(tenant_row(new)).exec_without_returning(db).await?;
    Ok(())
}

/// Writes a tenant's row anew.
pub async fn update_tenant(db: &impl ConnectionTrait, changed: &Tenant) -> Result<()> {
    tenant_row(changed).update(db).await?;
    Ok(())
}

fn tenant_row(tenant: &Tenant) -> tenant::ActiveModel {
    tenant::Model {
        id: tenant.id.0,
        application_id: tenant.application_id.0,
        slug: tenant.slug.clone(),
        name: tenant.name.clone(),
        environment: tenant.environment.clone(),
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
    }
    .into_active_model()
    .reset_all()
}

/// Deletes a tenant.
pub async fn delete_tenant(db: &impl ConnectionTrait, id: TenantId) -> Result<()> {
    tenant::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The tenant of that id in `scope`.
pub async fn tenant(db: &impl ConnectionTrait, scope: Scope, id: TenantId) -> Result<Tenant> {
    let row = tenant::Entity::find_by_id(id.0)
        .filter(scope::application(scope, tenant::Column::ApplicationId))
        .one(db)
        .await?;
    row.map(Into::into).ok_or(Error::NotFound { what: TenantId::WHAT })
}

/// An application's tenants in `scope`, of one environment or of all, by slug.
pub async fn tenants(
    db: &impl ConnectionTrait,
    scope: Scope,
    application: ApplicationId,
    environment: Option<&str>,
    request: &PageRequest,
) -> Result<Page<Tenant>> {
    use tenant::{Column, Entity};
    let mut select = Entity::find()
        .filter(Column::ApplicationId.eq(application.0))
        .filter(scope::application(scope, Column::ApplicationId));
    if let Some(environment) = environment {
        select = select.filter(Column::Environment.eq(environment));
    }
    let by = By { column: Column::Slug, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
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
    let Some(row) = select.one(db).await? else { return Ok(None) };
    let application = application::Entity::find_by_id(row.application_id).one(db).await?;
    Ok(application.map(|application| {
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

/// A backend's secrets, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSecrets {
    /// The token that callbacks carry.
    pub token: String,
    /// The secret that signs callbacks.
    pub signing_secret: String,
}

/// Writes a backend: a new row, or over the row with the same application and name.
pub async fn upsert_backend(
    db: &impl ConnectionTrait,
    backend: &Backend,
    secrets: &BackendSecrets,
) -> Result<()> {
    use backend_registration::Column;
    let row = backend_registration::Model {
        id: backend.id.0,
        application_id: backend.application_id.0,
        machine_user_id: backend.machine_user_id.map(|id| id.0),
        name: backend.name.clone(),
        description: backend.description.clone(),
        callback_url: backend.callback_url.clone(),
        token_encrypted: secrets.token.clone(),
        signing_secret_encrypted: secrets.signing_secret.clone(),
        version: backend.version.clone(),
        registered_at: backend.registered_at,
        last_heartbeat_at: backend.last_heartbeat_at,
        deactivated_at: backend.deactivated_at,
        deactivated_reason: backend.deactivated_reason.clone(),
        created_at: backend.created_at,
        updated_at: backend.updated_at,
    }
    .into_active_model()
    .reset_all();
    let changed = OnConflict::column(Column::Id)
        .update_columns([
            Column::MachineUserId,
            Column::Name,
            Column::Description,
            Column::CallbackUrl,
            Column::TokenEncrypted,
            Column::SigningSecretEncrypted,
            Column::Version,
            Column::RegisteredAt,
            Column::LastHeartbeatAt,
            Column::DeactivatedAt,
            Column::DeactivatedReason,
            Column::UpdatedAt,
        ])
        .to_owned();
    backend_registration::Entity::insert(row)
        .on_conflict(changed)
        .exec_without_returning(db)
        .await?;
    Ok(())
}

/// Notes a heartbeat of every backend in `ids`.
pub async fn touch_backends(
    db: &impl ConnectionTrait,
    ids: &[BackendId],
    now: DateTime<Utc>,
) -> Result<()> {
    use backend_registration::{Column, Entity};
    Entity::update_many()
        .col_expr(Column::LastHeartbeatAt, sea_orm::sea_query::Expr::value(now))
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .exec(db)
        .await?;
    Ok(())
}

/// Deactivates the backend of that id, unless it is already, or registered at or after `began`.
/// Answers whether it did.
pub async fn deactivate_backend(
    db: &impl ConnectionTrait,
    id: BackendId,
    (began, now): (DateTime<Utc>, DateTime<Utc>),
    reason: &str,
) -> Result<bool> {
    use backend_registration::{Column, Entity};
    use sea_orm::sea_query::Expr;
    let changed = Entity::update_many()
        .col_expr(Column::DeactivatedAt, Expr::value(now))
        .col_expr(Column::DeactivatedReason, Expr::value(reason))
        .col_expr(Column::UpdatedAt, Expr::value(now))
        .filter(Column::Id.eq(id.0))
        .filter(Column::DeactivatedAt.is_null())
        .filter(Column::RegisteredAt.lte(began))
        .exec(db)
        .await?;
    Ok(changed.rows_affected == 1)
}

/// Deletes a backend. Its waiting deliveries end as cancelled first, elsewhere.
pub async fn delete_backend(db: &impl ConnectionTrait, id: BackendId) -> Result<()> {
    backend_registration::Entity::delete_by_id(id.0).exec(db).await?;
    Ok(())
}

/// The backend of that id in `scope`, with its secrets.
pub async fn backend(
    db: &impl ConnectionTrait,
    scope: Scope,
    id: BackendId,
) -> Result<(Backend, BackendSecrets)> {
    let row = backend_registration::Entity::find_by_id(id.0)
        .filter(scope::application(scope, backend_registration::Column::ApplicationId))
        .one(db)
        .await?
        .ok_or(Error::NotFound { what: BackendId::WHAT })?;
    Ok(with_secrets(row))
}

/// The backend of that id in `scope`, held to be deleted: of two that delete it, one finds it.
pub async fn backend_held(tx: &Tx, scope: Scope, id: BackendId) -> Result<Backend> {
    let select = backend_registration::Entity::find_by_id(id.0)
        .filter(scope::application(scope, backend_registration::Column::ApplicationId));
    let row = tx.holding(select, Hold::Delete).one(&**tx).await?;
    row.map(Into::into).ok_or(Error::NotFound { what: BackendId::WHAT })
}

fn with_secrets(row: backend_registration::Model) -> (Backend, BackendSecrets) {
    let secrets = BackendSecrets {
        token: row.token_encrypted.clone(),
        signing_secret: row.signing_secret_encrypted.clone(),
    };
    (row.into(), secrets)
}

/// An application's backend of that name, with its secrets.
pub async fn backend_by_name(
    db: &impl ConnectionTrait,
    application: ApplicationId,
    name: &str,
) -> Result<Option<(Backend, BackendSecrets)>> {
    let row = backend_registration::Entity::find()
        .filter(backend_registration::Column::ApplicationId.eq(application.0))
        .filter(backend_registration::Column::Name.eq(name))
        .one(db)
        .await?;
    Ok(row.map(with_secrets))
}

/// The backends of these ids in `scope`, with their secrets, in no order.
pub async fn backends_by_ids(
    db: &impl ConnectionTrait,
    scope: Scope,
    ids: &[BackendId],
) -> Result<Vec<(Backend, BackendSecrets)>> {
    use backend_registration::{Column, Entity};
    let rows = Entity::find()
        .filter(Column::Id.is_in(ids.iter().map(|id| id.0)))
        .filter(scope::application(scope, Column::ApplicationId))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(with_secrets).collect())
}

/// The backends of these applications, in no order.
pub async fn backends_of(
    db: &impl ConnectionTrait,
    applications: &[ApplicationId],
) -> Result<Vec<Backend>> {
    use backend_registration::{Column, Entity};
    let rows = Entity::find()
        .filter(Column::ApplicationId.is_in(applications.iter().map(|id| id.0)))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Which backends of a list are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Active ones, or the others.
    pub active: bool,
    /// A heartbeat before this is too old.
    pub heartbeat_since: DateTime<Utc>,
}

/// The backends in `scope`, of one application or of all, by name.
pub async fn backends(
    db: &impl ConnectionTrait,
    scope: Scope,
    application: Option<ApplicationId>,
    activity: Option<Activity>,
    request: &PageRequest,
) -> Result<Page<Backend>> {
    use backend_registration::{Column, Entity};
    let mut select = Entity::find().filter(scope::application(scope, Column::ApplicationId));
    if let Some(application) = application {
        select = select.filter(Column::ApplicationId.eq(application.0));
    }
    if let Some(Activity { active, heartbeat_since }) = activity {
        let is_active = Condition::all()
            .add(Column::DeactivatedAt.is_null())
            .add(Column::LastHeartbeatAt.gte(heartbeat_since));
        select = select.filter(if active { is_active } else { is_active.not() });
    }
    let by = By { column: Column::Name, id: Column::Id, direction: Direction::Ascending };
    page(db, select, by, request).await
}
