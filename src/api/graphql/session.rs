//! Signing in, and the tokens that users make for programs.

use std::net::IpAddr;

use async_graphql::{Context, ID, Object, SimpleObject};
use secrecy::ExposeSecret;

use super::connection::Connection;
use super::context::{app, caller, page};
use super::time::DateTime;
use super::user::User;
use crate::app::SignedIn;
use crate::domain::id::PersonalAccessTokenId;
use crate::domain::people as domain;
use crate::error::Result;

/// Where a request comes from, for the limit on sign-ins and for the audit log.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The client's address, if it is known.
    pub address: Option<IpAddr>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// A session that began.
#[derive(SimpleObject)]
pub struct Session {
    /// The token to send as `Authorization: Bearer`.
    token: String,
    /// From when the token no longer holds.
    expires_at: DateTime,
    /// Who signed in.
    user: User,
}

impl From<SignedIn> for Session {
    fn from(session: SignedIn) -> Self {
        Self {
            token: session.token.expose_secret().to_owned(),
            expires_at: session.expires_at.into(),
            user: User(session.user),
        }
    }
}

/// A personal access token.
pub struct PersonalAccessToken(pub domain::PersonalAccessToken);

/// A token that a user made for a program, which may then what the user may.
#[Object]
impl PersonalAccessToken {
    /// The id (not the token).
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// What it is for.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The token's first characters, to tell tokens apart.
    async fn token_prefix(&self) -> &str {
        &self.0.token_prefix
    }

    /// From when it no longer holds; none: it holds until deleted. Not after the end of the token with
    /// which it is made, if that has one.
    async fn expires_at(&self) -> Option<DateTime> {
        self.0.expires_at.map(Into::into)
    }

    /// When it was last used, to within a minute.
    async fn last_used_at(&self) -> Option<DateTime> {
        self.0.last_used_at.map(Into::into)
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }
}

/// A personal access token with the token itself.
#[derive(SimpleObject)]
pub struct PersonalAccessTokenWithToken {
    /// The token, to be sent as `Authorization: Bearer`. It is shown this once.
    token: String,
    /// What is known of it.
    personal_access_token: PersonalAccessToken,
}

/// Queries of tokens.
#[derive(Default)]
pub struct SessionQuery;

#[Object]
impl SessionQuery {
    /// The caller's personal access tokens, the oldest first. `FORBIDDEN` for machine users.
    async fn personal_access_tokens(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<PersonalAccessToken>> {
        let caller = caller(ctx)?;
        let request = page(ctx, (first, after, last, before))?;
        let page = app(ctx).personal_access_tokens(&caller.actor, &request).await?;
        Ok(Connection::new(page, PersonalAccessToken))
    }
}

/// Mutations of sessions and tokens.
#[derive(Default)]
pub struct SessionMutation;

#[Object]
impl SessionMutation {
    /// Begins a session. Needs no credentials. `UNAUTHENTICATED` when address or password is
    /// wrong, `RATE_LIMITED` after too many attempts in a minute.
    async fn sign_in(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The user's address.")] email: String,
        #[graphql(desc = "The user's password.", secret)] password: String,
    ) -> Result<Session> {
        let origin = ctx.data_opt::<Origin>().cloned().unwrap_or_default();
        let (address, request_id) = (origin.address, origin.request_id);
        Ok(app(ctx).sign_in(&email, password.into(), address, request_id).await?.into())
    }

    /// Makes a token with which a program may what the caller may. `FORBIDDEN` for machine users.
    async fn create_personal_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What it is for, 1 to 100 characters.")] name: String,
        #[graphql(
            desc = "From when it no longer holds; none: it holds until deleted. Where it is \
                          made with a token that ends, given and not after that end."
        )]
        expires_at: Option<DateTime>,
    ) -> Result<PersonalAccessTokenWithToken> {
        let caller = caller(ctx)?;
        let expires_at = expires_at.map(Into::into);
        let (token, made) =
            app(ctx).create_personal_access_token(caller, &name, expires_at).await?;
        Ok(PersonalAccessTokenWithToken {
            token: token.expose_secret().to_owned(),
            personal_access_token: PersonalAccessToken(made),
        })
    }

    /// Deletes one of the caller's tokens and answers it as it was; it no longer holds.
    async fn delete_personal_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id (not the token).")] id: ID,
    ) -> Result<PersonalAccessToken> {
        let caller = caller(ctx)?;
        let id = PersonalAccessTokenId::parse(&id)?;
        Ok(PersonalAccessToken(app(ctx).delete_personal_access_token(caller, id).await?))
    }
}
