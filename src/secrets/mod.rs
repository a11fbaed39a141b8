//! What must stay secret: encryption at rest, tokens, passwords, session tokens.
//!
//! Everything here is a function of its arguments and of random numbers; the time
//! comes in as a value. This module must not touch the database, build an HTTP
//! client, or decide who may do what: it says whether a credential holds and whose
//! it is.
//!
//! Random tokens carry 256 bits, so a plain SHA-256 protects them; a slow hash
//! would cost tens of milliseconds at each heartbeat. Passwords are chosen by
//! people and get the slow one.

mod cipher;
mod jwks;
mod key;
mod oidc;
mod password;
mod refusal;
mod session;
#[cfg(test)]
pub(crate) mod test_keys;
mod token;

pub use self::{
    cipher::{Cipher, CipherError},
    key::{SecretKey, SecretKeyError},
    oidc::{FetchError, OidcSettings, OidcVerifier, OutsideIdentity},
    password::{Password, PasswordError, verify_dummy, verify_password},
    refusal::TokenRefusal,
    session::{SessionClaims, SessionSigner, SessionToken},
    token::{GeneratedToken, TokenHash, TokenKind, generate_token, hash_token, token_prefix},
};
