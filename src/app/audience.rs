//! Audiences of LINE OAs, and who is in them. Maintainers and owners write; machine users see none.

use serde_json::json;

use super::App;
use super::change::change;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audience::{Audience, AudienceMember};
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{AudienceId, LineOaId};
use crate::domain::input;
use crate::domain::line;
use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::{Hold, Tx, audience};

/// What a new audience is made of.
#[derive(Debug, Clone)]
pub struct CreateAudience {
    /// The LINE OA it belongs to.
    pub line_oa_id: LineOaId,
    /// Required, up to 100 characters, unique in the LINE OA.
    pub name: String,
    /// Up to 1000 characters.
    pub description: String,
}

/// What of an audience is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateAudience {
    /// A new name.
    pub name: Option<String>,
    /// A new description.
    pub description: Option<String>,
}

/// The most users that one call puts into an audience, or takes out.
pub const MEMBERS_MAX: usize = 10_000;

/// How many of the users of a call stand in its audit row.
const AUDITED_MEMBERS: usize = 100;

impl App {
    /// Makes an audience, which is empty.
    ///
    /// # Errors
    /// `NOT_FOUND` for the LINE OA; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `name` when
    /// the LINE OA has one of that name.
    pub async fn create_audience(&self, caller: &Caller, new: CreateAudience) -> Result<Audience> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let line_oa = self.writable_line_oa(&*tx, &caller.actor, new.line_oa_id).await?;
        let made = Audience {
            id: AudienceId::new(),
            line_oa_id: line_oa.id,
            organization_id: line_oa.organization_id,
            name: input::name("name", &new.name)?,
            description: input::description("description", &new.description)?,
            created_at: now,
            updated_at: now,
        };
        audience::insert(&*tx, &made).await?;
        let created = own_change("audience.create", &made, None, Some(&made))?;
        tx.commit(caller, now, &[created]).await?;
        Ok(made)
    }

    /// Changes an audience; its members stay.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `name` when the LINE OA has
    /// one of that name.
    pub async fn update_audience(
        &self,
        caller: &Caller,
        id: AudienceId,
        update: UpdateAudience,
    ) -> Result<Audience> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = self.held_audience(&tx, &caller.actor, id, Hold::Change).await?;
        let mut after = Audience { updated_at: now, ..before.clone() };
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(description) = update.description {
            after.description = input::description("description", &description)?;
        }
        audience::update(&*tx, &after).await?;
        let updated = own_change("audience.update", &after, Some(&before), Some(&after))?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes an audience; its users stay known. Work that would add to it, and rules that walk
    /// it, find nobody. The audit row says how many members it had.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_audience(&self, caller: &Caller, id: AudienceId) -> Result<Audience> {
        let tx = self.store.begin().await?;
        let before = self.held_audience(&tx, &caller.actor, id, Hold::Delete).await?;
        let members = audience::count(&*tx, id).await?;
        audience::delete(&*tx, id).await?;
        let mut deleted = own_change("audience.delete", &before, Some(&before), None)?;
        if let Some(before) = &mut deleted.before {
            before["memberCount"] = json!(members);
        }
        tx.commit(caller, self.now(), &[deleted]).await?;
        Ok(before)
    }

    /// Puts users into an audience and makes them known. Who is in it already stays, so that the
    /// same call once more changes nothing. Answers how many are new in it. The audit row holds
    /// the first 100 user ids.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on `userIds` for none or more than [`MEMBERS_MAX`], and
    /// on `userIds[n]` for one that is no LINE user id; then nobody is added.
    pub async fn add_audience_members(
        &self,
        caller: &Caller,
        id: AudienceId,
        user_ids: &[String],
    ) -> Result<(Audience, u64)> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let found = self.writable_audience(&tx, &caller.actor, id).await?;
        check_users(user_ids)?;
        let rows: Vec<_> = user_ids.iter().map(|user| (found.id, found.line_oa_id, user)).collect();
        let added = audience::add(&*tx, &rows, now).await?;
        let change = members_change("audience.add_members", &found, user_ids, ("added", added))?;
        tx.commit(caller, now, &[change]).await?;
        Ok((found, added))
    }

    /// Takes users out of an audience; they stay known. Who is not in it is passed over, so that
    /// the same call once more changes nothing. Answers how many were in it. The audit row holds
    /// the first 100 user ids.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on `userIds` for none or more than [`MEMBERS_MAX`], and
    /// on `userIds[n]` for one that is no LINE user id; then nobody is removed.
    pub async fn remove_audience_members(
        &self,
        caller: &Caller,
        id: AudienceId,
        user_ids: &[String],
    ) -> Result<(Audience, u64)> {
        let tx = self.store.begin().await?;
        let found = self.writable_audience(&tx, &caller.actor, id).await?;
        check_users(user_ids)?;
        let removed = audience::remove(&*tx, id, user_ids).await?;
        let counted = ("removed", removed);
        let change = members_change("audience.remove_members", &found, user_ids, counted)?;
        tx.commit(caller, self.now(), &[change]).await?;
        Ok((found, removed))
    }

    /// The audience of that id.
    pub async fn audience(&self, scope: Scope, id: AudienceId) -> Result<Audience> {
        audience::find(self.store.read(), scope, id).await
    }

    /// The audiences of these ids, in no order; those out of scope are left out.
    pub async fn audiences_by_ids(
        &self,
        scope: Scope,
        ids: &[AudienceId],
    ) -> Result<Vec<Audience>> {
        audience::find_all(self.store.read(), scope, ids).await
    }

    /// The audiences of a LINE OA that `filter` asks for; none of one out of scope.
    pub async fn audiences(
        &self,
        scope: Scope,
        filter: &audience::Filter,
        sort: (audience::Sort, Direction),
        request: &PageRequest,
    ) -> Result<Page<Audience>> {
        audience::list(self.store.read(), scope, filter, sort, request).await
    }

    /// The members of an audience by user id. For an audience in the caller's scope.
    pub async fn audience_members(
        &self,
        audience: AudienceId,
        request: &PageRequest,
    ) -> Result<Page<AudienceMember>> {
        audience::members(self.store.read(), audience, request).await
    }

    /// How many members these audiences have; those without are left out. For audiences in the
    /// caller's scope.
    pub async fn audience_sizes(&self, ids: &[AudienceId]) -> Result<Vec<(AudienceId, i64)>> {
        audience::counts(self.store.read(), ids).await
    }

    /// The audience of that id, if `actor` may see it and change what belongs to it.
    async fn writable_audience(&self, tx: &Tx, actor: &Actor, id: AudienceId) -> Result<Audience> {
        let found = audience::find(&**tx, actor.scope(), id).await?;
        self.require(&**tx, actor, found.organization_id, Role::Maintainer).await?;
        Ok(found)
    }

    /// The same, held.
    async fn held_audience(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: AudienceId,
        hold: Hold,
    ) -> Result<Audience> {
        let found = audience::find_held(tx, actor.scope(), id, hold).await?;
        self.require(&**tx, actor, found.organization_id, Role::Maintainer).await?;
        Ok(found)
    }
}

