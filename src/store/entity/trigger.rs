//! `trigger`: cron schedules of applications.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "trigger")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub application_id: Uuid,
    pub name: String,
    pub description: String,
    pub run_key: String,
    pub cron_expression: String,
    pub time_zone: Option<String>,
    pub enabled: bool,
    pub catch_up: String,
    pub evaluated_at: DateTimeUtc,
    pub next_fire_at: Option<DateTimeUtc>,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
