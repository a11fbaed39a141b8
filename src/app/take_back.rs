//! Taking back the open work of something that is disabled or deleted: what one transaction can, in
//! its own; if there is more, it is left to a withdrawal, which the executors carry out.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::App;
use super::change::note_cancelled;
use crate::error::{Error, Result};
use crate::store::Tx;
use crate::store::withdrawal::{self, Kind, Owner};

/// How many clean-up batches a use case takes back in its own transaction.
const BATCHES: u64 = 5;

/// Open work that is being taken back in a transaction.
pub(super) struct TakingBack<'a> {
    tx: &'a Tx,
    owner: Owner,
    why: (&'static str, DateTime<Utc>),
    at_once: u64,
    cancelled: u64,
    /// Whether there may be more than was cancelled.
    is_more: bool,
}

impl App {
    /// Begins to take back the open work of `owner`, because of `why`.
    pub(super) fn take_back<'a>(
        &self,
        tx: &'a Tx,
        owner: Owner,
        why: (&'static str, DateTime<Utc>),
    ) -> TakingBack<'a> {
        let batch = u64::from(self.config.retention.batch);
        // An occurrence is as many pieces of work as it has deliveries.
        let at_once = if owner.kind == Kind::Trigger { batch } else { BATCHES * batch };
        TakingBack { tx, owner, why, at_once, cancelled: 0, is_more: false }
    }
}

impl TakingBack<'_> {
    /// Cancels what is open, as much as one transaction takes. May be called again, for what was queued
    /// since; that is left to the withdrawal if there is one to be.
    pub async fn cancel(&mut self) -> Result<()> {
        if !self.is_more {
            let (owner, limit) = (&self.owner, self.at_once);
            let (cancelled, is_more) =
                withdrawal::cancel_some(self.tx, owner, self.why, limit).await?;
            self.cancelled += cancelled;
            self.is_more = is_more;
        }
        Ok(())
    }

    /// Leaves the rest to a withdrawal that begins at `now`, and says in `state`, of the change's audit row,
    /// how much was cancelled, and whether there is a rest.
    pub async fn leave_rest(self, state: &mut Option<Value>, now: DateTime<Utc>) -> Result<()> {
        note_cancelled(state, counted(self.owner.kind), self.cancelled);
        if self.is_more {
            withdrawal::begin(self.tx, &self.owner, (self.why.0, now)).await?;
            note_cancelled(state, "restFollows", json!(true));
        }
        Ok(())
    }
}

/// What a withdrawal counts, as audit rows name it.
pub(crate) fn counted(kind: Kind) -> &'static str {
    if kind == Kind::Trigger { "cancelledOccurrences" } else { "cancelledActions" }
}

/// Refuses what would queue work of `id` while what it had queued is being taken back. The thing is held.
///
/// # Errors
/// `CONFLICT` on `field`.
pub(super) async fn refuse_while_taken_back(
    tx: &Tx,
    id: Uuid,
    (field, kind): (&'static str, Kind),
) -> Result<()> {
    if withdrawal::going_on(&**tx, &[id]).await?.is_empty() {
        return Ok(());
    }
    let kind = kind.as_str();
    let reason = format!(
        "what waited of this {kind} when it was disabled is still being cancelled; try again when \
         the audit log has a row {kind}.cancel_rest for it"
    );
    Err(Error::conflict(field, reason))
}