fn check_users(user_ids: &[String]) -> Result<()> {
    if !(1..=MEMBERS_MAX).contains(&user_ids.len()) {
        let reason = format!(
            "userIds must hold 1 to {MEMBERS_MAX} LINE user ids, it holds {}",
            user_ids.len()
        );
        return Err(Error::invalid("userIds", reason));
    }
    for (index, text) in user_ids.iter().enumerate() {
        line::user_id("userIds", text).map_err(|error| {
            let field = format!("userIds[{index}]");
            let reason = error.to_string().replacen("userIds", &field, 1);
            Error::invalid(field, reason)
        })?;
    }
    Ok(())
}

fn own_change(
    action: &'static str,
    of: &Audience,
    before: Option<&Audience>,
    after: Option<&Audience>,
) -> Result<Change> {
    let project_id = Some(of.organization_id);
    Ok(Change { project_id, ..change(action, ("audience", of.id), before, after)? })
}

fn members_change(
    action: &'static str,
    of: &Audience,
    user_ids: &[String],
    (done, count): (&str, u64),
) -> Result<Change> {
    let mut after = json!({
        "audienceName": of.name,
        "lineOaId": of.line_oa_id,
        "requested": user_ids.len(),
        "userIds": &user_ids[..user_ids.len().min(AUDITED_MEMBERS)],
    });
    after[done] = json!(count);
    Ok(Change { after: Some(after), ..own_change(action, of, None, None)? })
}
