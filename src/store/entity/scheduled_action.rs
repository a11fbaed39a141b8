//! `scheduled_action`: the one queue.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "scheduled_action")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub trigger_rule_id: Option<Uuid>,
    pub user_id: Option<String>,
    pub action_type: String,
    #[sea_orm(column_type = "JsonBinary")]
    pub action_config: Json,
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub source_config: Option<Json>,
    pub source_type: Option<String>,
    pub execute_at: DateTimeUtc,
    pub expires_at: Option<DateTimeUtc>,
    pub executed_at: Option<DateTimeUtc>,
    pub status: String,
    pub retry_count: i32,
    pub attempts_before: i32,
    pub workflow_id: Option<Uuid>,
    pub workflow_node_path: Option<String>,
    pub trigger_id: Option<Uuid>,
    pub trigger_occurrence_id: Option<Uuid>,
    pub backend_id: Option<Uuid>,
    pub application_id: Option<Uuid>,
    pub organization_id: Option<Uuid>,
    pub line_oa_id: Option<Uuid>,
    pub lane: Uuid,
    pub lease_token: Option<Uuid>,
    pub lease_until: Option<DateTimeUtc>,
    pub dedupe: Option<String>,
    pub parent_id: Option<Uuid>,
    pub event_id: Option<Uuid>,
    pub subject: Option<String>,
    pub last_error: Option<String>,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
