//! `line_user`: users as a LINE OA knows them.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "line_user")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub line_oa_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: String,
    pub organization_id: Uuid,
    pub follow_state: String,
    #[sea_orm(column_type = "JsonBinary")]
    pub attributes: Json,
    pub followed_at: Option<DateTimeUtc>,
    pub unfollowed_at: Option<DateTimeUtc>,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
