//! Who has which role in a project. Owners decide; administrators may everything.
//!
//! A project must not lose its last owner by accident: every change of members holds the
//! project's row first, so that two owners who remove each other at once are not both heard.

use super::App;
use super::access::require_administrator;
use super::change::change;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{ProjectId, ProjectMemberId, UserId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::domain::people::ProjectMember;
use crate::error::{Error, Result};
use crate::store::{Hold, Tx, ownership, people};

/// Who is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRef {
    /// The user of that id.
    Id(UserId),
    /// The user of that address.
    Email(String),
}

/// What a new membership is made of.
#[derive(Debug, Clone)]
pub struct AddProjectMember {
    /// The project.
    pub project_id: ProjectId,
    /// Who is to be a member.
    pub user: UserRef,
    /// What the member may do.
    pub role: Role,
}

impl App {
    /// Makes a user a member of a project. Owners only.
    ///
    /// # Errors
    /// `NOT_FOUND` for the project or the id of no user; `INVALID` on `email` for the address of
    /// none; `FORBIDDEN`; `CONFLICT` when the user is a member already.
    pub async fn add_project_member(
        &self,
        caller: &Caller,
        new: AddProjectMember,
    ) -> Result<ProjectMember> {
        let now = self.now();
        let tx = self.store.begin().await?;
        self.held_for_members(&tx, &caller.actor, new.project_id).await?;
        let member = ProjectMember {
            id: ProjectMemberId::new(),
            project_id: new.project_id,
            user_id: referred(&tx, new.user).await?,
            role: new.role,
            created_at: now,
            updated_at: now,
        };
        people::insert_member(&*tx, &member).await?;
        let added = member_change("project_member.create", &member, None, Some(&member))?;
        tx.commit(caller, now, &[added]).await?;
        Ok(member)
    }

    /// Gives a member another role. Owners only.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `CONFLICT` for the last owner unless an administrator does it.
    pub async fn update_project_member(
        &self,
        caller: &Caller,
        id: ProjectMemberId,
        role: Role,
    ) -> Result<ProjectMember> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = self.held_member(&tx, &caller.actor, id).await?;
        if role < Role::Owner {
            keep_an_owner(&tx, &caller.actor, &before).await?;
        }
        let after = ProjectMember { role, updated_at: now, ..before.clone() };
        people::update_member(&*tx, &after).await?;
        let updated = member_change("project_member.update", &after, Some(&before), Some(&after))?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Ends a membership. Owners only.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `CONFLICT` for the last owner unless an administrator does it.
    pub async fn remove_project_member(
        &self,
        caller: &Caller,
        id: ProjectMemberId,
    ) -> Result<ProjectMember> {
        let tx = self.store.begin().await?;
        let before = self.held_member(&tx, &caller.actor, id).await?;
        keep_an_owner(&tx, &caller.actor, &before).await?;
        people::delete_member(&*tx, id).await?;
        let removed = member_change("project_member.delete", &before, Some(&before), None)?;
        tx.commit(caller, self.now(), &[removed]).await?;
        Ok(before)
    }

    /// The members of a project, oldest first; none of one out of scope, and none for machines.
    pub async fn project_members(
        &self,
        scope: Scope,
        project: ProjectId,
        request: &PageRequest,
    ) -> Result<Page<ProjectMember>> {
        match scope {
            Scope::Application(_) => Ok(Page::empty(request)),
            _ => people::members(self.store.read(), scope, project, request).await,
        }
    }

    /// The member of that id, after its project is held: as it is now.
    async fn held_member(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: ProjectMemberId,
    ) -> Result<ProjectMember> {
        let found = people::member(&**tx, actor.scope(), id).await?;
        self.held_for_members(tx, actor, found.project_id).await?;
        people::member(&**tx, actor.scope(), id).await
    }

    async fn held_for_members(&self, tx: &Tx, actor: &Actor, project: ProjectId) -> Result<()> {
        people::project_held(tx, actor.scope(), project, Hold::Change).await?;
        self.require(&**tx, actor, project, Role::Owner).await
    }
}

async fn referred(tx: &Tx, user: UserRef) -> Result<UserId> {
    match user {
        UserRef::Id(id) => Ok(people::user(&**tx, id).await?.id),
        UserRef::Email(email) => {
            let email = input::email("email", &email)?;
            let found = people::credentials_by_email(&**tx, &email).await?;
            found.map(|found| found.user.id).ok_or_else(|| {
                let reason = "no user has this e-mail address; an administrator makes users";
                Error::invalid("email", reason)
            })
        }
    }
}

/// Refuses to take the role of the last owner.
async fn keep_an_owner(tx: &Tx, actor: &Actor, member: &ProjectMember) -> Result<()> {
    let last = member.role == Role::Owner
        && ownership::count_owners(&**tx, member.project_id).await? <= 1
        && require_administrator(actor).is_err();
    if last {
        let reason = "this is the project's last owner; make another member an owner first";
        return Err(Error::conflict("id", reason));
    }
    Ok(())
}

fn member_change(
    action: &'static str,
    member: &ProjectMember,
    before: Option<&ProjectMember>,
    after: Option<&ProjectMember>,
) -> Result<Change> {
    let entity = ("project_member", member.id);
    Ok(Change { project_id: Some(member.project_id), ..change(action, entity, before, after)? })
}
