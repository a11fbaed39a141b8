//! An audience: a named set of users of one LINE OA.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::id::{AudienceId, LineOaId, ProjectId};

/// A named set of users of one LINE OA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audience {
    /// The id.
    pub id: AudienceId,
    /// Its LINE OA.
    pub line_oa_id: LineOaId,
    /// Its project.
    pub organization_id: ProjectId,
    /// The name shown, unique in the LINE OA.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed; its members do not count.
    pub updated_at: DateTime<Utc>,
}

/// A user in an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudienceMember {
    /// The audience.
    pub audience_id: AudienceId,
    /// LINE's id of the user.
    pub user_id: String,
    /// Since when.
    pub added_at: DateTime<Utc>,
}
