//! The users that LINE OAs know. Maintainers and owners write; machine users see none.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::App;
use super::change::change;
use crate::domain::access::Scope;
use crate::domain::attributes::{AttributeChange, merge};
use crate::domain::audit::{Caller, Change};
use crate::domain::event::{Event, EventOrigin, EventStatus};
use crate::domain::id::{EventId, LineOaId};
use crate::domain::line::{LineUser, user_id};
use crate::domain::page::{Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::{event, line};

/// The type of the events that say what became of a user's attributes.
const ATTRIBUTE_CHANGED: &str = "attribute_changed";

impl App {
    /// Changes what is known of a user: the top-level keys of `attributes` are set, null takes one
    /// away, the others stay. A user that is not known becomes so. Each attribute that really
    /// changes is an `attribute_changed` event, stored in the same transaction. The audit row is
    /// about the LINE OA's user: users have no id of ours, so it bears the LINE OA's.
    ///
    /// # Errors
    /// `NOT_FOUND` for the LINE OA; `FORBIDDEN`; `INVALID` on `userId`, and on `attributes` for
    /// what [`merge`] refuses.
    pub async fn set_line_user_attributes(
        &self,
        caller: &Caller,
        (line_oa_id, user): (LineOaId, &str),
        attributes: Value,
    ) -> Result<LineUser> {
        let now = self.now();
        let tx = self.store.begin().await?;
        self.writable_line_oa(&*tx, &caller.actor, line_oa_id).await?;
        let user = user_id("userId", user)?;
        let (known, before) = line::held(&tx, (line_oa_id, &user), now).await?;
        let (attributes, changes) = merge("attributes", &before.attributes, attributes)?;
        let (mut after, mut events, mut stored) = (before.clone(), Vec::new(), HashSet::new());
        if !changes.is_empty() {
            after = LineUser { attributes, updated_at: now, ..after };
            line::set_attributes(&*tx, &after, now).await?;
            events = changes.iter().map(|change| told(&after, change, now)).collect();
            stored = event::insert(&*tx, &events).await?;
        }
        let set = set_change(known.then_some(&before), &after, changes.len())?;
        tx.commit(caller, now, &[set]).await?;
        self.count_received(&events, &stored, 0);
        self.wake.hint();
        Ok(after)
    }

    /// A user of a LINE OA.
    pub async fn line_user(
        &self,
        scope: Scope,
        (line_oa, user): (LineOaId, &str),
    ) -> Result<LineUser> {
        if user_id("userId", user).is_err() {
            return Err(Error::NotFound { what: "LINE user" });
        }
        line::user(self.store.read(), scope, (line_oa, user)).await
    }

    /// The users of a LINE OA that `filter` asks for, by user id; none of one out of scope.
    pub async fn line_users(
        &self,
        scope: Scope,
        line_oa: LineOaId,
        filter: &line::UserFilter,
        request: &PageRequest,
    ) -> Result<Page<LineUser>> {
        line::users(self.store.read(), scope, line_oa, filter, request).await
    }

    /// The users of these keys, in no order. For LINE OAs in the caller's scope.
    pub async fn line_users_by_ids(&self, keys: &[(LineOaId, String)]) -> Result<Vec<LineUser>> {
        line::users_by_ids(self.store.read(), keys).await
    }
}

/// The event that tells of a changed attribute.
fn told(user: &LineUser, change: &AttributeChange, now: DateTime<Utc>) -> Event {
    Event {
        id: EventId::new(),
        event_id: Uuid::new_v4().to_string(),
        event_type: ATTRIBUTE_CHANGED.to_owned(),
        line_oa_id: user.line_oa_id,
        organization_id: user.organization_id,
        user_id: Some(user.user_id.clone()),
        occurred_at: now,
        payload: json!({
            "attribute": change.attribute,
            "oldValue": change.old_value,
            "newValue": change.new_value,
        }),
        subject: None,
        origin: EventOrigin::Internal,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: now,
        processed_at: None,
    }
}

fn set_change(before: Option<&LineUser>, after: &LineUser, changes: usize) -> Result<Change> {
    let entity = ("line_user", after.line_oa_id);
    let mut set = change("line_user.set_attributes", entity, before, Some(after))?;
    set.project_id = Some(after.organization_id);
    if let Some(after) = &mut set.after {
        after["changedAttributes"] = json!(changes);
    }
    Ok(set)
}
