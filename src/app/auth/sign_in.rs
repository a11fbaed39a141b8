//! Sessions: what an e-mail address and a password are exchanged for.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use secrecy::SecretString;

use super::attempts::Subject;
use super::{App, actor};
use crate::app::change::change;
use crate::app::user::wrong_password;
use crate::domain::audit::{Caller, Change};
use crate::domain::input;
use crate::domain::people::User;
use crate::error::{Error, Result};
use crate::store::people::{self, Credentials};

/// A session that began.
#[derive(Debug)]
pub struct SignedIn {
    /// The token to send as `Authorization: Bearer`.
    pub token: SecretString,
    /// From this instant on the token is refused.
    pub expires_at: DateTime<Utc>,
    /// Who signed in.
    pub user: User,
}

impl App {
    /// Begins a session. A user who does not exist, has no password or is disabled is refused as
    /// slowly and with the same sentence as a wrong password. A success is written to the audit
    /// log, a failure only to the log.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`. `RATE_LIMITED` once the network address that `client` belongs to has used
    /// up `auth.sign_in_attempts_per_minute`, for this account or in all, or all addresses together
    /// ten times as many for this account, whether or not the attempts were right. `BUSY` when too many passwords are being checked.
    pub async fn sign_in(
        &self,
        email: &str,
        password: SecretString,
        client: Option<IpAddr>,
        request_id: Option<String>,
    ) -> Result<SignedIn> {
        let now = self.now();
        let email = email.trim().to_lowercase();
        if let Some(client) = client {
            self.auth.attempts.take(Subject::client(client), now).await?;
        }
        self.auth.attempts.take(Subject::account_from(&email, client), now).await?;
        self.auth.attempts.take_of_many(Subject::account(&email), now).await?;
        let found = match input::email("email", &email) {
            Ok(email) => people::credentials_by_email(self.store.read(), &email).await?,
            Err(_) => None,
        };
        let found = found.filter(|found| found.user.disabled_at.is_none());
        let stored = found.as_ref().and_then(|found| found.password_hash.clone());
        let holds = self.auth.hashing.verify(password, stored).await?;
        match found {
            Some(found) if holds => self.begin_session(found, now, request_id).await,
            _ => {
                tracing::info!(client = ?client, "a sign-in failed");
                Err(wrong())
            }
        }
    }

    /// Checks the password that a signed-in user gives once more. Counts as an attempt.
    pub(in crate::app) async fn check_own_password(
        &self,
        email: &str,
        password: SecretString,
        stored: String,
    ) -> Result<()> {
        self.auth.attempts.take(Subject::account_from(email, None), self.now()).await?;
        match self.auth.hashing.verify(password, Some(stored)).await? {
            true => Ok(()),
            false => Err(wrong_password()),
        }
    }

    /// Looks again: the hash took a while, and the password may have been changed meanwhile. The user
    /// is held: who changes the password ends the sessions of whoever held it before.
    async fn begin_session(
        &self,
        checked: Credentials,
        now: DateTime<Utc>,
        request_id: Option<String>,
    ) -> Result<SignedIn> {
        let tx = self.store.begin().await?;
        let found = match people::credentials_for_change(&tx, checked.user.id).await {
            Err(Error::NotFound { .. }) => return Err(wrong()),
            found => found?,
        };
        let is_same = found.password_hash == checked.password_hash;
        if found.user.disabled_at.is_some() || !is_same {
            return Err(wrong());
        }
        let user = found.user;
        let session = self.sessions.sign(user.id.0, now, self.config.auth.session_ttl)?;
        let caller = Caller { actor: actor(&user), request_id };
        let after = serde_json::json!({ "expiresAt": session.claims.expires_at });
        let signed_in: Change = change("user.sign_in", ("user", user.id), None, Some(&after))?;
        tx.commit(&caller, now, &[signed_in]).await?;
        Ok(SignedIn { token: session.token, expires_at: session.claims.expires_at, user })
    }
}

fn wrong() -> Error {
    Error::Unauthenticated { reason: "the e-mail address or the password is wrong" }
}
