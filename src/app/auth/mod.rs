//! Who is calling: from the `Authorization` header to an [`Actor`], and from a password to a
//! session.
//!
//! It says who somebody is and must not decide what they may do. Whatever does not hold gets one
//! and the same sentence, so that an answer never tells which part was wrong; why goes to the log.

mod attempts;
mod basic;
#[cfg(test)]
mod change_tests;
mod hashing;
mod outside;
mod sign_in;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use chrono::{DateTime, Duration, SubsecRound, Utc};

use super::App;
use crate::config::AuthConfig;
use crate::domain::access::Actor;
use crate::domain::id::{PersonalAccessTokenId, UserId};
use crate::domain::people::User;
use crate::error::{Error, Result};
use crate::secrets::{TokenKind, hash_token};
use crate::store::{application, people};

use attempts::Attempts;
use basic::KnownPairs;
pub(super) use hashing::Hashing;
use outside::Outside;
pub use sign_in::SignedIn;

/// How exactly it is known when a personal access token was last used.
const TOUCH_EVERY: Duration = Duration::minutes(1);

/// What authentication remembers between two calls. All of it may be lost at any time.
pub(super) struct Auth {
    /// Bounds how many passwords are hashed at once.
    pub(super) hashing: Hashing,
    attempts: Attempts,
    known_pairs: KnownPairs,
    outside: Option<Outside>,
}

impl Auth {
    pub(super) fn new(config: &AuthConfig) -> Result<Self> {
        Ok(Self {
            hashing: Hashing::new(),
            attempts: Attempts::new(config.sign_in_attempts_per_minute),
            known_pairs: KnownPairs::new(),
            outside: Outside::from_config(&config.jwt)?,
        })
    }
}

/// No credentials came.
fn missing() -> Error {
    Error::Unauthenticated {
        reason: "credentials are missing; send the header Authorization with Bearer and a token, \
                 or with Basic and a machine user's name and password",
    }
}

/// The header is a token alone.
fn without_scheme() -> Error {
    Error::Unauthenticated {
        reason: "the header Authorization is a token alone; put Bearer and a space before it",
    }
}

/// Credentials came that do not hold.
fn invalid() -> Error {
    Error::Unauthenticated {
        reason: "the credentials do not hold; use valid ones or sign in again",
    }
}

impl App {
    /// Who sends this value of the `Authorization` header (RFC 9110, section 11.6.2): `Bearer`
    /// with a personal access token, a machine user's token, a session's token or one of the
    /// configured outside issuer; `Basic` (RFC 7617, in UTF-8) with a machine user's name and
    /// password. An unknown person whom the outside issuer vouches for becomes a user.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` with one sentence for no credentials, one for a token without its scheme, and one
    /// for any credentials that do not hold,
    /// those of a disabled user included. `RATE_LIMITED` when too many different passwords were
    /// tried for a machine user within a minute. `BUSY` when the outside issuer's keys can't
    /// be had, and when somebody would become a user while this process's clock is wrong.
    pub async fn authenticate(&self, authorization: Option<&str>) -> Result<Actor> {
        self.authenticate_from(authorization, None).await
    }

    /// As [`Self::authenticate`], of a `client` whose network address is known.
    ///
    /// # Errors
    /// As there; passwords for a machine user are counted for each address, and ten times as many in
    /// all. `RATE_LIMITED` also when more than ten times `auth.sign_in_attempts_per_minute` passwords
    /// of machine users that were not checked before came from the address within a minute, whatever
    /// the names.
    pub async fn authenticate_from(
        &self,
        authorization: Option<&str>,
        client: Option<IpAddr>,
    ) -> Result<Actor> {
        let header = authorization.ok_or_else(missing)?.trim();
        let Some((scheme, credentials)) = header.split_once(' ') else {
            return Err(if TokenKind::of(header).is_some() { without_scheme() } else { invalid() });
        };
        let credentials = credentials.trim_start();
        if scheme.eq_ignore_ascii_case("Basic") {
            return self.authenticate_basic(credentials, client).await;
        }
        if !scheme.eq_ignore_ascii_case("Bearer") || credentials.is_empty() {
            return Err(invalid());
        }
        match TokenKind::of(credentials) {
            Some(TokenKind::MachineUser) => self.machine_of_token(credentials).await,
            Some(TokenKind::Personal) => self.user_of_token(credentials).await,
            Some(TokenKind::Callback) => Err(invalid()),
            None if is_jwt(credentials) => self.user_of_jwt(credentials).await,
            // The first administrator's token is what the operator says it is.
            None => self.user_of_token(credentials).await,
        }
    }

