//! Who calls, what they may see, and what they may do.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::id::{ApplicationId, MachineUserId, ProjectId, UserId};

/// Whoever makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A person, by session token, outside issuer or personal access token.
    User {
        /// The user's id.
        id: UserId,
        /// The user's address, for the audit row.
        email: String,
        /// Whether the user is a system administrator, who may everything.
        administrator: bool,
        /// When the personal access token ends with which the user calls; none for one without end and
        /// for a person who signed in.
        ends: Option<DateTime<Utc>>,
    },
    /// A machine user. It touches its own application only.
    Machine {
        /// The machine user's id.
        id: MachineUserId,
        /// Its user name, for the audit row.
        username: String,
        /// Its application.
        application_id: ApplicationId,
        /// The project of its application.
        project_id: ProjectId,
        /// Its environment's name.
        environment: String,
    },
    /// The server itself: first start, executor.
    System,
}

impl Actor {
    /// The actor's kind as the audit log stores it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User { .. } => "user",
            Self::Machine { .. } => "machine_user",
            Self::System => "system",
        }
    }

    /// The actor's id, none for the system.
    pub fn id(&self) -> Option<Uuid> {
        match self {
            Self::User { id, .. } => Some(id.0),
            Self::Machine { id, .. } => Some(id.0),
            Self::System => None,
        }
    }

    /// The actor's name as the audit log stores it.
    pub fn name(&self) -> &str {
        match self {
            Self::User { email, .. } => email,
            Self::Machine { username, .. } => username,
            Self::System => "system",
        }
    }

    /// What the actor may see.
    pub fn scope(&self) -> Scope {
        match self {
            Self::User { administrator: true, .. } | Self::System => Scope::Everything,
            Self::User { id, .. } => Scope::ProjectsOf(*id),
            Self::Machine { application_id, .. } => Scope::Application(*application_id),
        }
    }
}

/// The part of the world that a query may read. Every finder takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All projects.
    Everything,
    /// The projects that this user is a member of.
    ProjectsOf(UserId),
    /// One application.
    Application(ApplicationId),
}

/// A member's role in a project, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads everything of the project.
    Member,
    /// Also writes, except the project's members.
    Maintainer,
    /// Also manages the members and deletes the project.
    Owner,
}

impl Role {
    /// The name in database and API (upper case there).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Maintainer => "maintainer",
            Self::Owner => "owner",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Member, Self::Maintainer, Self::Owner].into_iter().find(|role| role.as_str() == name)
    }
}
