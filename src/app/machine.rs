//! What a machine user asks about itself: who it is, and which tenants there are.

use super::App;
use crate::domain::access::Actor;
use crate::domain::application::{Application, Tenant};
use crate::domain::id::{ApplicationId, MachineUserId};
use crate::domain::input;
use crate::domain::page::{PAGE_MAX, PageRequest};
use crate::domain::people::Project;
use crate::error::{Error, Result};
use crate::store::{application, people};

/// Who a machine user is and where it belongs.
#[derive(Debug, Clone)]
pub struct MachineIdentity {
    /// Its id.
    pub id: MachineUserId,
    /// Its user name.
    pub username: String,
    /// Its environment's name.
    pub environment: String,
    /// Its application.
    pub application: Application,
    /// Its application's project.
    pub project: Project,
}

/// The environment that stands for all of them.
const ALL: &str = "all";

impl App {
    /// Who the calling machine user is. `FORBIDDEN` for everybody else.
    pub async fn machine_identity(&self, actor: &Actor) -> Result<MachineIdentity> {
        let Actor::Machine { id, username, application_id, project_id, environment } = actor else {
            return Err(Error::Forbidden { reason: "only a machine user may do this" });
        };
        let (db, scope) = (self.store.read(), actor.scope());
        Ok(MachineIdentity {
            id: *id,
            username: username.clone(),
            environment: environment.clone(),
            application: application::find(db, scope, *application_id).await?,
            project: people::project(db, scope, *project_id).await?,
        })
    }

    /// All tenants of an application, by slug: of the environment named, of every one for
    /// `all`. With none named, a machine user gets its own environment's, others get all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an application that the caller may not see, `INVALID` for a name that no
    /// environment can have.
    pub async fn every_tenant(
        &self,
        actor: &Actor,
        id: ApplicationId,
        environment: Option<&str>,
    ) -> Result<Vec<Tenant>> {
        let (db, scope) = (self.store.read(), actor.scope());
        application::find(db, scope, id).await?;
        let environment = match (environment, actor) {
            (None, Actor::Machine { environment, .. }) => Some(environment.clone()),
            (None | Some(ALL), _) => None,
            (Some(name), _) => Some(input::name("environment", name)?),
        };
        let mut request = PageRequest { limit: PAGE_MAX, ..PageRequest::default() };
        let mut tenants = Vec::new();
        loop {
            let page =
                application::tenants(db, scope, id, environment.as_deref(), &request).await?;
            request.after = page.rows.last().map(|(cursor, _)| cursor.clone());
            tenants.extend(page.rows.into_iter().map(|(_, tenant)| tenant));
            if !page.has_next_page || request.after.is_none() {
                return Ok(tenants);
            }
        }
    }
}
