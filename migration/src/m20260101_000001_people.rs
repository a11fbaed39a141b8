//! Users, their tokens, projects and who may do what in them.

use sea_orm_migration::{prelude::*, schema::*};

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(user()).await?;
        manager.create_table(personal_access_token()).await?;
        manager.create_table(project()).await?;
        manager.create_table(project_member()).await?;
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_personal_access_token_user ON personal_access_token (user_id)",
                "CREATE UNIQUE INDEX uq_project_member ON project_member (project_id, user_id)",
                "CREATE INDEX idx_project_member_user ON project_member (user_id)",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let tables = ["project_member", "project", "personal_access_token", "user"];
        crate::drop_tables(manager, &tables).await
    }
}

fn user() -> TableCreateStatement {
    Table::create()
        .table("user")
        .col(uuid("id").primary_key())
        .col(string_uniq("email"))
        .col(string("name"))
        .col(string_null("password_hash"))
        .col(boolean("administrator"))
        .col(timestamp_with_time_zone("sessions_valid_from"))
        .col(timestamp_with_time_zone_null("disabled_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .to_owned()
}

fn personal_access_token() -> TableCreateStatement {
    Table::create()
        .table("personal_access_token")
        .col(uuid("id").primary_key())
        .col(uuid("user_id"))
        .col(string("name"))
        .col(string_uniq("token_hash"))
        .col(string("token_prefix"))
        .col(timestamp_with_time_zone_null("expires_at"))
        .col(timestamp_with_time_zone_null("last_used_at"))
        .col(timestamp_with_time_zone("created_at"))
        .foreign_key(
            ForeignKey::create()
                .from("personal_access_token", "user_id")
                .to("user", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}

fn project() -> TableCreateStatement {
    Table::create()
        .table("project")
        .col(uuid("id").primary_key())
        .col(string_uniq("slug"))
        .col(string("name"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .to_owned()
}

fn project_member() -> TableCreateStatement {
    Table::create()
        .table("project_member")
        .col(uuid("id").primary_key())
        .col(uuid("project_id"))
        .col(uuid("user_id"))
        .col(string("role"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("project_member", "project_id")
                .to("project", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .foreign_key(
            ForeignKey::create()
                .from("project_member", "user_id")
                .to("user", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned()
}
