//! Audit rows from things as they were and as they are.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::audit::Change;
use crate::error::{Error, Result};

/// A change to `entity` (the noun and which one) that belongs to no project; whoever knows the
/// project adds it. What is given is written whole, so it must hold no secret and no hash.
pub(super) fn change<T: Serialize>(
    action: &'static str,
    entity: (&'static str, impl Into<Uuid>),
    before: Option<&T>,
    after: Option<&T>,
) -> Result<Change> {
    let json =
        |thing: Option<&T>| thing.map(serde_json::to_value).transpose().map_err(Error::internal);
    Ok(Change {
        action,
        entity_type: entity.0,
        entity_id: entity.1.into(),
        project_id: None,
        application_id: None,
        before: json(before)?,
        after: json(after)?,
    })
}

/// Adds to a state of a change how much open work was cancelled with it.
pub(super) fn note_cancelled(state: &mut Option<Value>, what: &str, count: impl Serialize) {
    if let Some(state) = state {
        state[what] = json!(count);
    }
}
