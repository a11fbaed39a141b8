//! `scheduled_trigger_execution`: one row a cycle of a time-based rule.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "scheduled_trigger_execution")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub trigger_rule_id: Uuid,
    pub line_oa_id: Uuid,
    pub organization_id: Uuid,
    pub audience_id: Uuid,
    pub scheduled_at: DateTimeUtc,
    pub started_at: DateTimeUtc,
    pub completed_at: Option<DateTimeUtc>,
    pub status: String,
    pub total_users: i32,
    pub processed_users: i32,
    pub failed_users: i32,
    pub cursor: Option<String>,
    pub error_message: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
