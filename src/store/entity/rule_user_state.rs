//! `rule_user_state`: what frequency and cooldown need to remember.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "rule_user_state")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub trigger_rule_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: String,
    pub last_fired_ms: Option<i64>,
    pub taken_by: Option<Uuid>,
    pub pause_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
