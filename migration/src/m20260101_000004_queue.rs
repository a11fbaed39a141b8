//! The one queue of work, and the log of what was evaluated and done.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(scheduled_action()).await?;
        crate::leave_room(manager, "scheduled_action").await?;
        manager.create_table(trigger_log()).await?;
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_scheduled_action_pending \
                 ON scheduled_action (execute_at) WHERE status = 'pending'",
                "CREATE INDEX idx_scheduled_action_lane \
                 ON scheduled_action (lane, execute_at) WHERE status = 'pending'",
                "CREATE INDEX idx_scheduled_action_processing \
                 ON scheduled_action (updated_at) WHERE status = 'processing'",
                "CREATE INDEX idx_scheduled_action_user \
                 ON scheduled_action (user_id, trigger_rule_id) WHERE user_id IS NOT NULL",
                "CREATE INDEX idx_scheduled_action_occurrence \
                 ON scheduled_action (trigger_occurrence_id) WHERE trigger_occurrence_id IS NOT NULL",
                "CREATE INDEX idx_scheduled_action_subject \
                 ON scheduled_action (line_oa_id, subject) WHERE subject IS NOT NULL",
                "CREATE INDEX idx_scheduled_action_rule \
                 ON scheduled_action (trigger_rule_id, id) WHERE trigger_rule_id IS NOT NULL",
                "CREATE INDEX idx_scheduled_action_parent \
                 ON scheduled_action (parent_id) WHERE parent_id IS NOT NULL",
                // What is no delivery of a trigger, as it is listed and swept.
                "CREATE INDEX idx_scheduled_action_own \
                 ON scheduled_action (id) WHERE trigger_id IS NULL",
                "CREATE UNIQUE INDEX uq_scheduled_action_dedupe \
                 ON scheduled_action (dedupe) WHERE dedupe IS NOT NULL",
                "CREATE INDEX idx_trigger_log_rule \
                 ON trigger_log (trigger_rule_id, created_date DESC) WHERE trigger_rule_id IS NOT NULL",
                "CREATE INDEX idx_trigger_log_line_oa \
                 ON trigger_log (line_oa_id, id) WHERE line_oa_id IS NOT NULL",
                "CREATE INDEX idx_trigger_log_user \
                 ON trigger_log (user_id, id) WHERE user_id IS NOT NULL",
                "CREATE INDEX idx_trigger_log_event \
                 ON trigger_log (event_id) WHERE event_id IS NOT NULL",
                // These are not kept as long as the others.
                "CREATE INDEX idx_trigger_log_held_back \
                 ON trigger_log (id) WHERE status = 'held_back'",
                "CREATE INDEX idx_trigger_log_action \
                 ON trigger_log (scheduled_action_id) WHERE scheduled_action_id IS NOT NULL",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::drop_tables(manager, &["trigger_log", "scheduled_action"]).await
    }
}

// What changes stands last: PostgreSQL writes to its log only what follows the first change of a row.
fn scheduled_action() -> TableCreateStatement {
    Table::create()
        .table("scheduled_action")
        .col(uuid("id").primary_key())
        .col(uuid_null("trigger_rule_id"))
        .col(string_null("user_id"))
        .col(string("action_type"))
        .col(json_binary("action_config"))
        .col(json_binary_null("source_config"))
        .col(string_null("source_type"))
        .col(timestamp_with_time_zone_null("expires_at"))
        .col(uuid_null("workflow_id"))
        .col(string_null("workflow_node_path"))
        .col(uuid_null("trigger_id"))
        .col(uuid_null("trigger_occurrence_id"))
        .col(uuid_null("application_id"))
        .col(uuid_null("organization_id"))
        .col(uuid_null("line_oa_id"))
        .col(string_null("dedupe"))
        .col(uuid_null("parent_id"))
        .col(uuid_null("event_id"))
        .col(string_null("subject"))
        .col(timestamp_with_time_zone("created_at"))
        .col(uuid_null("backend_id"))
        .col(uuid("lane"))
        .col(timestamp_with_time_zone("execute_at"))
        .col(timestamp_with_time_zone_null("executed_at"))
        .col(string("status").default("pending"))
        .col(integer("retry_count").default(0))
        .col(integer("attempts_before").default(0))
        .col(uuid_null("lease_token"))
        .col(timestamp_with_time_zone_null("lease_until"))
        .col(text_null("last_error"))
        .col(timestamp_with_time_zone("updated_at"))
        .to_owned()
}

fn trigger_log() -> TableCreateStatement {
    Table::create()
        .table("trigger_log")
        .col(big_pk_auto("id"))
        .col(uuid_null("trigger_rule_id"))
        .col(uuid_null("audience_id"))
        .col(string_null("user_id"))
        .col(string("trigger_on"))
        .col(string_null("action_type"))
        .col(json_binary_null("action_config"))
        .col(string("status").default("success"))
        .col(text_null("error_message"))
        .col(uuid_null("trigger_id"))
        .col(uuid_null("trigger_occurrence_id"))
        .col(uuid_null("backend_id"))
        .col(uuid_null("scheduled_action_id"))
        .col(uuid_null("event_id"))
        .col(uuid_null("application_id"))
        .col(uuid_null("organization_id"))
        .col(uuid_null("line_oa_id"))
        .col(integer_null("attempt"))
        .col(small_integer_null("response_status"))
        .col(integer_null("duration_ms"))
        .col(string_null("reason"))
        .col(timestamp_with_time_zone_null("held_until"))
        .col(string_null("platform_request_id"))
        .col(timestamp_with_time_zone("created_date"))
        .to_owned()
}
