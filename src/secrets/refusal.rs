//! Why a signed token does not hold: for the log, not for the caller.

use crate::error::Error;

/// Why a signed token was not accepted.
///
/// The caller only learns that it was not: turned into an [`Error`] every refusal is the same
/// `UNAUTHENTICATED`, save for keys that can't be had, which is `BUSY`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// Not a signed token of three parts, or claims that are missing or of the wrong type.
    #[error("the token is malformed: {0}")]
    Malformed(String),
    /// An algorithm that is not accepted here.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The signature does not fit the key.
    #[error("the token's signature does not fit")]
    Signature,
    /// No published key has the token's key id.
    #[error("the token's key is not published by its issuer")]
    UnknownKey,
    /// Made by someone else.
    #[error("the token's issuer is not the expected one")]
    Issuer,
    /// Made for someone else.
    #[error("the token's audience is not this server")]
    Audience,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// The issuer's keys can't be had at the moment.
    #[error("the issuer's keys are not available")]
    Unavailable,
}

impl From<TokenRefusal> for Error {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Unavailable => Self::Busy,
            _ => Self::Unauthenticated { reason: "the token does not hold; sign in again" },
        }
    }
}

impl From<jsonwebtoken::errors::Error> for TokenRefusal {
    fn from(error: jsonwebtoken::errors::Error) -> Self {
        use jsonwebtoken::errors::ErrorKind;
        match error.kind() {
            ErrorKind::InvalidSignature => Self::Signature,
            ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => Self::Algorithm,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::InvalidAudience => Self::Audience,
            _ => Self::Malformed(error.to_string()),
        }
    }
}
