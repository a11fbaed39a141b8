//! Backends that applications have registered.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, EntityTrait,
    IntoActiveModel, QueryFilter, QueryOrder,
};

use crate::domain::access::Scope;
use crate::domain::application::Backend;
use crate::domain::id::{ApplicationId, BackendId};
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::entity::backend_registration;
use crate::store::paging::{By, page};
use crate::store::{Hold, Tx, scope};

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

/// A backend's secrets, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSecrets {
    /// The token that callbacks carry.
    pub token: String,
    /// The secret that signs callbacks.
    pub signing_secret: String,
}

/// The secrets of all backends, for whoever changes the key that they are encrypted with.
pub async fn all_secrets(db: &impl ConnectionTrait) -> Result<Vec<(BackendId, BackendSecrets)>> {
    let rows = backend_registration::Entity::find().all(db).await?;
    Ok(rows.into_iter().map(with_secrets).map(|(row, secrets)| (row.id, secrets)).collect())
}

/// Puts a backend's secrets, encrypted anew, in the place of those that there are.
pub async fn reseal(
    db: &impl ConnectionTrait,
    id: BackendId,
    secrets: BackendSecrets,
) -> Result<()> {
    let row = backend_registration::ActiveModel {
        token_encrypted: Set(secrets.token),
        signing_secret_encrypted: Set(secrets.signing_secret),
        ..Default::default()
    };
    let update = backend_registration::Entity::update_many().set(row);
    update.filter(backend_registration::Column::Id.eq(id.0)).exec(db).await?;
    Ok(())
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

/// Those of these backends that there still are, as they are now, held until `tx` ends; in the order
/// in which they are held, which is that of their ids: so two who hold several never wait for each
/// other in a circle.
pub async fn hold_backends(tx: &Tx, ids: &[BackendId]) -> Result<Vec<Backend>> {
    use backend_registration::{Column, Entity};
    let select =
        Entity::find().filter(Column::Id.is_in(ids.iter().map(|id| id.0))).order_by_asc(Column::Id);
    let rows = tx.holding(select, Hold::Change).all(&**tx).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Notes a heartbeat of every backend in `ids`, which the caller holds.
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
