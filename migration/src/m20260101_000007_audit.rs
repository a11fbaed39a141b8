//! The audit log by application and by who made the change: it is kept for ever unless told
//! otherwise, and machine users see that of their application alone.

use sea_orm_migration::prelude::*;

/// This change.
#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &[
                "CREATE INDEX idx_audit_log_application \
                 ON audit_log (application_id, id) WHERE application_id IS NOT NULL",
                "CREATE INDEX idx_audit_log_actor \
                 ON audit_log (actor_id, id) WHERE actor_id IS NOT NULL",
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::run(
            manager,
            &["DROP INDEX idx_audit_log_actor", "DROP INDEX idx_audit_log_application"],
        )
        .await
    }
}
