//! Projects: any user makes one and becomes its owner.

use serde_json::json;

use super::App;
use super::access::require_user;
use super::change::change;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{ApplicationId, ProjectId, ProjectMemberId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::domain::people::{Project, ProjectMember};
use crate::error::{Error, Result};
use crate::store::{Hold, application, line, people};

/// What a new project is made of.
#[derive(Debug, Clone)]
pub struct CreateProject {
    /// The name in addresses, unique: lower-case letters, digits and hyphens.
    pub slug: String,
    /// Required, up to 100 characters.
    pub name: String,
}

/// What of a project is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateProject {
    /// A new slug.
    pub slug: Option<String>,
    /// A new name.
    pub name: Option<String>,
}

impl App {
    /// Makes a project. The user who calls becomes its owner; one that the server itself makes
    /// has none.
    ///
    /// # Errors
    /// `FORBIDDEN` for machine users; `INVALID` on a field; `CONFLICT` when the slug is taken.
    pub async fn create_project(&self, caller: &Caller, new: CreateProject) -> Result<Project> {
        let owner = match &caller.actor {
            Actor::System => None,
            actor => Some(require_user(actor)?),
        };
        let now = self.now();
        let project = Project {
            id: ProjectId::new(),
            slug: input::slug("slug", &new.slug)?,
            name: input::name("name", &new.name)?,
            created_at: now,
            updated_at: now,
        };
        let tx = self.store.begin().await?;
        people::insert_project(&*tx, &project).await?;
        if let Some(user_id) = owner {
            let member = ProjectMember {
                id: ProjectMemberId::new(),
                project_id: project.id,
                user_id,
                role: Role::Owner,
                created_at: now,
                updated_at: now,
            };
            people::insert_member(&*tx, &member).await?;
        }
        let mut created = project_change("project.create", project.id, None, Some(&project))?;
        if let Some(after) = &mut created.after {
            after["ownerId"] = json!(owner);
        }
        tx.commit(caller, now, &[created]).await?;
        Ok(project)
    }

    /// Changes a project. Maintainers and owners.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the slug is taken.
    pub async fn update_project(
        &self,
        caller: &Caller,
        id: ProjectId,
        update: UpdateProject,
    ) -> Result<Project> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = people::project_held(&tx, caller.actor.scope(), id, Hold::Change).await?;
        self.require(&*tx, &caller.actor, id, Role::Maintainer).await?;
        let mut after = Project { updated_at: now, ..before.clone() };
        if let Some(slug) = update.slug {
            after.slug = input::slug("slug", &slug)?;
        }
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        people::update_project(&*tx, &after).await?;
        let updated = project_change("project.update", id, Some(&before), Some(&after))?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes a project with its applications and LINE OAs, their ledger and queued work. Owners
    /// only. The audit row says how much went.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_project(&self, caller: &Caller, id: ProjectId) -> Result<Project> {
        let tx = self.store.begin().await?;
        let before = people::project_held(&tx, caller.actor.scope(), id, Hold::Delete).await?;
        self.require(&*tx, &caller.actor, id, Role::Owner).await?;
        let applications = application::hold_all_of(&tx, id).await?;
        let ids: Vec<ApplicationId> = applications.iter().map(|found| found.id).collect();
        let contents = application::contents(&*tx, &ids).await?;
        // Work before LINE OAs, as whoever finishes it.
        people::delete_work_of_project(&*tx, id).await?;
        let line_oas = line::hold_all_of(&tx, id).await?;
        people::delete_project(&*tx, id).await?;
        let mut deleted = project_change("project.delete", id, Some(&before), None)?;
        if let Some(before) = &mut deleted.before {
            before["applications"] = json!(applications);
            before["contents"] = json!(contents);
            before["lineOas"] = json!(line_oas);
        }
        tx.commit(caller, self.now(), &[deleted]).await?;
        for application in applications {
            self.metrics.remove_app(application.id);
        }
        Ok(before)
    }

    /// The project of that id.
    pub async fn project(&self, scope: Scope, id: ProjectId) -> Result<Project> {
        people::project(self.store.read(), scope, id).await
    }

    /// The project of that slug.
    pub async fn project_by_slug(&self, scope: Scope, slug: &str) -> Result<Project> {
        if input::slug("slug", slug).is_err() {
            return Err(Error::NotFound { what: ProjectId::WHAT });
        }
        people::project_by_slug(self.store.read(), scope, slug).await
    }

    /// The projects of these ids, in no order; those out of scope are left out.
    pub async fn projects_by_ids(&self, scope: Scope, ids: &[ProjectId]) -> Result<Vec<Project>> {
        people::projects_by_ids(self.store.read(), scope, ids).await
    }

    /// The projects in scope, by slug.
    pub async fn projects(&self, scope: Scope, request: &PageRequest) -> Result<Page<Project>> {
        people::projects(self.store.read(), scope, request).await
    }
}

fn project_change(
    action: &'static str,
    id: ProjectId,
    before: Option<&Project>,
    after: Option<&Project>,
) -> Result<Change> {
    Ok(Change { project_id: Some(id), ..change(action, ("project", id), before, after)? })
}
