//! `trigger_rule`: when X happens, do Y.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "trigger_rule")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub organization_id: Uuid,
    pub line_oa_id: Uuid,
    pub name: String,
    pub description: String,
    pub source_type: String,
    #[sea_orm(column_type = "JsonBinary")]
    pub source_config: Json,
    pub source_key: String,
    pub action_type: String,
    #[sea_orm(column_type = "JsonBinary")]
    pub action_config: Json,
    pub enabled: bool,
    pub frequency: String,
    pub cooldown_seconds: i32,
    pub workflow_id: Option<Uuid>,
    pub workflow_node_path: Option<String>,
    pub evaluated_at: Option<DateTimeUtc>,
    pub next_fire_at: Option<DateTimeUtc>,
    pub version: i64,
    pub created_date: DateTimeUtc,
    pub updated_date: DateTimeUtc,
    pub deleted_date: Option<DateTimeUtc>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
