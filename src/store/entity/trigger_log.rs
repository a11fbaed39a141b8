//! `trigger_log`: what was evaluated and done.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "trigger_log")]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub trigger_rule_id: Option<Uuid>,
    pub audience_id: Option<Uuid>,
    pub user_id: Option<String>,
    pub trigger_on: String,
    pub action_type: Option<String>,
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub action_config: Option<Json>,
    pub status: String,
    pub error_message: Option<String>,
    pub trigger_id: Option<Uuid>,
    pub trigger_occurrence_id: Option<Uuid>,
    pub backend_id: Option<Uuid>,
    pub scheduled_action_id: Option<Uuid>,
    pub event_id: Option<Uuid>,
    pub application_id: Option<Uuid>,
    pub organization_id: Option<Uuid>,
    pub line_oa_id: Option<Uuid>,
    pub attempt: Option<i32>,
    pub response_status: Option<i16>,
    pub duration_ms: Option<i32>,
    pub reason: Option<String>,
    pub held_until: Option<DateTimeUtc>,
    pub platform_request_id: Option<String>,
    pub created_date: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
