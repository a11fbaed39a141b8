//! Why a cron expression or a time zone was refused.

use crate::error::Error;

/// A refused cron expression or time zone. Always the caller's to mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CronError {
    /// A stable code in upper case: one of the `CRON_…` codes that
    /// [`Schedule::parse`](super::Schedule::parse) lists, or `UNKNOWN_TIME_ZONE`.
    pub code: &'static str,
    /// `cronExpression` or `timeZone`.
    pub field: &'static str,
    /// Names the cron field, the reason and what would be right.
    pub message: String,
}

impl CronError {
    pub(super) fn expression(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, field: "cronExpression", message: message.into() }
    }

    pub(super) fn zone(message: impl Into<String>) -> Self {
        Self { code: "UNKNOWN_TIME_ZONE", field: "timeZone", message: message.into() }
    }
}

impl From<CronError> for Error {
    fn from(error: CronError) -> Self {
        Error::invalid_code(error.code, error.field, error.message)
    }
}
