//! Who changed what, what the processes agree on, and which executors run.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(audit_log()).await?;
        manager.create_table(setting()).await?;
        manager.create_table(executor_instance()).await?;
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_audit_log_project ON audit_log (project_id, id)",
                "CREATE INDEX idx_audit_log_entity ON audit_log (entity_type, entity_id)",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::drop_tables(manager, &["executor_instance", "setting", "audit_log"]).await
    }
}

// No foreign keys: the record outlives what it speaks of.
fn audit_log() -> TableCreateStatement {
    Table::create()
        .table("audit_log")
        .col(uuid("id").primary_key())
        .col(timestamp_with_time_zone("at"))
        .col(string("actor_type"))
        .col(uuid_null("actor_id"))
        .col(string("actor_name"))
        .col(string("action"))
        .col(string("entity_type"))
        .col(uuid("entity_id"))
        .col(uuid_null("project_id"))
        .col(uuid_null("application_id"))
        .col(json_binary_null("before"))
        .col(json_binary_null("after"))
        .col(string_null("request_id"))
        .to_owned()
}

fn setting() -> TableCreateStatement {
    Table::create()
        .table("setting")
        .col(string("key").primary_key())
        .col(text("value"))
        .col(timestamp_with_time_zone("updated_at"))
        .to_owned()
}

fn executor_instance() -> TableCreateStatement {
    Table::create()
        .table("executor_instance")
        .col(uuid("id").primary_key())
        .col(string("host"))
        .col(big_integer("process_id"))
        .col(string("version"))
        .col(timestamp_with_time_zone("started_at"))
        .col(timestamp_with_time_zone("last_pass_at"))
        .col(integer("in_flight"))
        .col(integer("clock_skew_ms"))
        .col(timestamp_with_time_zone_null("stopped_at"))
        .to_owned()
}
