//! Personal access tokens: each user's own.

use chrono::{DateTime, Datelike, SecondsFormat, SubsecRound, Utc};
use secrecy::SecretString;

use super::App;
use super::access::require_user;
use super::change::change;
use crate::domain::access::Actor;
use crate::domain::audit::Caller;
use crate::domain::id::{PersonalAccessTokenId, UserId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::domain::people::PersonalAccessToken;
use crate::error::{Error, Result};
use crate::secrets::{TokenKind, generate_token};
use crate::store::people;

const NOUN: &str = "personal_access_token";

impl App {
    /// Makes a token with which a program may what the caller may, until `expires_at`. The secret
    /// can't be read again.
    ///
    /// # Errors
    /// `FORBIDDEN` for who is no user; `INVALID` on `name`, and on `expiresAt` unless it lies in
    /// the future and before the year 10000, and not after the end of the token with which the
    /// caller makes it: who finds a token that ends must not get one that does not.
    pub async fn create_personal_access_token(
        &self,
        caller: &Caller,
        name: &str,
        expires_at: Option<DateTime<Utc>>,
    ) -> Result<(SecretString, PersonalAccessToken)> {
        let user_id = require_user(&caller.actor)?;
        let now = self.now();
        let name = input::name("name", name)?;
        let expires_at = expires_at.map(|end| end.trunc_subsecs(3));
        if expires_at.is_some_and(|end| end <= now || end.year() > 9999) {
            let reason = "expiresAt must lie in the future and before the year 10000; leave it \
                          out for a token without end";
            return Err(Error::invalid("expiresAt", reason));
        }
        within_own(&caller.actor, expires_at)?;
        self.make_token(caller, user_id, name, expires_at).await
    }

    /// Makes a token for the user with this address, else for the first administrator: the way
    /// in for whoever runs the server when all tokens are lost. Answers the user's address too.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such user, or one who may not sign in.
    pub async fn recovery_token(&self, email: Option<&str>) -> Result<(String, SecretString)> {
        let db = self.store.read();
        let found = match email {
            Some(email) => {
                let email = input::email("email", email)?;
                people::credentials_by_email(db, &email).await?.map(|found| found.user)
            }
            None => people::first_administrator(db).await?,
        };
        let user = found
            .filter(|user| user.disabled_at.is_none())
            .ok_or(Error::NotFound { what: UserId::WHAT })?;
        let (caller, name) = (Caller::system(), "made on the server".to_owned());
        let (secret, _) = self.make_token(&caller, user.id, name, None).await?;
        Ok((user.email, secret))
    }

    async fn make_token(
        &self,
        caller: &Caller,
        user_id: UserId,
        name: String,
        expires_at: Option<DateTime<Utc>>,
    ) -> Result<(SecretString, PersonalAccessToken)> {
        let now = self.now();
        let made = generate_token(TokenKind::Personal);
        let token = PersonalAccessToken {
            id: PersonalAccessTokenId::new(),
            user_id,
            name,
            token_prefix: made.prefix,
            expires_at,
            last_used_at: None,
            created_at: now,
        };
        let tx = self.store.begin().await?;
        people::insert_token(&*tx, &token, &made.hash.to_string()).await?;
        let created = change("personal_access_token.create", (NOUN, token.id), None, Some(&token))?;
        tx.commit(caller, now, &[created]).await?;
        Ok((made.secret, token))
    }

    /// Deletes one of the caller's tokens; from then on it does not hold.
    ///
    /// # Errors
    /// `NOT_FOUND` for a token of somebody else; `FORBIDDEN` for who is no user.
    pub async fn delete_personal_access_token(
        &self,
        caller: &Caller,
        id: PersonalAccessTokenId,
    ) -> Result<PersonalAccessToken> {
        let user_id = require_user(&caller.actor)?;
        let tx = self.store.begin().await?;
        let before = people::token_held(&tx, user_id, id).await?;
        people::delete_token(&*tx, id).await?;
        let deleted = change("personal_access_token.delete", (NOUN, id), Some(&before), None)?;
        tx.commit(caller, self.now(), &[deleted]).await?;
        Ok(before)
    }

    /// The caller's tokens, oldest first.
    ///
    /// # Errors
    /// `FORBIDDEN` for who is no user.
    pub async fn personal_access_tokens(
        &self,
        actor: &Actor,
        request: &PageRequest,
    ) -> Result<Page<PersonalAccessToken>> {
        people::tokens(self.store.read(), require_user(actor)?, request).await
    }
}

/// Refuses a token that would outlive the one with which it is made.
fn within_own(actor: &Actor, expires_at: Option<DateTime<Utc>>) -> Result<()> {
    let Actor::User { ends: Some(own), .. } = actor else { return Ok(()) };
    if expires_at.is_some_and(|end| end <= *own) {
        return Ok(());
    }
    let own = own.to_rfc3339_opts(SecondsFormat::Millis, true);
    let reason = format!(
        "expiresAt must not be after {own}, when the token ends with which this one is made; sign in \
         to make one that lasts longer"
    );
    Err(Error::invalid("expiresAt", reason))
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
