//! Workflows of applications. Maintainers and owners write.

use super::App;
use super::application::change_in;
use crate::domain::access::{Actor, Scope};
use crate::domain::application::Application;
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, WorkflowId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::domain::workflow::Workflow;
use crate::error::Result;
use crate::store::withdrawal::{Kind, Owner};
use crate::store::{Hold, Tx, workflow};

/// What a new workflow is made of.
#[derive(Debug, Clone)]
pub struct CreateWorkflow {
    /// The application whose backends run it.
    pub application_id: ApplicationId,
    /// Required, up to 100 characters, unique in the application.
    pub name: String,
    /// Up to 1000 characters.
    pub description: String,
}

/// What of a workflow is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateWorkflow {
    /// A new name.
    pub name: Option<String>,
    /// A new description.
    pub description: Option<String>,
}

impl App {
    /// Makes a workflow.
    ///
    /// # Errors
    /// `NOT_FOUND` for the application; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `name`
    /// when the application has one of that name.
    pub async fn create_workflow(&self, caller: &Caller, new: CreateWorkflow) -> Result<Workflow> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let application =
            self.writable_application(&*tx, &caller.actor, new.application_id).await?;
        let made = Workflow {
            id: WorkflowId::new(),
            application_id: application.id,
            organization_id: application.project_id,
            name: input::name("name", &new.name)?,
            description: input::description("description", &new.description)?,
            created_at: now,
            updated_at: now,
        };
        workflow::insert(&*tx, &made).await?;
        let entity = ("workflow", made.id.0);
        let created = change_in(&application, "workflow.create", entity, (None, Some(&made)))?;
        tx.commit(caller, now, &[created]).await?;
        Ok(made)
    }

    /// Changes a workflow.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `name` when the application
    /// has one of that name.
    pub async fn update_workflow(
        &self,
        caller: &Caller,
        id: WorkflowId,
        update: UpdateWorkflow,
    ) -> Result<Workflow> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (application, before) = self.held_workflow(&tx, &caller.actor, id).await?;
        let mut after = Workflow { updated_at: now, ..before.clone() };
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(description) = update.description {
            after.description = input::description("description", &description)?;
        }
        workflow::update(&*tx, &after).await?;
        let both = (Some(&before), Some(&after));
        let updated = change_in(&application, "workflow.update", ("workflow", id.0), both)?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes a workflow. Its work that is not done yet is cancelled, of very much the rest in steps by
    /// the executors, which start none of it.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_workflow(&self, caller: &Caller, id: WorkflowId) -> Result<Workflow> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (application, before) = self.held_workflow(&tx, &caller.actor, id).await?;
        // Work before what it is for, as whoever finishes it.
        let (project_id, application_id) = (application.project_id, Some(application.id));
        let owner = Owner { kind: Kind::Workflow, id: id.0, project_id, application_id };
        let mut back = self.take_back(&tx, owner, ("workflow_deleted", now));
        back.cancel().await?;
        workflow::delete(&*tx, id).await?;
        // Once more, for what was queued between the two.
        back.cancel().await?;
        let entity = ("workflow", id.0);
        let both = (Some(&before), None);
        let mut deleted = change_in(&application, "workflow.delete", entity, both)?;
        back.leave_rest(&mut deleted.before, self.now()).await?;
        tx.commit(caller, now, &[deleted]).await?;
        self.wake.hint();
        Ok(before)
    }

    /// The workflow of that id.
    pub async fn workflow(&self, scope: Scope, id: WorkflowId) -> Result<Workflow> {
        workflow::find(self.store.read(), scope, id).await
    }

    /// The workflows of these ids, in no order; those out of scope are left out.
    pub async fn workflows_by_ids(
        &self,
        scope: Scope,
        ids: &[WorkflowId],
    ) -> Result<Vec<Workflow>> {
        workflow::find_all(self.store.read(), scope, ids).await
    }

    /// An application's workflows, by name; none of one out of scope.
    pub async fn workflows(
        &self,
        scope: Scope,
        application: ApplicationId,
        request: &PageRequest,
    ) -> Result<Page<Workflow>> {
        workflow::list(self.store.read(), scope, application, request).await
    }

    /// The workflow of that id, after its application is held: as it is now.
    async fn held_workflow(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: WorkflowId,
    ) -> Result<(Application, Workflow)> {
        let found = workflow::find(&**tx, actor.scope(), id).await?;
        let application =
            self.held_application(tx, actor, found.application_id, Hold::Change).await?;
        Ok((application, workflow::find(&**tx, actor.scope(), id).await?))
    }
}
