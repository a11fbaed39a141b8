//! LINE Official Accounts, what they know, and the trigger rules.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLES: [&str; 9] = [
    "rule_user_state",
    "scheduled_trigger_execution",
    "trigger_rule",
    "event",
    "audience_member",
    "audience",
    "line_user",
    "workflow",
    "line_oa",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let tables = [
            line_oa(),
            workflow(),
            line_user(),
            audience(),
            audience_member(),
            event(),
            trigger_rule(),
            scheduled_trigger_execution(),
            rule_user_state(),
        ];
        for table in tables {
            manager.create_table(table).await?;
        }
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_line_oa_organization ON line_oa (organization_id)",
                "CREATE UNIQUE INDEX uq_line_oa_channel ON line_oa (channel_id)",
                "CREATE UNIQUE INDEX uq_workflow_name ON workflow (application_id, name)",
                "CREATE INDEX idx_workflow_organization ON workflow (organization_id)",
                "CREATE UNIQUE INDEX uq_audience_name ON audience (line_oa_id, name)",
                "CREATE INDEX idx_audience_member_user ON audience_member (line_oa_id, user_id)",
                "CREATE UNIQUE INDEX uq_event_sender ON event (line_oa_id, event_id)",
                "CREATE INDEX idx_event_line_oa ON event (line_oa_id, id)",
                "CREATE INDEX idx_event_pending ON event (id) WHERE status = 'pending'",
                "CREATE INDEX idx_event_subject \
                 ON event (line_oa_id, subject, occurred_at) WHERE subject IS NOT NULL",
                "CREATE INDEX idx_event_user ON event (line_oa_id, user_id, id)",
                "CREATE INDEX idx_trigger_rule_scope ON trigger_rule (line_oa_id, organization_id)",
                "CREATE INDEX idx_trigger_rule_deleted ON trigger_rule (deleted_date)",
                "CREATE INDEX idx_trigger_rule_version ON trigger_rule (line_oa_id, version)",
                "CREATE INDEX idx_trigger_rule_due \
                 ON trigger_rule (next_fire_at) WHERE next_fire_at IS NOT NULL",
                "CREATE UNIQUE INDEX uq_scheduled_trigger_execution \
                 ON scheduled_trigger_execution (trigger_rule_id, scheduled_at)",
                "CREATE INDEX idx_scheduled_trigger_execution_processing \
                 ON scheduled_trigger_execution (id) WHERE status = 'processing'",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::drop_tables(manager, &TABLES).await
    }
}

