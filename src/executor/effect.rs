//! What an attempt changes in our own database, in the transaction that records it: where the
//! lease still holds, and so exactly once.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::attempt::Done;
use crate::actions;
use crate::domain::id::{BackendId, LineOaId};
use crate::error::Result;
use crate::store::{Tx, audience, line, scheduled_action};

/// A change.
pub(super) enum Effect {
    /// What an action asked for.
    Action(actions::Effect),
    /// A call goes to these backends.
    Address(Vec<BackendId>),
    /// A LINE OA sends nothing for a while.
    Pause { line_oa: LineOaId, until: DateTime<Utc>, reason: &'static str },
}

/// Makes the changes of `done`, those of a kind in one statement.
pub(super) async fn apply<'a>(
    tx: &Tx,
    done: impl Iterator<Item = (&'a Done, &'a Effect)>,
    now: DateTime<Utc>,
) -> Result<()> {
    let (mut members, mut calls) = (Vec::new(), Vec::new());
    let mut pauses = BTreeMap::new();
    for (done, effect) in done {
        match effect {
            Effect::Action(actions::Effect::AddToAudience { audience_id, user_id }) => {
                let Some(line_oa) = done.claimed.action.concern.line_oa_id else { continue };
                members.push((*audience_id, line_oa, user_id.clone()));
            }
            Effect::Address(backends) => calls.push((done.finished.id, backends.clone())),
            Effect::Pause { line_oa, until, reason } => {
                pauses.insert(*line_oa, (*until, *reason, done.began));
            }
        }
    }
    // In the order of their ids, as everybody holds them.
    for (line_oa, (until, reason, began)) in pauses {
        line::pause(&**tx, line_oa, until, reason, began).await?;
    }
    if !members.is_empty() {
        audience::add(&**tx, &members, now).await?;
    }
    scheduled_action::address(&**tx, &calls, now).await
}
