//! Machine users: the identities of an application's backends. Maintainers and owners write.

use secrecy::SecretString;

use super::App;
use super::application::change_in;
use super::user::note_password;
use crate::domain::access::{Actor, Scope};
use crate::domain::application::{Application, MachineUser};
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, MachineUserId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::error::{Error, Result};
use crate::secrets::{TokenKind, generate_token};
use crate::store::application::MachineCredentials;
use crate::store::{Hold, Tx, application};

/// What a new machine user is made of.
#[derive(Debug, Clone)]
pub struct CreateMachineUser {
    /// The application it belongs to, the only one that it touches.
    pub application_id: ApplicationId,
    /// Required, up to 100 characters.
    pub name: String,
    /// The environment's name, for example `production`; required, up to 100 characters.
    pub environment: String,
    /// The name for Basic authentication, unique in the whole server: up to 100 characters
    /// without a colon.
    pub username: String,
    /// 12 to 200 characters; none: only the token holds.
    pub password: Option<SecretString>,
}

/// What of a machine user is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateMachineUser {
    /// A new name.
    pub name: Option<String>,
    /// Another environment.
    pub environment: Option<String>,
    /// A new password; `Some(None)`: from now on only the token holds.
    pub password: Option<Option<SecretString>>,
}

impl App {
    /// Makes a machine user and its token, which can't be read again.
    ///
    /// # Errors
    /// `NOT_FOUND` for the application; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the
    /// user name is taken, in whichever application.
    pub async fn create_machine_user(
        &self,
        caller: &Caller,
        new: CreateMachineUser,
    ) -> Result<(MachineUser, SecretString)> {
        let now = self.now();
        // Before the slow hash, and outside of the transaction that it would keep waiting.
        self.writable_application(self.store.read(), &caller.actor, new.application_id).await?;
        let token = generate_token(TokenKind::MachineUser);
        let machine_user = MachineUser {
            id: MachineUserId::new(),
            application_id: new.application_id,
            name: input::name("name", &new.name)?,
            environment: input::name("environment", &new.environment)?,
            username: username(&new.username)?,
            token_prefix: token.prefix,
            created_at: now,
            updated_at: now,
        };
        let credentials = MachineCredentials {
            password_hash: self.hash_password("password", new.password).await?,
            token_hash: token.hash.to_string(),
        };
        let tx = self.store.begin().await?;
        let application =
            self.writable_application(&*tx, &caller.actor, new.application_id).await?;
        application::insert_machine_user(&*tx, &machine_user, &credentials).await?;
        let (entity, both) = (entity(machine_user.id), (None, Some(&machine_user)));
        let created = change_in(&application, "machine_user.create", entity, both)?;
        tx.commit(caller, now, &[created]).await?;
        Ok((machine_user, token.secret))
    }

    /// Changes a machine user.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field.
    pub async fn update_machine_user(
        &self,
        caller: &Caller,
        id: MachineUserId,
        update: UpdateMachineUser,
    ) -> Result<MachineUser> {
        let now = self.now();
        let found = self.machine_user(caller.actor.scope(), id).await?;
        self.writable_application(self.store.read(), &caller.actor, found.application_id).await?;
        let password_hash = match update.password {
            None => None,
            Some(password) => Some(self.hash_password("password", password).await?),
        };
        let tx = self.store.begin().await?;
        let (application, before, mut credentials) =
            self.held_machine_user(&tx, &caller.actor, id).await?;
        let mut after = MachineUser { updated_at: now, ..before.clone() };
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(environment) = update.environment {
            after.environment = input::name("environment", &environment)?;
        }
        let changed_password = password_hash.is_some();
        credentials.password_hash = password_hash.unwrap_or(credentials.password_hash);
        application::update_machine_user(&*tx, &after, &credentials).await?;
        let both = (Some(&before), Some(&after));
        let mut updated = change_in(&application, "machine_user.update", entity(id), both)?;
        note_password(&mut updated.after, changed_password);
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Makes a new token, which can't be read again; the old one no longer holds.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn rotate_machine_user_token(
        &self,
        caller: &Caller,
        id: MachineUserId,
    ) -> Result<(MachineUser, SecretString)> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (application, before, mut credentials) =
            self.held_machine_user(&tx, &caller.actor, id).await?;
        let token = generate_token(TokenKind::MachineUser);
        credentials.token_hash = token.hash.to_string();
        let after = MachineUser { token_prefix: token.prefix, updated_at: now, ..before.clone() };
        application::update_machine_user(&*tx, &after, &credentials).await?;
        let both = (Some(&before), Some(&after));
        let rotated = change_in(&application, "machine_user.rotate_token", entity(id), both)?;
        tx.commit(caller, now, &[rotated]).await?;
        Ok((after, token.secret))
    }

    /// Deletes a machine user. Backends that it registered stay, and go silent when nobody sends
    /// heartbeats for them.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_machine_user(
        &self,
        caller: &Caller,
        id: MachineUserId,
    ) -> Result<MachineUser> {
        let tx = self.store.begin().await?;
        let (application, before, _) = self.held_machine_user(&tx, &caller.actor, id).await?;
        application::delete_machine_user(&*tx, id).await?;
        let both = (Some(&before), None);
        let deleted = change_in(&application, "machine_user.delete", entity(id), both)?;
        tx.commit(caller, self.now(), &[deleted]).await?;
        Ok(before)
    }

    /// The machine user of that id.
    pub async fn machine_user(&self, scope: Scope, id: MachineUserId) -> Result<MachineUser> {
        Ok(application::machine_user(self.store.read(), scope, id).await?.0)
    }

    /// An application's machine users, oldest first; none of one out of scope.
    pub async fn machine_users(
        &self,
        scope: Scope,
        application: ApplicationId,
        request: &PageRequest,
    ) -> Result<Page<MachineUser>> {
        application::machine_users(self.store.read(), scope, application, request).await
    }

    /// The machine user of that id, after its application is held: as it is now.
    async fn held_machine_user(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: MachineUserId,
    ) -> Result<(Application, MachineUser, MachineCredentials)> {
        let (found, _) = application::machine_user(&**tx, actor.scope(), id).await?;
        let application =
            self.held_application(tx, actor, found.application_id, Hold::Change).await?;
        let (machine_user, credentials) =
            application::machine_user(&**tx, actor.scope(), id).await?;
        Ok((application, machine_user, credentials))
    }
}

fn entity(id: MachineUserId) -> (&'static str, uuid::Uuid) {
    ("machine_user", id.0)
}

/// RFC 7617: the user name ends at the first colon.
fn username(text: &str) -> Result<String> {
    let name = input::name("username", text)?;
    if name.contains(':') {
        return Err(Error::invalid("username", "username must not contain a colon"));
    }
    Ok(name)
}