    async fn machine_of_token(&self, token: &str) -> Result<Actor> {
        let hash = hash_token(token).to_string();
        let known = application::machine_by_token(self.store.read(), &hash).await?;
        known.map(machine).ok_or_else(invalid)
    }

    async fn user_of_token(&self, token: &str) -> Result<Actor> {
        let (now, hash) = (self.now(), hash_token(token).to_string());
        let found = people::token_by_hash(self.store.read(), &hash).await?;
        let (token, user) = found.ok_or_else(invalid)?;
        if token.expires_at.is_some_and(|end| now >= end) || user.disabled_at.is_some() {
            return Err(invalid());
        }
        let due = token.last_used_at.is_none_or(|last| now - last >= TOUCH_EVERY);
        // A wrong time of use would be worse than none.
        if due && self.clock_holds().is_ok() {
            // That a token was used is not worth refusing it.
            if let Err(error) = self.touch(token.id, now).await {
                tracing::warn!(token_id = %token.id, %error, "a token's use was not noted");
            }
        }
        Ok(actor_until(&user, token.expires_at))
    }

    async fn touch(&self, id: PersonalAccessTokenId, now: DateTime<Utc>) -> Result<()> {
        let tx = self.store.begin().await?;
        people::touch_token(&*tx, id, now).await?;
        tx.commit_unaudited().await
    }

    async fn user_of_jwt(&self, token: &str) -> Result<Actor> {
        let now = self.now();
        let refusal = match self.sessions.verify(token, now) {
            Ok(claims) => {
                let id = UserId(claims.user_id);
                return self.user_of_session(id, claims.issued_at).await;
            }
            Err(refusal) => refusal,
        };
        match &self.auth.outside {
            Some(outside) => self.user_of_outside(outside, token).await,
            None => {
                tracing::debug!(%refusal, "a session's token was refused");
                Err(invalid())
            }
        }
    }

    /// A session begun in the very millisecond from which sessions hold, holds: its token counts
    /// milliseconds.
    async fn user_of_session(&self, id: UserId, issued_at: DateTime<Utc>) -> Result<Actor> {
        let found = people::credentials(self.store.read(), id).await?;
        let found = found.ok_or_else(invalid)?;
        let holds = found.user.disabled_at.is_none()
            && issued_at >= found.sessions_valid_from.trunc_subsecs(3);
        if holds { Ok(actor(&found.user)) } else { Err(invalid()) }
    }
}

/// Whether [`App::authenticate`] looks for a token of this form among the personal access tokens.
pub(super) fn is_personal_form(token: &str) -> bool {
    match TokenKind::of(token) {
        Some(kind) => kind == TokenKind::Personal,
        None => !is_jwt(token),
    }
}

/// Three parts, of which the first is a JSON object in base64, as a JSON Web Token in compact form
/// has (RFC 7515, section 3.1).
fn is_jwt(token: &str) -> bool {
    token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

fn actor(user: &User) -> Actor {
    actor_until(user, None)
}

fn actor_until(user: &User, ends: Option<DateTime<Utc>>) -> Actor {
    let (email, administrator) = (user.email.clone(), user.administrator);
    Actor::User { id: user.id, email, administrator, ends }
}

fn machine(known: application::KnownMachine) -> Actor {
    let user = known.machine_user;
    Actor::Machine {
        id: user.id,
        username: user.username,
        application_id: user.application_id,
        project_id: known.project_id,
        environment: user.environment,
    }
}
