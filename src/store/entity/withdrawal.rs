//! `withdrawal`: whose work is being taken back in steps.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "withdrawal")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub entity_id: Uuid,
    pub entity_type: String,
    pub reason: String,
    pub project_id: Uuid,
    pub application_id: Option<Uuid>,
    pub created_at: DateTimeUtc,
    pub looked_at: DateTimeUtc,
    pub cancelled: i64,
    pub position: String,
    pub met_open: bool,
    pub cancelled_before: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
