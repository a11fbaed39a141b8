//! People: made, changed and deleted by administrators; each changes the own password.

use chrono::{DateTime, Utc};
use secrecy::SecretString;

use super::App;
use super::access::{require_administrator, require_user};
use super::change::change;
use crate::domain::access::Actor;
use crate::domain::audit::Caller;
use crate::domain::id::UserId;
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::domain::people::User;
use crate::error::{Error, Result};
use crate::secrets::Password;
use crate::store::ownership;
use crate::store::people::{self, NewPassword};

/// What a new user is made of.
#[derive(Debug, Clone)]
pub struct CreateUser {
    /// The address to sign in with, unique.
    pub email: String,
    /// Required, up to 100 characters.
    pub name: String,
    /// 12 to 200 characters; none: the user can't sign in with one.
    pub password: Option<SecretString>,
    /// Whether the user becomes a system administrator.
    pub administrator: bool,
}

/// What of a user is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateUser {
    /// A new address.
    pub email: Option<String>,
    /// A new name.
    pub name: Option<String>,
    /// A new password. It ends the user's sessions.
    pub password: Option<SecretString>,
    /// Whether the user is a system administrator.
    pub administrator: Option<bool>,
    /// Whether the user may not sign in. Nothing of a disabled user holds, tokens included.
    pub disabled: Option<bool>,
}

impl App {
    /// Makes a user. Administrators only.
    ///
    /// # Errors
    /// `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the address is taken.
    pub async fn create_user(&self, caller: &Caller, new: CreateUser) -> Result<User> {
        require_administrator(&caller.actor)?;
        let now = self.now();
        let user = User {
            id: UserId::new(),
            email: input::email("email", &new.email)?,
            name: input::name("name", &new.name)?,
            administrator: new.administrator,
            disabled_at: None,
            created_at: now,
            updated_at: now,
        };
        let hash = self.hash_password("password", new.password).await?;
        let tx = self.store.begin().await?;
        people::insert_user(&*tx, &user, hash).await?;
        let made = change("user.create", ("user", user.id), None, Some(&user))?;
        tx.commit(caller, now, &[made]).await?;
        Ok(user)
    }

