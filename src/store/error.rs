//! What a database error means to a caller.

use sea_orm::{DbErr, SqlErr};

use crate::error::Error;

/// Which field a unique constraint is about. The needle stands in PostgreSQL's constraint name
/// or in SQLite's list of columns.
const UNIQUE: [(&str, &str, &str); 9] = [
    ("email", "email", "a user with this email exists already"),
    ("username", "username", "this username is taken"),
    ("slug", "slug", "this slug is taken"),
    ("project_member", "userId", "this user is a member of the project already"),
    ("backend_registration", "name", "a backend with this name exists already"),
    ("channel", "channelId", "this channel is in use"),
    ("audience", "name", "an audience with this name exists already"),
    ("workflow", "name", "a workflow with this name exists already"),
    ("dedupe", "dedupeKey", "work with this key is queued already"),
];

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        match error.sql_err() {
            Some(SqlErr::UniqueConstraintViolation(text)) => unique(&text, error),
            Some(SqlErr::ForeignKeyConstraintViolation(_)) => Self::conflict(
                "id",
                "something that this belongs to was deleted meanwhile, or is in use",
            ),
            _ if matches!(error, DbErr::RecordNotUpdated) => {
                Self::conflict("id", "what was to be changed was deleted meanwhile")
            }
            _ if is_busy(&error) => Self::Busy,
            _ => Self::internal(error),
        }
    }
}

fn unique(text: &str, error: DbErr) -> Error {
    match UNIQUE.iter().find(|(needle, ..)| text.contains(needle)) {
        Some((_, field, reason)) => Error::conflict(*field, *reason),
        None => Error::internal(error),
    }
}

/// No connection in time, a lock not had in time, a deadlock or serialization failure.
fn is_busy(error: &DbErr) -> bool {
    if matches!(error, DbErr::ConnectionAcquire(_)) {
        return true;
    }
    let text = error.to_string();
    ["database is locked", "deadlock detected", "could not serialize", "too many clients"]
        .iter()
        .any(|needle| text.contains(needle))
}
