//! What can go wrong, and how much of it a client may read.
//!
//! What the client's own input caused is shown in full: a code, the field, and
//! what would be right. What we caused is a fixed sentence for the client; the
//! truth goes to the log, once, at the door.

use std::borrow::Cow;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure that leaves a use case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input does not fit. Nothing was written.
    #[error("{reason}")]
    Invalid {
        /// A stable code in upper case, `INVALID` unless a finer one exists.
        code: &'static str,
        /// The input's field, in the caller's spelling (camelCase), with a path where nested.
        field: Cow<'static, str>,
        /// A sentence that says what would be right.
        reason: String,
    },
    /// The thing does not exist, or the caller may not know that it does.
    #[error("{what} not found")]
    NotFound {
        /// The noun, for example `trigger`.
        what: &'static str,
    },
    /// The change collides with something that exists.
    #[error("{reason}")]
    Conflict {
        /// The field that collides.
        field: Cow<'static, str>,
        /// A sentence that says with what.
        reason: String,
    },
    /// No credentials, or credentials that do not hold.
    #[error("{reason}")]
    Unauthenticated {
        /// A sentence for the caller; never says which part was wrong.
        reason: &'static str,
    },
    /// The caller is known and may not do this.
    #[error("{reason}")]
    Forbidden {
        /// A sentence that names the role that would be needed.
        reason: &'static str,
    },
    /// Too many calls of this kind; a later one may succeed.
    #[error("{reason}")]
    RateLimited {
        /// A sentence that says how long to wait.
        reason: &'static str,
    },
    /// The server can't take this now; the same call may succeed later.
    #[error("the server is busy, try again")]
    Busy,
    /// This process's clock and the database's differ: what it would write has wrong times.
    #[error(
        "the clock of this server and that of its database differ by more than 5 s; it changes \
         nothing until they agree"
    )]
    Skewed,
    /// Our fault. The source is for the log only.
    #[error("internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The longest sentence that a client is told, in characters.
pub const MESSAGE_MAX: usize = 1_000;
/// After how many seconds a call that was one too many may succeed.
pub const RATE_LIMITED_SECONDS: u32 = 60;
/// After how many seconds a call that the server could not take may succeed.
pub const BUSY_SECONDS: u32 = 1;

impl Error {
    /// An [`Error::Invalid`] with the general code.
    pub fn invalid(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self::invalid_code("INVALID", field, reason)
    }

    /// An [`Error::Invalid`] with a code of its own.
    pub fn invalid_code(
        code: &'static str,
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Invalid { code, field: field.into(), reason: reason.into() }
    }

    /// An [`Error::Conflict`].
    pub fn conflict(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self::Conflict { field: field.into(), reason: reason.into() }
    }

    /// An [`Error::Internal`] from any error or text.
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(source.into())
    }

    /// The stable code that clients switch on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { code, .. } => code,
            Self::NotFound { .. } => "NOT_FOUND",
            Self::Conflict { .. } => "CONFLICT",
            Self::Unauthenticated { .. } => "UNAUTHENTICATED",
            Self::Forbidden { .. } => "FORBIDDEN",
            Self::RateLimited { .. } => "RATE_LIMITED",
            Self::Busy | Self::Skewed => "BUSY",
            Self::Internal(_) => "INTERNAL",
        }
    }

    /// After how many seconds the same call may succeed, where waiting is all that it needs.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            Self::RateLimited { .. } => Some(RATE_LIMITED_SECONDS),
            Self::Busy | Self::Skewed => Some(BUSY_SECONDS),
            _ => None,
        }
    }

    /// The field that the error is about, if it is about one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid { field, .. } | Self::Conflict { field, .. } => Some(field),
            _ => None,
        }
    }
}