    /// Changes a user. Administrators only.
    ///
    /// # Errors
    /// `FORBIDDEN`; `NOT_FOUND`; `INVALID` on a field; `CONFLICT` when the address is taken, and
    /// when nobody would be left who is an administrator and may sign in.
    pub async fn update_user(
        &self,
        caller: &Caller,
        id: UserId,
        update: UpdateUser,
    ) -> Result<User> {
        require_administrator(&caller.actor)?;
        let password = update.password.clone();
        let hash = self.hash_password("password", password).await?;
        let tx = self.store.begin().await?;
        let resigns = update.administrator == Some(false) || update.disabled == Some(true);
        if resigns {
            refuse_last(&people::hold_administrators(&tx).await?, id)?;
        }
        let before = people::credentials_for_change(&tx, id).await?.user;
        // Behind the hash, which takes a while: no session begins before that holds after it.
        let now = self.now();
        let after = changed(&before, update, now)?;
        let changed_password = hash.is_some();
        let password = hash.map(|hash| NewPassword { hash, sessions_valid_from: now });
        people::update_user(&*tx, &after, password).await?;
        let mut updated = change("user.update", ("user", id), Some(&before), Some(&after))?;
        note_password(&mut updated.after, changed_password);
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes a user with tokens and memberships. Administrators only.
    ///
    /// # Errors
    /// `FORBIDDEN`; `NOT_FOUND`; `CONFLICT` for the last administrator who may sign in, and for the
    /// last owner of a project. (An administrator may take that role away first.)
    pub async fn delete_user(&self, caller: &Caller, id: UserId) -> Result<User> {
        require_administrator(&caller.actor)?;
        let now = self.now();
        let tx = self.store.begin().await?;
        ownership::hold_owned(&tx, id).await?;
        refuse_last(&people::hold_administrators(&tx).await?, id)?;
        let before = people::credentials_for_change(&tx, id).await?.user;
        refuse_last_owner(&ownership::owned_alone(&*tx, id).await?)?;
        people::delete_user(&*tx, id).await?;
        let deleted = change("user.delete", ("user", id), Some(&before), None)?;
        tx.commit(caller, now, &[deleted]).await?;
        Ok(before)
    }

    /// Changes the caller's own password and ends the caller's sessions, this one too.
    ///
    /// # Errors
    /// `INVALID` on `currentPassword` when it is wrong or there is none to compare with, on
    /// `newPassword` when it breaks the rule. `RATE_LIMITED` like a sign-in. `FORBIDDEN` for who
    /// is no user.
    pub async fn change_password(
        &self,
        caller: &Caller,
        current: SecretString,
        new: SecretString,
    ) -> Result<User> {
        let id = require_user(&caller.actor)?;
        let found = people::credentials(self.store.read(), id).await?;
        let found = found.ok_or(Error::NotFound { what: UserId::WHAT })?;
        let Some(stored) = found.password_hash else {
            let reason = "this account has no password; an administrator can give it one";
            return Err(Error::invalid("currentPassword", reason));
        };
        self.check_own_password(&found.user.email, current, stored.clone()).await?;
        let hash = self.hash_password("newPassword", Some(new)).await?;
        let tx = self.store.begin().await?;
        let again = people::credentials_for_change(&tx, id).await?;
        if again.password_hash.as_ref() != Some(&stored) {
            return Err(wrong_password());
        }
        // Behind the hashes, which take a while: no session begins before that holds after it.
        let now = self.now();
        let after = User { updated_at: now, ..again.user.clone() };
        let password = hash.map(|hash| NewPassword { hash, sessions_valid_from: now });
        people::update_user(&*tx, &after, password).await?;
        let action = "user.change_password";
        let updated = change(action, ("user", id), Some(&again.user), Some(&after))?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// The caller.
    ///
    /// # Errors
    /// `FORBIDDEN` for who is no user.
    pub async fn me(&self, actor: &Actor) -> Result<User> {
        people::user(self.store.read(), require_user(actor)?).await
    }

    /// The user of that id: oneself, or anybody for an administrator.
    pub async fn user(&self, actor: &Actor, id: UserId) -> Result<User> {
        if require_administrator(actor).is_err() && require_user(actor)? != id {
            return Err(Error::NotFound { what: UserId::WHAT });
        }
        people::user(self.store.read(), id).await
    }

    /// All users. Administrators only.
    pub async fn users(&self, actor: &Actor, request: &PageRequest) -> Result<Page<User>> {
        require_administrator(actor)?;
        people::users(self.store.read(), request).await
    }

    /// The users of these ids, in no order; missing ones are left out. For ids that the caller
    /// got from something it may see, such as a project's member: nothing is checked here.
    pub async fn users_by_ids(&self, ids: &[UserId]) -> Result<Vec<User>> {
        people::users_by_ids(self.store.read(), ids).await
    }

    /// The hash of a new password; none of none.
    pub(super) async fn hash_password(
        &self,
        field: &'static str,
        password: Option<SecretString>,
    ) -> Result<Option<String>> {
        let Some(password) = password else { return Ok(None) };
        let password =
            Password::parse(password).map_err(|error| Error::invalid(field, error.to_string()))?;
        Ok(Some(self.auth.hashing.hash(password).await?))
    }
}

fn changed(before: &User, update: UpdateUser, now: DateTime<Utc>) -> Result<User> {
    let mut after = User { updated_at: now, ..before.clone() };
    if let Some(email) = update.email {
        after.email = input::email("email", &email)?;
    }
    if let Some(name) = update.name {
        after.name = input::name("name", &name)?;
    }
    after.administrator = update.administrator.unwrap_or(before.administrator);
    after.disabled_at = match update.disabled {
        None => before.disabled_at,
        Some(true) => before.disabled_at.or(Some(now)),
        Some(false) => None,
    };
    Ok(after)
}

fn refuse_last(administrators: &[UserId], id: UserId) -> Result<()> {
    if administrators == [id] {
        let reason = "this is the last administrator who may sign in; make another one first";
        return Err(Error::conflict("id", reason));
    }
    Ok(())
}

fn refuse_last_owner(projects: &[String]) -> Result<()> {
    const NAMED: usize = 5;
    if projects.is_empty() {
        return Ok(());
    }
    let mut named = projects.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if let Some(others) = projects.len().checked_sub(NAMED).filter(|others| *others > 0) {
        named = format!("{named} and {others} others");
    }
    let reason = format!(
        "this is the last owner of {named}; make another member an owner first, or delete the project"
    );
    Err(Error::conflict("id", reason))
}

/// That there is a new password shows in no other field.
pub(super) fn note_password(after: &mut Option<serde_json::Value>, changed: bool) {
    if changed && let Some(after) = after {
        after["passwordChanged"] = true.into();
    }
}

pub(super) fn wrong_password() -> Error {
    Error::invalid("currentPassword", "currentPassword is wrong; give the one you sign in with")
}
