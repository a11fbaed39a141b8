//! Work that is taken back in steps.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(withdrawal()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::drop_tables(manager, &["withdrawal"]).await
    }
}

// No foreign keys: most of what it speaks of is deleted.
fn withdrawal() -> TableCreateStatement {
    Table::create()
        .table("withdrawal")
        .col(uuid("entity_id").primary_key())
        .col(string("entity_type"))
        .col(string("reason"))
        .col(uuid("project_id"))
        .col(uuid_null("application_id"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("looked_at"))
        .col(big_integer("cancelled").default(0))
        .col(string("position").default(""))
        .col(boolean("met_open").default(false))
        .col(big_integer("cancelled_before").default(0))
        .to_owned()
}
