//! `event`: what happened.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "event")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub event_id: String,
    pub event_type: String,
    pub line_oa_id: Uuid,
    pub organization_id: Uuid,
    pub user_id: Option<String>,
    pub occurred_at: DateTimeUtc,
    #[sea_orm(column_type = "JsonBinary")]
    pub payload: Json,
    pub subject: Option<String>,
    pub origin: String,
    pub status: String,
    pub matched: Option<i32>,
    pub error: Option<String>,
    pub received_at: DateTimeUtc,
    pub processed_at: Option<DateTimeUtc>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
