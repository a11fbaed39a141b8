//! `trigger_occurrence`: the ledger of due times.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "trigger_occurrence")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub trigger_id: Uuid,
    pub application_id: Uuid,
    pub scheduled_at: DateTimeUtc,
    pub origin: String,
    pub status: String,
    pub reason: Option<String>,
    pub occurrences: i32,
    pub until_at: Option<DateTimeUtc>,
    #[sea_orm(column_type = "JsonBinary")]
    pub payload: Json,
    pub deliveries: i32,
    pub delivered: i32,
    pub failed: i32,
    pub fan_out_attempts: i32,
    pub next_attempt_at: Option<DateTimeUtc>,
    pub created_at: DateTimeUtc,
    pub finished_at: Option<DateTimeUtc>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
