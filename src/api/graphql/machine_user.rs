//! Machine users.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, SimpleObject};
use futures::FutureExt;
use secrecy::{ExposeSecret, SecretString};

use super::application::Application;
use super::connection::{Connection, Listed};
use super::context::{Paging, app, caller, named, page, scope};
use super::error::{Fault, nullable};
use super::time::DateTime;
use crate::app::{CreateMachineUser, UpdateMachineUser};
use crate::domain::application as domain;
use crate::domain::id::{ApplicationId, MachineUserId};
use crate::error::Result;

/// A machine user.
pub struct MachineUser(pub domain::MachineUser);

/// The identity that an application's backends use. It touches its own application only.
#[Object]
impl MachineUser {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its application, the only one that it touches.
    async fn application(&self, ctx: &Context<'_>) -> Result<Application, Fault> {
        super::application::load(ctx, self.0.application_id).await
    }

    /// The name shown.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The environment's name, for example `production`.
    async fn environment(&self) -> &str {
        &self.0.environment
    }

    /// The name for Basic authentication, unique in the whole server.
    async fn username(&self) -> &str {
        &self.0.username
    }

    /// The token's first characters, to tell tokens apart.
    async fn token_prefix(&self) -> &str {
        &self.0.token_prefix
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

/// A machine user and its new token.
#[derive(SimpleObject)]
pub struct MachineUserWithToken {
    /// The machine user.
    machine_user: MachineUser,
    /// The token, to be sent as `Authorization: Bearer`. It is shown this once.
    token: String,
}

impl From<(domain::MachineUser, SecretString)> for MachineUserWithToken {
    fn from((machine_user, token): (domain::MachineUser, SecretString)) -> Self {
        Self { machine_user: MachineUser(machine_user), token: token.expose_secret().to_owned() }
    }
}

/// A new machine user.
#[derive(InputObject)]
pub struct CreateMachineUserInput {
    /// The application it belongs to, the only one that it touches.
    application_id: ID,
    /// The name shown, 1 to 100 characters.
    name: String,
    /// The environment's name, for example `production`, 1 to 100 characters.
    environment: String,
    /// The name for Basic authentication, unique in the whole server: 1 to 100 characters without
    /// a colon.
    username: String,
    /// The password for Basic authentication, 12 to 200 characters; none: only the token holds.
    #[graphql(secret)]
    password: Option<String>,
}

/// What of a machine user is to change. What is left out or null stays as it is, unless said
/// otherwise.
#[derive(InputObject)]
pub struct UpdateMachineUserInput {
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// Another environment, 1 to 100 characters.
    environment: Option<String>,
    /// A new password, 12 to 200 characters; null: from now on only the token holds.
    #[graphql(secret)]
    password: MaybeUndefined<String>,
}

/// Reads a page of machine users.
pub(super) fn read_machine_users<'a>(
    ctx: &'a Context<'_>,
    application: ApplicationId,
    paging: Paging,
) -> Listed<'a, MachineUser> {
    async move {
        let (scope, request) = (scope(ctx)?, page(ctx, paging)?);
        let page = app(ctx).machine_users(scope, application, &request).await?;
        Ok(Connection::new(page, MachineUser))
    }
    .boxed()
}

/// Queries of machine users.
#[derive(Default)]
pub struct MachineUserQuery;

#[Object]
impl MachineUserQuery {
    /// The machine user of that id. `NOT_FOUND` when there is none that the caller may see.
    async fn machine_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<MachineUser, Fault>> {
        let found = async { app(ctx).machine_user(scope(ctx)?, MachineUserId::parse(&id)?).await };
        nullable(async { Ok(MachineUser(found.await?)) }).await
    }

    /// An application's machine users, the oldest first; none of one that the caller may not see.
    async fn machine_users(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<MachineUser>> {
        let application = named("applicationId", &application_id)?;
        read_machine_users(ctx, application, (first, after, last, before)).await
    }
}

/// Mutations of machine users.
#[derive(Default)]
pub struct MachineUserMutation;

#[Object]
impl MachineUserMutation {
    /// Makes a machine user and its token. Needs the maintainer or owner role in the project.
    async fn create_machine_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new machine user.")] input: CreateMachineUserInput,
    ) -> Result<MachineUserWithToken> {
        let caller = caller(ctx)?;
        let new = CreateMachineUser {
            application_id: ApplicationId::parse(&input.application_id)?,
            name: input.name,
            environment: input.environment,
            username: input.username,
            password: input.password.map(SecretString::from),
        };
        Ok(app(ctx).create_machine_user(caller, new).await?.into())
    }

    /// Changes a machine user and answers it as it is then. Needs the maintainer or owner role in
    /// the project.
    async fn update_machine_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateMachineUserInput,
    ) -> Result<MachineUser> {
        let caller = caller(ctx)?;
        let password: Option<Option<String>> = input.password.into();
        let update = UpdateMachineUser {
            name: input.name,
            environment: input.environment,
            password: password.map(|password| password.map(SecretString::from)),
        };
        let id = MachineUserId::parse(&id)?;
        Ok(MachineUser(app(ctx).update_machine_user(caller, id, update).await?))
    }

    /// Makes a new token for a machine user; the old one no longer holds. Needs the maintainer or
    /// owner role in the project.
    async fn rotate_machine_user_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The machine user's id.")] id: ID,
    ) -> Result<MachineUserWithToken> {
        let caller = caller(ctx)?;
        let id = MachineUserId::parse(&id)?;
        Ok(app(ctx).rotate_machine_user_token(caller, id).await?.into())
    }

    /// Deletes a machine user and answers it as it was; its token and password no longer hold.
    /// Needs the maintainer or owner role in the project. Backends that it registered stay.
    async fn delete_machine_user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<MachineUser> {
        let caller = caller(ctx)?;
        let id = MachineUserId::parse(&id)?;
        Ok(MachineUser(app(ctx).delete_machine_user(caller, id).await?))
    }
}
