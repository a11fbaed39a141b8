//! Users.

use async_graphql::{Context, ID, InputObject, Object};
use secrecy::SecretString;

use super::connection::Connection;
use super::context::{app, caller, loaders, page};
use super::error::{Fault, nullable};
use super::time::DateTime;
use crate::app::{CreateUser, UpdateUser};
use crate::domain::access::Actor;
use crate::domain::id::UserId;
use crate::domain::people as domain;
use crate::error::Result;

/// A user.
pub struct User(pub domain::User);

/// A person who signs in.
#[Object]
impl User {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The address that the user signs in with, in lower case, unique.
    async fn email(&self) -> &str {
        &self.0.email
    }

    /// The name shown to others.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the user is a system administrator, who may everything. Told to the user and to
    /// administrators; none to others.
    async fn administrator(&self, ctx: &Context<'_>) -> Option<bool> {
        self.is_told_to(ctx).then_some(self.0.administrator)
    }

    /// Since when nothing of the user holds, tokens included; none: the user may sign in. Told to the
    /// user and to administrators; none to others.
    async fn disabled_at(&self, ctx: &Context<'_>) -> Option<DateTime> {
        self.0.disabled_at.filter(|_| self.is_told_to(ctx)).map(Into::into)
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

impl User {
    /// Whether the caller is this user or an administrator. Who has just signed in has no caller
    /// yet, and sees none but themselves.
    fn is_told_to(&self, ctx: &Context<'_>) -> bool {
        match caller(ctx).map(|caller| &caller.actor) {
            Ok(Actor::User { id, administrator, .. }) => *administrator || *id == self.0.id,
            Ok(_) => false,
            Err(_) => true,
        }
    }
}

/// A new user.
#[derive(InputObject)]
pub struct CreateUserInput {
    /// The address to sign in with, unique.
    email: String,
    /// The name shown to others, 1 to 100 characters.
    name: String,
    /// The password, 12 to 200 characters; none: the user can't sign in with one.
    #[graphql(secret)]
    password: Option<String>,
    /// Whether the user becomes a system administrator.
    #[graphql(default = false)]
    administrator: bool,
}

/// What of a user is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateUserInput {
    /// A new address.
    email: Option<String>,
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// A new password, 12 to 200 characters. It ends the user's sessions.
    #[graphql(secret)]
    password: Option<String>,
    /// Whether the user is a system administrator.
    administrator: Option<bool>,
    /// Whether nothing of the user holds, tokens included.
    disabled: Option<bool>,
}

/// Queries of users.
#[derive(Default)]
pub struct UserQuery;

#[Object]
impl UserQuery {
    /// The caller. `FORBIDDEN` for machine users.
    async fn me(&self, ctx: &Context<'_>) -> Result<User> {
        let caller = caller(ctx)?;
        Ok(User(app(ctx).me(&caller.actor).await?))
    }

    /// The user of that id: the caller, or for system administrators anyone. `NOT_FOUND`
    /// otherwise, `FORBIDDEN` for machine users.
    async fn user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<User, Fault>> {
        let found = async { app(ctx).user(&caller(ctx)?.actor, UserId::parse(&id)?).await };
        nullable(async { Ok(User(found.await?)) }).await
    }

    /// All users, the oldest first. For system administrators.
    async fn users(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<User>> {
        let caller = caller(ctx)?;
        let request = page(ctx, (first, after, last, before))?;
        Ok(Connection::new(app(ctx).users(&caller.actor, &request).await?, User))
    }
}

/// Mutations of users.
#[derive(Default)]
pub struct UserMutation;

#[Object]
impl UserMutation {
    /// Makes a user. For system administrators.
    async fn create_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new user.")] input: CreateUserInput,
    ) -> Result<User> {
        let caller = caller(ctx)?;
        let new = CreateUser {
            email: input.email,
            name: input.name,
            password: input.password.map(SecretString::from),
            administrator: input.administrator,
        };
        Ok(User(app(ctx).create_user(caller, new).await?))
    }

    /// Changes a user and answers it as it is then. For system administrators. `CONFLICT` when no
    /// administrator would be left who may sign in.
    async fn update_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateUserInput,
    ) -> Result<User> {
        let caller = caller(ctx)?;
        let update = UpdateUser {
            email: input.email,
            name: input.name,
            password: input.password.map(SecretString::from),
            administrator: input.administrator,
            disabled: input.disabled,
        };
        Ok(User(app(ctx).update_user(caller, UserId::parse(&id)?, update).await?))
    }

    /// Deletes a user with tokens and memberships, and answers it as it was. For system
    /// administrators. `CONFLICT` for the last administrator who may sign in, and for the last
    /// owner of a project.
    async fn delete_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<User> {
        let caller = caller(ctx)?;
        Ok(User(app(ctx).delete_user(caller, UserId::parse(&id)?).await?))
    }

    /// Changes the caller's own password and ends the caller's sessions, this one too. Tokens
    /// hold on.
    async fn change_password(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The password as it is.", secret)] current_password: String,
        #[graphql(desc = "The new one, 12 to 200 characters.", secret)] new_password: String,
    ) -> Result<User> {
        let caller = caller(ctx)?;
        let (current, new) = (current_password.into(), new_password.into());
        Ok(User(app(ctx).change_password(caller, current, new).await?))
    }
}

/// The user of that id, loaded with those of its siblings. For ids that came from something in the
/// caller's scope.
pub(super) async fn load(ctx: &Context<'_>, id: UserId) -> Result<Option<User>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(User))
}
