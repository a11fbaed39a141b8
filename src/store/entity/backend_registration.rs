//! `backend_registration`: backends that receive triggers.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "backend_registration")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub application_id: Uuid,
    pub machine_user_id: Option<Uuid>,
    pub name: String,
    pub description: String,
    pub callback_url: String,
    pub token_encrypted: String,
    pub signing_secret_encrypted: String,
    pub version: Option<String>,
    pub registered_at: DateTimeUtc,
    pub last_heartbeat_at: DateTimeUtc,
    pub deactivated_at: Option<DateTimeUtc>,
    pub deactivated_reason: Option<String>,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
