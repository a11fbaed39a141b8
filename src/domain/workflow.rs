//! A workflow: something that an application runs step by step, and that is resumed from here.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::id::{ApplicationId, ProjectId, WorkflowId};

/// A workflow of an application. What its nodes are is the application's own affair; a resume is
/// delivered to the application's backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// The id.
    pub id: WorkflowId,
    /// The application whose backends run it.
    pub application_id: ApplicationId,
    /// The application's project.
    pub organization_id: ProjectId,
    /// The name shown, unique in the application.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The longest path of a node, in characters.
pub const NODE_PATH_MAX: usize = 500;
