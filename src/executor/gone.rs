//! Backends that say that they are gone for good.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::attempt::Done;
use crate::domain::access::Scope;
use crate::domain::audit::Change;
use crate::domain::id::BackendId;
use crate::error::{Error, Result};
use crate::store::{Tx, application};

/// Deactivates backends that answered 410, until they register again. A registration that was
/// made or renewed after the attempt began is another one: the answer was not about it.
pub(super) async fn deactivate<'a>(
    tx: &Tx,
    done: impl Iterator<Item = &'a Done>,
    now: DateTime<Utc>,
) -> Result<Vec<Change>> {
    let mut asked = BTreeMap::<BackendId, DateTime<Utc>>::new();
    for done in done.filter(|done| done.attempt.as_ref().is_some_and(|attempt| attempt.gone)) {
        let Some(backend) = done.claimed.action.concern.backend_id else { continue };
        let latest = asked.entry(backend).or_insert(done.began);
        *latest = done.began.max(*latest);
    }
    let mut changes = Vec::new();
    for (id, began) in asked {
        let reason = "it answered 410 Gone";
        if !application::deactivate_backend(&**tx, id, (began, now), reason).await? {
            continue;
        }
        let (after, _) = application::backend(&**tx, Scope::Everything, id).await?;
        let owner = application::find(&**tx, Scope::Everything, after.application_id).await?;
        let mut before = after.clone();
        (before.deactivated_at, before.deactivated_reason) = (None, None);
        tracing::warn!(backend = %id, name = after.name, "a backend answered 410 and is deactivated until it registers again");
        changes.push(Change {
            action: "backend.deactivate",
            entity_type: "backend",
            entity_id: id.0,
            project_id: Some(owner.project_id),
            application_id: Some(owner.id),
            before: Some(serde_json::to_value(&before).map_err(Error::internal)?),
            after: Some(serde_json::to_value(&after).map_err(Error::internal)?),
        });
    }
    Ok(changes)
}
