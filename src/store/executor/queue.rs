//! Work on its way: claimed, finished, taken back.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde::Serialize;
use uuid::Uuid;

use super::{Claimed, Lease};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ApplicationId, OccurrenceId, ScheduledActionId};
use crate::domain::scheduled_action::ScheduledAction;
use crate::domain::trigger::OccurrenceStatus;
use crate::error::Result;
use crate::store::delivery::IdRow;
use crate::store::dialect::{self, hex, storable, time};
use crate::store::entity::scheduled_action;
use crate::store::{Store, Tx};

/// What a claim asks for.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The time.
    pub now: DateTime<Utc>,
    /// The lease under which the work is held.
    pub lease: Lease,
    /// How much at the most.
    pub limit: u64,
    /// How much of one lane at the most.
    pub per_lane: u64,
    /// The lane after which to begin.
    pub start_after: Uuid,
    /// Lanes to leave out.
    pub without: &'a [Uuid],
}

/// Claims due work, in a transaction of its own: from `start_after` on, and, if that is not
/// enough, from the beginning. No lane is asked twice, so none gives more than its share.
pub async fn claim(store: &Store, claim: Claim<'_>) -> Result<Vec<Claimed>> {
    let tx = store.begin().await?;
    let mut rows = claim_rows(&tx, claim, claim.start_after).await?;
    let taken = rows.len() as u64;
    if taken < claim.limit && !claim.start_after.is_nil() {
        let asked = rows.iter().map(|row| row.lane).collect::<HashSet<_>>();
        let without: Vec<_> = asked.into_iter().chain(claim.without.iter().copied()).collect();
        let rest = Claim { limit: claim.limit - taken, without: &without, ..claim };
        rows.extend(claim_rows(&tx, rest, Uuid::nil()).await?);
    }
    if !rows.is_empty() {
        tx.commit_unaudited().await?;
    }
    let lease = claim.lease;
    Ok(rows.into_iter().map(|row| Claimed { action: row.into(), lease }).collect())
}

async fn claim_rows(
    tx: &Tx,
    claim: Claim<'_>,
    start_after: Uuid,
) -> Result<Vec<scheduled_action::Model>> {
    let values = vec![
        claim.now.into(),
        claim.lease.token.into(),
        claim.lease.until.into(),
        i64::try_from(claim.limit).unwrap_or(i64::MAX).into(),
        i64::try_from(claim.per_lane).unwrap_or(i64::MAX).into(),
        start_after.into(),
        dialect::ids(claim.without.iter().copied()),
    ];
    dialect::CLAIM.rows(&**tx, values).await
}

/// What came of claimed work.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Which one.
    pub id: ScheduledActionId,
    /// The lease it was held under.
    pub lease_token: Uuid,
    /// Its state from now on.
    pub status: ActionStatus,
    /// When it is due again, or was done.
    pub execute_at: DateTime<Utc>,
    /// When it ended.
    pub executed_at: Option<DateTime<Utc>>,
    /// How many attempts have ended.
    pub retry_count: i32,
    /// What the last one failed with.
    pub last_error: Option<String>,
}

/// Records what came of claimed work. Answers the ids of those whose lease still held; the
/// others belong to someone else by now, and nothing is recorded of them. A null character in
/// `last_error`, which may quote what a backend sent, becomes U+FFFD: one hostile answer must not
/// keep a batch from being recorded.
pub async fn finish(
    db: &impl ConnectionTrait,
    finished: &[Finished],
    now: DateTime<Utc>,
) -> Result<HashSet<ScheduledActionId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        lease_token: String,
        status: &'static str,
        execute_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        executed_at: Option<String>,
        retry_count: i32,
        last_error: Option<Cow<'a, str>>,
    }
    let rows: Vec<_> = finished
        .iter()
        .map(|done| Row {
            id: hex(done.id.0),
            lease_token: hex(done.lease_token),
            status: done.status.as_str(),
            execute_at: time(done.execute_at),
            executed_at: done.executed_at.map(time),
            retry_count: done.retry_count,
            last_error: done.last_error.as_deref().map(storable),
        })
        .collect();
    let values = vec![dialect::rows(&rows)?, now.into()];
    let recorded = dialect::FINISH.rows::<IdRow>(db, values).await?;
    Ok(recorded.into_iter().map(|row| row.id.into()).collect())
}

/// An occurrence that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Which one.
    pub id: OccurrenceId,
    /// Its application.
    pub application_id: ApplicationId,
    /// How it ended.
    pub status: OccurrenceStatus,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Counts ended deliveries (`true`: delivered) into their occurrences. Answers the occurrences
/// that ended by it.
pub async fn settle(
    db: &impl ConnectionTrait,
    ended: impl IntoIterator<Item = (OccurrenceId, bool)>,
    now: DateTime<Utc>,
) -> Result<Vec<Settled>> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        delivered: i32,
        failed: i32,
    }
    #[derive(FromQueryResult)]
    struct Answer {
        id: Uuid,
        application_id: Uuid,
        status: String,
        created_at: DateTime<Utc>,
    }
    let mut counts = BTreeMap::<OccurrenceId, (i32, i32)>::new();
    for (occurrence, delivered) in ended {
        let count = counts.entry(occurrence).or_default();
        if delivered { count.0 += 1 } else { count.1 += 1 }
    }
    if counts.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<_> = counts
        .into_iter()
        .map(|(id, (delivered, failed))| Row { id: hex(id.0), delivered, failed })
        .collect();
    let values = vec![dialect::rows(&rows)?, now.into()];
    let answers = dialect::SETTLE_OCCURRENCES.rows::<Answer>(db, values).await?;
    let settled = answers.into_iter().filter_map(|row| {
        let status = OccurrenceStatus::from_name(&row.status).filter(|status| status.is_final())?;
        Some(Settled {
            id: row.id.into(),
            application_id: row.application_id.into(),
            status,
            created_at: row.created_at,
        })
    });
    Ok(settled.collect())
}

/// Makes work whose lease has ended due again, as one more ended attempt. Answers it.
pub async fn reap(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<ScheduledAction>> {
    let values = vec![now.into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
    let rows = dialect::REAP.rows::<scheduled_action::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}
