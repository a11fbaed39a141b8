//! What an executor reads and writes, a batch a statement.
//!
//! Each function is one step of a transaction that the executor begins and commits. All of them
//! may be repeated after a crash or a lost answer: occurrences are unique per trigger and due
//! time, windows only move forward under the trigger's lock, and finishing needs the lease.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use uuid::Uuid;

use super::delivery::IdRow;
use super::dialect::{self, hex, storable, time};
use super::entity::{executor_instance, scheduled_action, trigger, trigger_occurrence};
use super::{Engine, Store};
use crate::domain::delivery::{ActionStatus, Delivery};
use crate::domain::executor::ExecutorInstance;
use crate::domain::id::{ApplicationId, ExecutorId, OccurrenceId, ScheduledActionId, TriggerId};
use crate::domain::scheduled_action::ScheduledAction;
use crate::domain::trigger::{Occurrence, OccurrenceStatus, Trigger};
use crate::error::{Error, Result};

/// The right to work on what was claimed, until `until`. Whoever finishes shows the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Unique per claim.
    pub token: Uuid,
    /// From when the work may be taken over.
    pub until: DateTime<Utc>,
}

/// Work that this executor holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// What is to be done.
    pub action: ScheduledAction,
    /// Until when it is ours.
    pub lease: Lease,
}

/// How far a trigger has been evaluated, and when it is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The trigger.
    pub trigger_id: TriggerId,
    /// The end of what was evaluated.
    pub evaluated_at: DateTime<Utc>,
    /// The next due time.
    pub next_fire_at: Option<DateTime<Utc>>,
}

/// The triggers that are due at `now`, earliest first, locked until the transaction ends.
pub async fn due_triggers(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Trigger>> {
    let values = vec![now.into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
    let rows = dialect::DUE_TRIGGERS.rows::<trigger::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Moves the windows of triggers.
pub async fn move_windows(db: &impl ConnectionTrait, windows: &[Window]) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        evaluated_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_fire_at: Option<String>,
    }
    let rows: Vec<_> = windows
        .iter()
        .map(|window| Row {
            id: hex(window.trigger_id.0),
            evaluated_at: time(window.evaluated_at),
            next_fire_at: window.next_fire_at.map(time),
        })
        .collect();
    dialect::MOVE_WINDOWS.run(db, vec![dialect::rows(&rows)?]).await?;
    Ok(())
}

/// Writes occurrences and answers the ids of those that were not there yet.
pub async fn insert_occurrences(
    db: &impl ConnectionTrait,
    occurrences: &[Occurrence],
) -> Result<HashSet<OccurrenceId>> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        trigger_id: String,
        application_id: String,
        scheduled_at: String,
        origin: &'static str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        occurrences: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        until_at: Option<String>,
        payload: &'a crate::domain::trigger::Payload,
        deliveries: i32,
        fan_out_attempts: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_attempt_at: Option<String>,
        created_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<String>,
    }
    if occurrences.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<_> = occurrences
        .iter()
        .map(|new| Row {
            id: hex(new.id.0),
            trigger_id: hex(new.trigger_id.0),
            application_id: hex(new.application_id.0),
            scheduled_at: time(new.scheduled_at),
            origin: new.origin.as_str(),
            status: new.status.as_str(),
            reason: new.reason.as_deref(),
            occurrences: new.occurrences,
            until_at: new.until_at.map(time),
            payload: &new.payload,
            deliveries: new.deliveries,
            fan_out_attempts: new.fan_out_attempts,
            next_attempt_at: new.next_attempt_at.map(time),
            created_at: time(new.created_at),
            finished_at: new.finished_at.map(time),
        })
        .collect();
    let values = vec![dialect::rows(&rows)?];
    let written = dialect::INSERT_OCCURRENCES.rows::<IdRow>(db, values).await?;
    Ok(written.into_iter().map(|row| row.id.into()).collect())
}

/// Writes deliveries of occurrences that are there: pending ones, or, with a lease, ones that the
/// caller holds from birth. `INTERNAL` when an occurrence is not there.
pub async fn insert_deliveries(
    db: &impl ConnectionTrait,
    deliveries: &[(Delivery, Option<Lease>)],
) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        id: String,
        trigger_occurrence_id: String,
        backend_id: String,
        status: &'static str,
        execute_at: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_token: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_until: Option<String>,
        created_at: String,
    }
    if deliveries.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = deliveries
        .iter()
        .map(|(new, lease)| Row {
            id: hex(new.id.0),
            trigger_occurrence_id: hex(new.occurrence_id.0),
            backend_id: hex(new.backend_id.0),
            status: new.status.as_str(),
            execute_at: time(new.execute_at),
            expires_at: new.expires_at.map(time),
            lease_token: lease.map(|lease| hex(lease.token)),
            lease_until: lease.map(|lease| time(lease.until)),
            created_at: time(new.created_at),
        })
        .collect();
    let written = dialect::INSERT_DELIVERIES.run(db, vec![dialect::rows(&rows)?]).await?;
    match written == rows.len() as u64 {
        true => Ok(()),
        false => Err(Error::internal("deliveries of an occurrence that is not there")),
    }
}