fn line_oa() -> TableCreateStatement {
    Table::create()
        .table("line_oa")
        .col(uuid("id").primary_key())
        .col(uuid("organization_id"))
        .col(string("name"))
        .col(string("channel_id"))
        .col(text("channel_secret"))
        .col(text("channel_access_token"))
        .col(big_integer("rules_version").default(0))
        .col(timestamp_with_time_zone_null("paused_until"))
        .col(string_null("paused_reason"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("line_oa", "organization_id")
                .to("project", "id")
                .on_delete(ForeignKeyAction::Restrict),
        )
        .to_owned()
}

fn workflow() -> TableCreateStatement {
    Table::create()
        .table("workflow")
        .col(uuid("id").primary_key())
        .col(uuid("application_id"))
        .col(uuid("organization_id"))
        .col(string("name"))
        .col(string("description"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("workflow", "application_id")
                .to("application", "id")
                .on_delete(ForeignKeyAction::Restrict),
        )
        .to_owned()
}

/// What belongs to a LINE OA goes with it.
fn of_line_oa(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .from(table, "line_oa_id")
        .to("line_oa", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .to_owned()
}

fn line_user() -> TableCreateStatement {
    Table::create()
        .table("line_user")
        .col(uuid("line_oa_id"))
        .col(string("user_id"))
        .col(uuid("organization_id"))
        .col(string("follow_state").default("unknown"))
        .col(json_binary("attributes"))
        .col(timestamp_with_time_zone_null("followed_at"))
        .col(timestamp_with_time_zone_null("unfollowed_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .primary_key(Index::create().col("line_oa_id").col("user_id"))
        .foreign_key(&mut of_line_oa("line_user"))
        .to_owned()
}

fn audience() -> TableCreateStatement {
    Table::create()
        .table("audience")
        .col(uuid("id").primary_key())
        .col(uuid("line_oa_id"))
        .col(uuid("organization_id"))
        .col(string("name"))
        .col(string("description"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(&mut of_line_oa("audience"))
        .to_owned()
}

fn audience_member() -> TableCreateStatement {
    Table::create()
        .table("audience_member")
        .col(uuid("audience_id"))
        .col(string("user_id"))
        .col(uuid("line_oa_id"))
        .col(timestamp_with_time_zone("added_at"))
        .primary_key(Index::create().col("audience_id").col("user_id"))
        .foreign_key(
            ForeignKey::create()
                .from("audience_member", "audience_id")
                .to("audience", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}

fn event() -> TableCreateStatement {
    Table::create()
        .table("event")
        .col(uuid("id").primary_key())
        .col(string("event_id"))
        .col(string("event_type"))
        .col(uuid("line_oa_id"))
        .col(uuid("organization_id"))
        .col(string_null("user_id"))
        .col(timestamp_with_time_zone("occurred_at"))
        .col(json_binary("payload"))
        .col(string_null("subject"))
        .col(string("origin"))
        .col(string("status").default("pending"))
        .col(integer_null("matched"))
        .col(text_null("error"))
        .col(timestamp_with_time_zone("received_at"))
        .col(timestamp_with_time_zone_null("processed_at"))
        .to_owned()
}

fn trigger_rule() -> TableCreateStatement {
    Table::create()
        .table("trigger_rule")
        .col(uuid("id").primary_key())
        .col(uuid("organization_id"))
        .col(uuid("line_oa_id"))
        .col(string("name"))
        .col(string("description"))
        .col(string("source_type"))
        .col(json_binary("source_config"))
        .col(string("source_key"))
        .col(string("action_type"))
        .col(json_binary("action_config"))
        .col(boolean("enabled"))
        .col(string("frequency").default("once_per_hour"))
        .col(integer("cooldown_seconds").default(0))
        .col(uuid_null("workflow_id"))
        .col(string_null("workflow_node_path"))
        .col(timestamp_with_time_zone_null("evaluated_at"))
        .col(timestamp_with_time_zone_null("next_fire_at"))
        .col(big_integer("version"))
        .col(timestamp_with_time_zone("created_date"))
        .col(timestamp_with_time_zone("updated_date"))
        .col(timestamp_with_time_zone_null("deleted_date"))
        .foreign_key(&mut of_line_oa("trigger_rule"))
        .to_owned()
}

fn scheduled_trigger_execution() -> TableCreateStatement {
    Table::create()
        .table("scheduled_trigger_execution")
        .col(uuid("id").primary_key())
        .col(uuid("trigger_rule_id"))
        .col(uuid("line_oa_id"))
        .col(uuid("organization_id"))
        .col(uuid("audience_id"))
        .col(timestamp_with_time_zone("scheduled_at"))
        .col(timestamp_with_time_zone("started_at"))
        .col(timestamp_with_time_zone_null("completed_at"))
        .col(string("status").default("processing"))
        .col(integer("total_users").default(0))
        .col(integer("processed_users").default(0))
        .col(integer("failed_users").default(0))
        .col(string_null("cursor"))
        .col(text_null("error_message"))
        .to_owned()
}

fn rule_user_state() -> TableCreateStatement {
    Table::create()
        .table("rule_user_state")
        .col(uuid("trigger_rule_id"))
        // Empty for events without a user.
        .col(string("user_id"))
        // Of the firing that was accepted last: when, in milliseconds since 1970, and the event's
        // id, or the cycle's.
        .col(big_integer_null("last_fired_ms"))
        .col(uuid_null("taken_by"))
        // The pause that the rule asked for last. Whole numbers, so that both engines add alike.
        .col(big_integer("pause_ms"))
        .primary_key(Index::create().col("trigger_rule_id").col("user_id"))
        .to_owned()
}
