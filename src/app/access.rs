//! Who may do what. What one may not see does not exist: the answer is that of a missing thing.

use sea_orm::ConnectionTrait;

use super::App;
use crate::domain::access::{Actor, Role};
use crate::domain::application::Application;
use crate::domain::id::{ApplicationId, ProjectId, UserId};
use crate::error::{Error, Result};
use crate::store::{application, people};

impl App {
    /// Checks that `actor` has at least `role` in a project that it can see.
    pub(super) async fn require(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        project: ProjectId,
        role: Role,
    ) -> Result<()> {
        match actor {
            Actor::System | Actor::User { administrator: true, .. } => Ok(()),
            Actor::Machine { .. } => Err(Error::Forbidden {
                reason: "a machine user may not do this; a user with the maintainer role may",
            }),
            Actor::User { id, .. } => match people::role(db, *id, project).await? {
                None => Err(Error::NotFound { what: ProjectId::WHAT }),
                Some(held) if held < role => Err(Error::Forbidden { reason: needs(role) }),
                Some(_) => Ok(()),
            },
        }
    }

    /// The application of that id, if `actor` may see it and has at least `role` in its project.
    pub(super) async fn writable_application(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        id: ApplicationId,
    ) -> Result<Application> {
        let application = application::find(db, actor.scope(), id).await?;
        self.require(db, actor, application.project_id, Role::Maintainer).await?;
        Ok(application)
    }
}

fn needs(role: Role) -> &'static str {
    match role {
        Role::Member => "this needs to be a member of the project",
        Role::Maintainer => "this needs the maintainer or owner role in the project",
        Role::Owner => "this needs the owner role in the project",
    }
}

/// Checks that `actor` is a system administrator.
pub(super) fn require_administrator(actor: &Actor) -> Result<()> {
    match actor {
        Actor::System | Actor::User { administrator: true, .. } => Ok(()),
        _ => Err(Error::Forbidden { reason: "this needs the system administrator role" }),
    }
}

/// The user that `actor` is.
pub(super) fn require_user(actor: &Actor) -> Result<UserId> {
    match actor {
        Actor::User { id, .. } => Ok(*id),
        _ => Err(Error::Forbidden { reason: "only a user may do this" }),
    }
}
