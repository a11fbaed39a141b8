//! What a database error means to a caller.

use sea_orm::{DbErr, RuntimeErr, SqlErr, SqlxError};

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

/// No connection, one that is lost, no lock in time, a deadlock or serialization failure, or no room
/// on the disk: it is not about this call, and the log says what it is. Nothing of the statement
/// was written, unless it was a commit whose answer was lost.
fn is_busy(error: &DbErr) -> bool {
    let busy = matches!(error, DbErr::ConnectionAcquire(_))
        || matches!(cause(error), Some(cause) if is_lost(cause))
        || code(error).is_some_and(|code| is_code_of_busy(&code));
    if busy {
        super::connect::doubt();
        tracing::warn!(%error, "the database can't take this now");
    }
    busy
}

/// What the driver says.
fn cause(error: &DbErr) -> Option<&SqlxError> {
    let (DbErr::Conn(cause) | DbErr::Exec(cause) | DbErr::Query(cause)) = error else {
        return None;
    };
    match cause {
        RuntimeErr::SqlxError(cause) => Some(cause),
        RuntimeErr::Internal(_) => None,
    }
}

/// Whether the connection was lost on the way, or could not be had.
fn is_lost(cause: &SqlxError) -> bool {
    matches!(
        cause,
        SqlxError::Io(_)
            | SqlxError::Tls(_)
            | SqlxError::PoolTimedOut
            | SqlxError::PoolClosed
            | SqlxError::WorkerCrashed
    )
}

/// The SQLSTATE of PostgreSQL, or the number of SQLite's extended result code.
fn code(error: &DbErr) -> Option<String> {
    Some(cause(error)?.as_database_error()?.code()?.into_owned())
}

/// PostgreSQL: 40001 and 40P01 serialization and deadlock, 08 the connection, 53 resources, 55P03
/// no lock, 57014 cancelled, 57P01 to 57P03 the server stops or starts, 25006 read only. SQLite,
/// whose low byte is the primary code: 5 and 6 busy and locked, 8 read only, 10 I/O, 13 full.
fn is_code_of_busy(code: &str) -> bool {
    const POSTGRES: [&str; 8] =
        ["40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "25006"];
    const SQLITE: [u32; 5] = [5, 6, 8, 10, 13];
    match code.len() {
        5 => POSTGRES.contains(&code) || code.starts_with("53") || code.starts_with("08"),
        _ => code.parse().is_ok_and(|code: u32| SQLITE.contains(&(code & 0xff))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_about_the_call_is_told_from_what_is() {
        let postgres = [
            "40001", "40P01", "53100", "53300", "55P03", "57014", "25006", "57P01", "57P02",
            "57P03", "08000", "08003", "08006", "08P01",
        ];
        let sqlite = ["5", "6", "8", "10", "13", "261", "262", "517", "776", "778"];
        for code in postgres.into_iter().chain(sqlite) {
            assert!(is_code_of_busy(code), "{code}");
        }
        let others = ["23505", "P0001", "22003", "42P01", "57P04", "2067", "1555", "19", "787"];
        for code in others.into_iter().chain(["11", "7", "9", "14", "1", "", "x"]) {
            assert!(!is_code_of_busy(code), "{code}");
        }
    }

    #[test]
    fn a_connection_that_is_lost_in_the_middle_is_busy_and_a_wrong_statement_is_not() {
        let lost = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for wrap in [DbErr::Conn, DbErr::Exec, DbErr::Query] {
            for cause in [SqlxError::Io(lost()), SqlxError::WorkerCrashed] {
                let error = Error::from(wrap(RuntimeErr::SqlxError(cause.into())));
                assert_eq!(error.code(), "BUSY", "{error}");
            }
            let wrong = wrap(RuntimeErr::SqlxError(SqlxError::ColumnNotFound("x".into()).into()));
            assert_eq!(Error::from(wrong).code(), "INTERNAL");
        }
    }
}
