//! The database schema: an ordered list of changes, one file each.
//!
//! A change that has been released is history: it is never edited, and it never
//! imports an entity, since entities move on and history does not. Partial
//! indexes are plain SQL, which reads the same on SQLite and PostgreSQL.

pub use sea_orm_migration::prelude::{MigrationTrait, MigratorTrait};

mod m20260101_000001_people;
mod m20260101_000002_applications;
mod m20260101_000003_triggers;
mod m20260101_000004_queue;
mod m20260101_000005_records;
mod m20260101_000006_rules;
mod m20260101_000007_audit;
mod m20260101_000008_withdrawals;

/// The list of changes, oldest first.
#[derive(Debug)]
pub struct Migrator;

#[sea_orm_migration::async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20260101_000001_people::Migration),
            Box::new(m20260101_000002_applications::Migration),
            Box::new(m20260101_000003_triggers::Migration),
            Box::new(m20260101_000004_queue::Migration),
            Box::new(m20260101_000005_records::Migration),
            Box::new(m20260101_000006_rules::Migration),
            Box::new(m20260101_000007_audit::Migration),
            Box::new(m20260101_000008_withdrawals::Migration),
        ]
    }
}

/// Runs each statement of `statements` as it stands.
pub(crate) async fn run(
    manager: &sea_orm_migration::SchemaManager<'_>,
    statements: &[&str],
) -> Result<(), sea_orm_migration::DbErr> {
    use sea_orm_migration::sea_orm::ConnectionTrait;
    for statement in statements {
        manager.get_connection().execute_unprepared(statement).await?;
    }
    Ok(())
}

/// Drops `tables` in the given order.
pub(crate) async fn drop_tables(
    manager: &sea_orm_migration::SchemaManager<'_>,
    tables: &[&'static str],
) -> Result<(), sea_orm_migration::DbErr> {
    use sea_orm_migration::prelude::{Alias, Table};
    for table in tables {
        manager.drop_table(Table::drop().table(Alias::new(*table)).to_owned()).await?;
    }
    Ok(())
}

/// Leaves half of each page of `table` free, on PostgreSQL. A row that changes soon after it was
/// made then stays on its page: no index changes with it unless an indexed column does, and the
/// log holds the difference rather than the row.
pub(crate) async fn leave_room(
    manager: &sea_orm_migration::SchemaManager<'_>,
    table: &str,
) -> Result<(), sea_orm_migration::DbErr> {
    use sea_orm_migration::sea_orm::DbBackend;
    if manager.get_database_backend() == DbBackend::Postgres {
        run(manager, &[&format!("ALTER TABLE {table} SET (fillfactor = 50)")]).await?;
    }
    Ok(())
}
