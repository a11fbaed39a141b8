//! Work on its way: claimed, finished, taken back.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, FromQueryResult, QueryResult};
use serde::Serialize;
use uuid::Uuid;

use super::{Claimed, Lease};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ApplicationId, OccurrenceId, ScheduledActionId};
use crate::domain::scheduled_action::{Cause, Concern, ScheduledAction};
use crate::domain::trigger::OccurrenceStatus;
use crate::error::Result;
use crate::store::delivery::IdRow;
use crate::store::dialect::{self, hex, storable, time};
use crate::store::{Store, Tx, scheduled_action};

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
        let asked = rows.iter().map(|row| row.try_get::<Uuid>("", "lane"));
        let asked = asked.collect::<Result<HashSet<_>, _>>()?;
        let without: Vec<_> = asked.into_iter().chain(claim.without.iter().copied()).collect();
        let rest = Claim { limit: claim.limit - taken, without: &without, ..claim };
        rows.extend(claim_rows(&tx, rest, Uuid::nil()).await?);
    }
    if !rows.is_empty() {
        tx.commit_unaudited().await?;
    }
    // Nobody waits for what is read now.
    let rows: Vec<ClaimedRow> = dialect::read(&rows)?;
    Ok(rows.into_iter().map(|row| row.under(claim.lease, claim.now)).collect())
}

/// What a claim answers.
#[derive(FromQueryResult)]
struct ClaimedRow {
    id: Uuid,
    trigger_rule_id: Option<Uuid>,
    user_id: Option<String>,
    action_type: String,
    action_config: serde_json::Value,
    execute_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    retry_count: i32,
    attempts_before: i32,
    workflow_id: Option<Uuid>,
    workflow_node_path: Option<String>,
    trigger_id: Option<Uuid>,
    trigger_occurrence_id: Option<Uuid>,
    backend_id: Option<Uuid>,
    application_id: Option<Uuid>,
    line_oa_id: Option<Uuid>,
    lane: Uuid,
    event_id: Option<Uuid>,
    last_error: Option<String>,
    created_at: DateTime<Utc>,
}

impl ClaimedRow {
    fn under(self, lease: Lease, now: DateTime<Utc>) -> Claimed {
        let action = ScheduledAction {
            id: self.id.into(),
            parent_id: None,
            action_type: self.action_type,
            config: scheduled_action::config(self.trigger_id, self.action_config),
            cause: Cause {
                trigger_rule_id: self.trigger_rule_id.map(Into::into),
                event_id: self.event_id.map(Into::into),
                trigger_id: self.trigger_id.map(Into::into),
                occurrence_id: self.trigger_occurrence_id.map(Into::into),
                workflow_id: self.workflow_id.map(Into::into),
                workflow_node_path: self.workflow_node_path,
                ..Cause::default()
            },
            concern: Concern {
                organization_id: None,
                line_oa_id: self.line_oa_id.map(Into::into),
                user_id: self.user_id,
                application_id: self.application_id.map(Into::into),
                backend_id: self.backend_id.map(Into::into),
            },
            lane: self.lane,
            status: ActionStatus::Processing,
            retry_count: self.retry_count,
            attempts_before: self.attempts_before,
            execute_at: self.execute_at,
            expires_at: self.expires_at,
            executed_at: None,
            last_error: self.last_error,
            created_at: self.created_at,
            updated_at: now,
        };
        Claimed { action, lease }
    }
}

async fn claim_rows(tx: &Tx, claim: Claim<'_>, start_after: Uuid) -> Result<Vec<QueryResult>> {
    let values = vec![
        claim.now.into(),
        claim.lease.token.into(),
        claim.lease.until.into(),
        dialect::limit(claim.limit),
        i64::try_from(claim.per_lane).unwrap_or(i64::MAX).into(),
        start_after.into(),
        dialect::ids(claim.without.iter().copied()),
    ];
    dialect::CLAIM.unread(&**tx, values).await
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
    /// When it is due again; of what has ended, when the last attempt was due.
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

/// Work whose lease had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Which one.
    pub id: ScheduledActionId,
    /// How many attempts have ended, with the one that its lease was for.
    pub retry_count: i32,
}

/// Makes work whose lease has ended due again, as one more ended attempt. Answers it.
pub async fn reap(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Reaped>> {
    #[derive(FromQueryResult)]
    struct Row {
        id: Uuid,
        retry_count: i32,
    }
    let values = vec![now.into(), dialect::limit(limit)];
    let rows = dialect::REAP.rows::<Row>(db, values).await?;
    let reaped = |row: Row| Reaped { id: row.id.into(), retry_count: row.retry_count };
    Ok(rows.into_iter().map(reaped).collect())
}