/// Occurrences that found no active backend and are to be tried again, locked until the
/// transaction ends.
pub async fn waiting_occurrences(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Occurrence>> {
    let values = vec![now.into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
    let rows = dialect::WAITING_OCCURRENCES.rows::<trigger_occurrence::Model>(db, values).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Writes what a renewed fan-out came to.
pub async fn update_waiting(db: &impl ConnectionTrait, occurrences: &[Occurrence]) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        id: String,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        deliveries: i32,
        fan_out_attempts: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_attempt_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<String>,
    }
    if occurrences.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = occurrences
        .iter()
        .map(|changed| Row {
            id: hex(changed.id.0),
            status: changed.status.as_str(),
            reason: changed.reason.as_deref(),
            deliveries: changed.deliveries,
            fan_out_attempts: changed.fan_out_attempts,
            next_attempt_at: changed.next_attempt_at.map(time),
            finished_at: changed.finished_at.map(time),
        })
        .collect();
    dialect::UPDATE_WAITING.run(db, vec![dialect::rows(&rows)?]).await?;
    Ok(())
}

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
    tx: &super::Tx,
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

/// When anything is due next. What is none does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromQueryResult)]
pub struct NextDue {
    /// The earliest due time of an enabled trigger.
    pub trigger_at: Option<DateTime<Utc>>,
    /// The earliest due time of pending work.
    pub action_at: Option<DateTime<Utc>>,
    /// The earliest next look at an occurrence that found no backend.
    pub waiting_at: Option<DateTime<Utc>>,
    /// The earliest due time of a time-based rule.
    pub rule_at: Option<DateTime<Utc>>,
    /// Since when the oldest event waits to be evaluated.
    pub event_at: Option<DateTime<Utc>>,
    /// Since when the oldest cycle is being walked.
    pub cycle_at: Option<DateTime<Utc>>,
}

impl NextDue {
    /// Each of them.
    pub fn times(&self) -> [Option<DateTime<Utc>>; 6] {
        [
            self.trigger_at,
            self.action_at,
            self.waiting_at,
            self.rule_at,
            self.event_at,
            self.cycle_at,
        ]
    }

    /// The earliest of all.
    pub fn earliest(&self) -> Option<DateTime<Utc>> {
        self.times().into_iter().flatten().min()
    }
}

/// When anything is due next.
pub async fn next_due(db: &impl ConnectionTrait) -> Result<NextDue> {
    Ok(dialect::NEXT_DUE.row::<NextDue>(db, vec![]).await?.unwrap_or_default())
}

/// How many triggers are enabled.
pub async fn active_triggers(db: &impl ConnectionTrait) -> Result<i64> {
    #[derive(FromQueryResult)]
    struct Row {
        n: i64,
    }
    Ok(dialect::ACTIVE_TRIGGERS.row::<Row>(db, vec![]).await?.map_or(0, |row| row.n))
}

/// How much work waits, by application.
pub async fn queue_depth(db: &impl ConnectionTrait) -> Result<Vec<(ApplicationId, i64)>> {
    #[derive(FromQueryResult)]
    struct Row {
        application_id: Option<Uuid>,
        n: i64,
    }
    let rows = dialect::QUEUE_DEPTH.rows::<Row>(db, vec![]).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.application_id?.into(), row.n))).collect())
}

/// What waits because of rules and workflows.
#[derive(Debug, Clone, PartialEq, Eq, FromQueryResult)]
pub struct Waiting {
    /// The action type; `event` for events that wait to be evaluated.
    pub name: String,
    /// How many.
    pub n: i64,
    /// Since when the oldest of them is due.
    pub oldest: Option<DateTime<Utc>>,
}

/// What waits because of rules and workflows, by kind.
pub async fn rules_waiting(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<Vec<Waiting>> {
    dialect::RULES_WAITING.rows(db, vec![now.into()]).await
}

/// The database's time; on SQLite, which has no clock of its own, none.
pub async fn database_now(store: &Store) -> Result<Option<DateTime<Utc>>> {
    #[derive(FromQueryResult)]
    struct Row {
        at: DateTime<Utc>,
    }
    if store.engine() == Engine::Sqlite {
        return Ok(None);
    }
    Ok(dialect::DATABASE_NOW.row::<Row>(store.read(), vec![]).await?.map(|row| row.at))
}

/// Tells the executors of other processes to look. On SQLite there are none.
pub async fn notify(store: &Store) -> Result<()> {
    if store.engine() == Engine::Postgres {
        store.read().execute_unprepared(dialect::WAKE).await?;
    }
    Ok(())
}

/// Writes what an executor tells of itself.
pub async fn report(db: &impl ConnectionTrait, instance: &ExecutorInstance) -> Result<()> {
    use executor_instance::{Column, Entity, Model};
    let row = Model {
        id: instance.id.0,
        host: instance.host.clone(),
        process_id: instance.process_id,
        version: instance.version.clone(),
        started_at: instance.started_at,
        last_pass_at: instance.last_pass_at,
        in_flight: instance.in_flight,
        clock_skew_ms: instance.clock_skew_ms,
        stopped_at: instance.stopped_at,
    };
    let columns = [Column::LastPassAt, Column::InFlight, Column::ClockSkewMs, Column::StoppedAt];
    Entity::insert(row.into_active_model().reset_all())
        .on_conflict(OnConflict::column(Column::Id).update_columns(columns).to_owned())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

/// The executors that reported at `since` or later, the latest start first, at most 100.
pub async fn instances(
    db: &impl ConnectionTrait,
    since: DateTime<Utc>,
) -> Result<Vec<ExecutorInstance>> {
    use executor_instance::{Column, Entity};
    let rows = Entity::find()
        .filter(Column::LastPassAt.gte(since))
        .order_by_desc(Column::StartedAt)
        .limit(100)
        .all(db)
        .await?;
    let instances = rows.into_iter().map(|row| ExecutorInstance {
        id: ExecutorId(row.id),
        host: row.host,
        process_id: row.process_id,
        version: row.version,
        started_at: row.started_at,
        last_pass_at: row.last_pass_at,
        in_flight: row.in_flight,
        clock_skew_ms: row.clock_skew_ms,
        stopped_at: row.stopped_at,
    });
    Ok(instances.collect())
}
