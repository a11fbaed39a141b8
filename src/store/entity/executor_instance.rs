//! `executor_instance`: the executors that run or ran.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "executor_instance")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub host: String,
    pub process_id: i64,
    pub version: String,
    pub started_at: DateTimeUtc,
    pub last_pass_at: DateTimeUtc,
    pub in_flight: i32,
    pub clock_skew_ms: i32,
    pub stopped_at: Option<DateTimeUtc>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
