//! What all processes on one database agree on.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ConnectionTrait, EntityTrait};

use super::entity::setting;
use crate::error::{Error, Result};

/// The value of `key`: the one that stands, or `value`, which then stands. Of several processes
/// that start at once, one value wins and all get it.
pub async fn get_or_set(
    db: &impl ConnectionTrait,
    key: &str,
    value: &str,
    now: DateTime<Utc>,
) -> Result<String> {
    let row = setting::ActiveModel {
        key: Set(key.to_owned()),
        value: Set(value.to_owned()),
        updated_at: Set(now),
    };
    setting::Entity::insert(row)
        .on_conflict(OnConflict::column(setting::Column::Key).do_nothing().to_owned())
        .exec_without_returning(db)
        .await?;
    get(db, key).await?.ok_or_else(|| Error::internal(format!("setting {key} is gone")))
}

/// The value of `key`.
pub async fn get(db: &impl ConnectionTrait, key: &str) -> Result<Option<String>> {
    Ok(setting::Entity::find_by_id(key.to_owned()).one(db).await?.map(|row| row.value))
}

/// Sets `key` to `value`.
pub async fn set(
    db: &impl ConnectionTrait,
    key: &str,
    value: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    let row = setting::ActiveModel {
        key: Set(key.to_owned()),
        value: Set(value.to_owned()),
        updated_at: Set(now),
    };
    let columns = [setting::Column::Value, setting::Column::UpdatedAt];
    setting::Entity::insert(row)
        .on_conflict(OnConflict::column(setting::Column::Key).update_columns(columns).to_owned())
        .exec_without_returning(db)
        .await?;
    Ok(())
}
