//! People: users, their tokens, projects and memberships.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::access::Role;
use super::id::{PersonalAccessTokenId, ProjectId, ProjectMemberId, UserId};

/// A person who signs in. The password's hash never leaves the store with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The id.
    pub id: UserId,
    /// The address that the user signs in with, lower case, unique.
    pub email: String,
    /// The name shown to others.
    pub name: String,
    /// Whether the user is a system administrator.
    pub administrator: bool,
    /// Since when the user may not sign in.
    pub disabled_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A token that a user made for a program. The token itself is shown once and stored as a hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonalAccessToken {
    /// The id.
    pub id: PersonalAccessTokenId,
    /// Whose it is; it may what the user may.
    pub user_id: UserId,
    /// What it is for.
    pub name: String,
    /// The token's first characters, to tell tokens apart.
    pub token_prefix: String,
    /// From when it no longer holds; none: it holds until deleted.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was last used, to within a minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// The owner of everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// The id.
    pub id: ProjectId,
    /// The name in addresses, unique.
    pub slug: String,
    /// The name shown.
    pub name: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A user's role in a project; at most one a user and project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectMember {
    /// The id.
    pub id: ProjectMemberId,
    /// The project.
    pub project_id: ProjectId,
    /// The member.
    pub user_id: UserId,
    /// What the member may do.
    #[serde(serialize_with = "role_name")]
    pub role: Role,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

fn role_name<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.as_str())
}
