//! Applications and what belongs to them: tenants, machine users, backends.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(application()).await?;
        manager.create_table(tenant()).await?;
        manager.create_table(machine_user()).await?;
        manager.create_table(backend_registration()).await?;
        crate::run(
            manager,
            &[
                "CREATE UNIQUE INDEX uq_application_slug ON application (project_id, slug)",
                "CREATE UNIQUE INDEX uq_tenant_slug ON tenant (application_id, environment, slug)",
                "CREATE INDEX idx_machine_user_application ON machine_user (application_id)",
                "CREATE UNIQUE INDEX uq_backend_registration_name \
                 ON backend_registration (application_id, name)",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let tables = ["backend_registration", "machine_user", "tenant", "application"];
        crate::drop_tables(manager, &tables).await
    }
}

/// A foreign key to the application that goes with it.
fn of_application(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .from(table, "application_id")
        .to("application", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .to_owned()
}

fn application() -> TableCreateStatement {
    Table::create()
        .table("application")
        .col(uuid("id").primary_key())
        .col(uuid("project_id"))
        .col(string("slug"))
        .col(string("name"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("application", "project_id")
                .to("project", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}

fn tenant() -> TableCreateStatement {
    Table::create()
        .table("tenant")
        .col(uuid("id").primary_key())
        .col(uuid("application_id"))
        .col(string("slug"))
        .col(string("name"))
        .col(string("environment"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(&mut of_application("tenant"))
        .to_owned()
}

fn machine_user() -> TableCreateStatement {
    Table::create()
        .table("machine_user")
        .col(uuid("id").primary_key())
        .col(uuid("application_id"))
        .col(string("name"))
        .col(string("environment"))
        .col(string_uniq("username"))
        .col(string_null("password_hash"))
        .col(string_uniq("token_hash"))
        .col(string("token_prefix"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(&mut of_application("machine_user"))
        .to_owned()
}

fn backend_registration() -> TableCreateStatement {
    Table::create()
        .table("backend_registration")
        .col(uuid("id").primary_key())
        .col(uuid("application_id"))
        .col(uuid_null("machine_user_id"))
        .col(string("name"))
        .col(text("description"))
        .col(text("callback_url"))
        .col(text("token_encrypted"))
        .col(text("signing_secret_encrypted"))
        .col(string_null("version"))
        .col(timestamp_with_time_zone("registered_at"))
        .col(timestamp_with_time_zone("last_heartbeat_at"))
        .col(timestamp_with_time_zone_null("deactivated_at"))
        .col(string_null("deactivated_reason"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(&mut of_application("backend_registration"))
        .to_owned()
}
