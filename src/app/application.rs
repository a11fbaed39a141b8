//! Applications: the services of a project. Maintainers and owners write.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::App;
use super::change::change;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::application::Application;
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{ApplicationId, ProjectId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::{Hold, Tx, application, people};

/// What a new application is made of.
#[derive(Debug, Clone)]
pub struct CreateApplication {
    /// The project it belongs to.
    pub project_id: ProjectId,
    /// The name in addresses, unique in the project: lower-case letters, digits and hyphens.
    pub slug: String,
    /// Required, up to 100 characters.
    pub name: String,
}

/// What of an application is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateApplication {
    /// A new slug.
    pub slug: Option<String>,
    /// A new name.
    pub name: Option<String>,
}

impl App {
    /// Makes an application.
    ///
    /// # Errors
    /// `NOT_FOUND` for the project; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the
    /// project has the slug already.
    pub async fn create_application(
        &self,
        caller: &Caller,
        new: CreateApplication,
    ) -> Result<Application> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let project = people::project(&*tx, caller.actor.scope(), new.project_id).await?;
        self.require(&*tx, &caller.actor, project.id, Role::Maintainer).await?;
        let application = Application {
            id: ApplicationId::new(),
            project_id: project.id,
            slug: input::slug("slug", &new.slug)?,
            name: input::name("name", &new.name)?,
            created_at: now,
            updated_at: now,
        };
        application::insert(&*tx, &application).await?;
        let created = own_change("application.create", None, Some(&application), &application)?;
        tx.commit(caller, now, &[created]).await?;
        Ok(application)
    }

    /// Changes an application.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the project has the slug
    /// already.
    pub async fn update_application(
        &self,
        caller: &Caller,
        id: ApplicationId,
        update: UpdateApplication,
    ) -> Result<Application> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = self.held_application(&tx, &caller.actor, id, Hold::Change).await?;
        let mut after = Application { updated_at: now, ..before.clone() };
        if let Some(slug) = update.slug {
            after.slug = input::slug("slug", &slug)?;
        }
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        application::update(&*tx, &after).await?;
        let updated = own_change("application.update", Some(&before), Some(&after), &after)?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes an application with all that belongs to it, its ledger and queued work included.
    /// The audit row says how much went.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_application(
        &self,
        caller: &Caller,
        id: ApplicationId,
    ) -> Result<Application> {
        let tx = self.store.begin().await?;
        let before = self.held_application(&tx, &caller.actor, id, Hold::Delete).await?;
        let contents = application::contents(&*tx, &[id]).await?;
        application::delete(&tx, id).await?;
        let mut deleted = own_change("application.delete", Some(&before), None, &before)?;
        if let Some(before) = &mut deleted.before {
            before["contents"] = json!(contents);
        }
        tx.commit(caller, self.now(), &[deleted]).await?;
        self.metrics.remove_app(id);
        Ok(before)
    }

    /// The application of that id.
    pub async fn application(&self, scope: Scope, id: ApplicationId) -> Result<Application> {
        application::find(self.store.read(), scope, id).await
    }

    /// The application of that slug in a project.
    pub async fn application_by_slug(
        &self,
        scope: Scope,
        project: ProjectId,
        slug: &str,
    ) -> Result<Application> {
        if input::slug("slug", slug).is_err() {
            return Err(Error::NotFound { what: ApplicationId::WHAT });
        }
        application::find_by_slug(self.store.read(), scope, project, slug).await
    }

    /// The applications of these ids, in no order; those out of scope are left out.
    pub async fn applications_by_ids(
        &self,
        scope: Scope,
        ids: &[ApplicationId],
    ) -> Result<Vec<Application>> {
        application::find_all(self.store.read(), scope, ids).await
    }

    /// The applications in scope, of one project or of all, by slug.
    pub async fn applications(
        &self,
        scope: Scope,
        project: Option<ProjectId>,
        request: &PageRequest,
    ) -> Result<Page<Application>> {
        application::list(self.store.read(), scope, project, request).await
    }

    /// The application of that id, held, if `actor` may see it and change what belongs to it.
    pub(super) async fn held_application(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: ApplicationId,
        hold: Hold,
    ) -> Result<Application> {
        let application = application::find_held(tx, actor.scope(), id, hold).await?;
        self.require(&**tx, actor, application.project_id, Role::Maintainer).await?;
        Ok(application)
    }
}

fn own_change(
    action: &'static str,
    before: Option<&Application>,
    after: Option<&Application>,
    application: &Application,
) -> Result<Change> {
    change_in(application, action, ("application", application.id.0), (before, after))
}

/// A change to something that belongs to an application.
pub(super) fn change_in<T: Serialize>(
    application: &Application,
    action: &'static str,
    entity: (&'static str, Uuid),
    (before, after): (Option<&T>, Option<&T>),
) -> Result<Change> {
    Ok(Change {
        project_id: Some(application.project_id),
        application_id: Some(application.id),
        ..change(action, entity, before, after)?
    })
}
