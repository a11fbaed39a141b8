//! Triggers and the ledger of their occurrences.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(trigger()).await?;
        manager.create_table(trigger_occurrence()).await?;
        crate::leave_room(manager, "trigger_occurrence").await?;
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_trigger_application ON trigger (application_id)",
                "CREATE INDEX idx_trigger_due ON trigger (next_fire_at) WHERE next_fire_at IS NOT NULL",
                "CREATE UNIQUE INDEX uq_trigger_occurrence \
                 ON trigger_occurrence (trigger_id, scheduled_at)",
                "CREATE INDEX idx_trigger_occurrence_application \
                 ON trigger_occurrence (application_id, scheduled_at)",
                "CREATE INDEX idx_trigger_occurrence_waiting \
                 ON trigger_occurrence (next_attempt_at) WHERE next_attempt_at IS NOT NULL",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::drop_tables(manager, &["trigger_occurrence", "trigger"]).await
    }
}

fn trigger() -> TableCreateStatement {
    Table::create()
        .table("trigger")
        .col(uuid("id").primary_key())
        .col(uuid("application_id"))
        .col(string("name"))
        .col(text("description"))
        .col(string("run_key"))
        .col(string("cron_expression"))
        .col(string_null("time_zone"))
        .col(boolean("enabled").default(false))
        .col(string("catch_up").default("all"))
        .col(timestamp_with_time_zone("evaluated_at"))
        .col(timestamp_with_time_zone_null("next_fire_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("trigger", "application_id")
                .to("application", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}

// A deleted trigger leaves its history: no foreign key to `trigger`.
// What changes stands last: PostgreSQL writes to its log only what follows the first change of a row.
fn trigger_occurrence() -> TableCreateStatement {
    Table::create()
        .table("trigger_occurrence")
        .col(uuid("id").primary_key())
        .col(uuid("trigger_id"))
        .col(uuid("application_id"))
        .col(timestamp_with_time_zone("scheduled_at"))
        .col(string("origin").default("schedule"))
        .col(integer("occurrences").default(1))
        .col(timestamp_with_time_zone_null("until_at"))
        .col(json_binary("payload"))
        .col(timestamp_with_time_zone("created_at"))
        .col(string("status").default("pending"))
        .col(string_null("reason"))
        .col(integer("deliveries").default(0))
        .col(integer("delivered").default(0))
        .col(integer("failed").default(0))
        .col(integer("fan_out_attempts").default(0))
        .col(timestamp_with_time_zone_null("next_attempt_at"))
        .col(timestamp_with_time_zone_null("finished_at"))
        .foreign_key(
            ForeignKey::create()
                .from("trigger_occurrence", "application_id")
                .to("application", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}
