//! Withdrawals: open work of something that was disabled or deleted, taken back in steps because it is
//! too much for one transaction.
//!
//! While a withdrawal goes on, nothing new is queued for its owner: what was deleted is not found, and
//! what was disabled is not enabled, retried or run until then. Executors start none of the owner's
//! work that they claim after it began, and give it back. A step takes nothing that somebody works on;
//! so a withdrawal ends after the last that had been claimed before. It ends when a whole walk over the
//! owner's work has met none that is open.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SecondsFormat, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, OnConflict};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use super::cancel::{self, Why};
use super::delivery::IdRow;
use super::entity::withdrawal::{Column, Entity, Model};
use super::entity::{scheduled_action, trigger_occurrence};
use super::{Engine, Tx, dialect};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::{ApplicationId, ProjectId};
use crate::domain::trigger::OccurrenceStatus;
use crate::error::{Error, Result};

/// Whose work is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A trigger's: its occurrences, with their deliveries.
    Trigger,
    /// What a trigger rule has queued.
    TriggerRule,
    /// Deliveries and calls to a backend.
    Backend,
    /// What rules have queued for a LINE OA.
    LineOa,
    /// What is part of a workflow.
    Workflow,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Trigger, Self::TriggerRule, Self::Backend, Self::LineOa, Self::Workflow];

    /// Its noun in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::TriggerRule => "trigger_rule",
            Self::Backend => "backend",
            Self::LineOa => "line_oa",
            Self::Workflow => "workflow",
        }
    }
}

/// Something whose work is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub kind: Kind,
    /// Which one.
    pub id: Uuid,
    /// Its project.
    pub project_id: ProjectId,
    /// Its application, if it belongs to one.
    pub application_id: Option<ApplicationId>,
}

/// A withdrawal that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    /// Whose work it takes back.
    pub owner: Owner,
    /// What that work has for a last error.
    pub reason: String,
    /// How much of it was cancelled so far, of a trigger occurrences; without what was cancelled
    /// when it began.
    pub cancelled: i64,
    begun_at: DateTime<Utc>,
    position: String,
    met_open: bool,
    cancelled_before: i64,
}

impl Withdrawal {
    /// Work made later is not taken back. A rule whose work names a workflow goes on when that is
    /// deleted; all others have no newer work.
    fn until(&self) -> Option<DateTime<Utc>> {
        (self.owner.kind == Kind::Workflow).then_some(self.begun_at)
    }
}

impl TryFrom<Model> for Withdrawal {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == row.entity_type);
        let kind = kind.ok_or_else(|| {
            Error::internal(format!("a withdrawal for an unknown {}", row.entity_type))
        })?;
        Ok(Self {
            owner: Owner {
                kind,
                id: row.entity_id,
                project_id: row.project_id.into(),
                application_id: row.application_id.map(Into::into),
            },
            reason: row.reason,
            cancelled: row.cancelled,
            begun_at: row.created_at,
            position: row.position,
            met_open: row.met_open,
            cancelled_before: row.cancelled_before,
        })
    }
}

/// Cancels up to `limit` of an owner's open work, of a trigger that many occurrences. Answers how much.
pub async fn cancel_some(tx: &Tx, owner: &Owner, why: Why<'_>, limit: u64) -> Result<u64> {
    let (db, id) = (&**tx, owner.id);
    match owner.kind {
        Kind::Trigger => cancel::of_trigger(db, id.into(), why, limit).await,
        Kind::TriggerRule => cancel::of_rule(db, id.into(), why, limit).await,
        Kind::Backend => cancel::of_backend(db, id.into(), why, limit).await,
        Kind::LineOa => cancel::of_line_oa(db, id.into(), why, limit).await,
        Kind::Workflow => cancel::of_workflow(db, id.into(), why, limit).await,
    }
}

/// Begins a withdrawal. One that goes on already stays as it is.
pub async fn begin(tx: &Tx, owner: &Owner, (reason, now): Why<'_>) -> Result<()> {
    let row = Model {
        entity_id: owner.id,
        entity_type: owner.kind.as_str().to_owned(),
        reason: reason.to_owned(),
        project_id: owner.project_id.0,
        application_id: owner.application_id.map(|id| id.0),
        created_at: now,
        looked_at: now,
        cancelled: 0,
        position: String::new(),
        met_open: false,
        cancelled_before: 0,
    };
    Entity::insert(row.into_active_model().reset_all())
        .on_conflict(OnConflict::column(Column::EntityId).do_nothing().to_owned())
        .exec_without_returning(&**tx)
        .await?;
    Ok(())
}

/// Those of these that a withdrawal goes on for.
pub async fn going_on(db: &impl ConnectionTrait, of: &[Uuid]) -> Result<HashSet<Uuid>> {
    let ids = Entity::find()
        .select_only()
        .column(Column::EntityId)
        .filter(Column::EntityId.is_in(of.iter().copied()));
    Ok(ids.into_tuple().all(db).await?.into_iter().collect())
}

/// Whose work is being taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners(HashMap<Uuid, Option<DateTime<Utc>>>);

impl Owners {
    /// Whether work that belongs to one of these and was made at `created_at` is being taken back.
    pub fn have(&self, of: impl IntoIterator<Item = Uuid>, created_at: DateTime<Utc>) -> bool {
        let is_theirs = |id| match self.0.get(&id) {
            Some(until) => until.is_none_or(|until| created_at <= until),
            None => false,
        };
        !self.0.is_empty() && of.into_iter().any(is_theirs)
    }
}

/// All that a withdrawal goes on for.
pub async fn owners(db: &impl ConnectionTrait) -> Result<Owners> {
    let rows = Entity::find().all(db).await?.into_iter();
    let rows = rows.map(Withdrawal::try_from).collect::<Result<Vec<_>>>()?;
    Ok(Owners(rows.into_iter().map(|row| (row.owner.id, row.until())).collect()))
}

/// The withdrawal that was looked at longest ago and that nobody else holds, held until the transaction
/// ends.
pub async fn next(tx: &Tx) -> Result<Option<Withdrawal>> {
    let oldest = Entity::find().order_by_asc(Column::LookedAt).order_by_asc(Column::EntityId);
    let free = skipping_held(tx, oldest.limit(1));
    free.one(&**tx).await?.map(TryInto::try_into).transpose()
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How much it cancelled.
    pub cancelled: u64,
    /// Whether there is more to do at once: the walk goes on from where it is, or another begins because
    /// this one found something. Else others hold what is left.
    pub goes_on: bool,
    /// Whether it was the last: the withdrawal is gone.
    pub was_last: bool,
}

/// Takes the next step of a withdrawal that is held: looks at up to `limit` rows.
pub async fn step(
    tx: &Tx,
    withdrawal: &Withdrawal,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Step> {
    let walked = match withdrawal.owner.kind {
        Kind::Trigger => walk_occurrences(tx, withdrawal, now, limit).await?,
        Kind::Backend => walk_lane(tx, withdrawal, now, limit).await?,
        Kind::TriggerRule | Kind::LineOa | Kind::Workflow => {
            walk_own(tx, withdrawal, now, limit).await?
        }
    };
    let met_open = withdrawal.met_open || walked.met_open;
    let cancelled = withdrawal.cancelled + walked.cancelled as i64;
    let (goes_on, was_last) = match walked.position {
        Some(position) => {
            let walk = (position, met_open, withdrawal.cancelled_before);
            note(tx, withdrawal, (cancelled, now), walk).await?;
            (true, false)
        }
        None if met_open => {
            note(tx, withdrawal, (cancelled, now), (String::new(), false, cancelled)).await?;
            (cancelled > withdrawal.cancelled_before, false)
        }
        None => {
            Entity::delete_by_id(withdrawal.owner.id).exec(&**tx).await?;
            (false, true)
        }
    };
    Ok(Step { cancelled: walked.cancelled, goes_on, was_last })
}

/// Writes how much was cancelled so far, and where the walk is: its position, whether it met something
/// open, and how much had been cancelled before it.
async fn note(
    tx: &Tx,
    of: &Withdrawal,
    (cancelled, now): (i64, DateTime<Utc>),
    (position, met_open, cancelled_before): (String, bool, i64),
) -> Result<()> {
    Entity::update_many()
        .filter(Column::EntityId.eq(of.owner.id))
        .col_expr(Column::LookedAt, Expr::value(now))
        .col_expr(Column::Cancelled, Expr::value(cancelled))
        .col_expr(Column::Position, Expr::value(position))
        .col_expr(Column::MetOpen, Expr::value(met_open))
        .col_expr(Column::CancelledBefore, Expr::value(cancelled_before))
        .exec(&**tx)
        .await?;
    Ok(())
}

/// What a stretch of a walk came to.
struct Walked {
    cancelled: u64,
    met_open: bool,
    /// Where to go on; none at the end.
    position: Option<String>,
}

/// What is no delivery of a trigger, in the order of its ids.
async fn walk_own(tx: &Tx, of: &Withdrawal, now: DateTime<Utc>, limit: u64) -> Result<Walked> {
    use scheduled_action::{Column, Entity};
    let (column, among) = match of.owner.kind {
        Kind::TriggerRule => (Column::TriggerRuleId, Column::TriggerRuleId.eq(of.owner.id)),
        Kind::LineOa => (Column::LineOaId, Column::TriggerId.is_null()),
        _ => (Column::WorkflowId, Column::TriggerId.is_null()),
    };
    let rows: Vec<(Uuid, String, Option<Uuid>, DateTime<Utc>)> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::Status, column, Column::CreatedAt])
        .filter(among)
        .filter(Column::Id.gt(of.position.parse::<Uuid>().unwrap_or_default()))
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple()
        .all(&**tx)
        .await?;
    let position = last_of(&rows, limit).map(|(id, ..)| id.to_string());
    let theirs = rows.into_iter().filter(|(_, _, owner, made)| {
        *owner == Some(of.owner.id) && of.until().is_none_or(|until| *made <= until)
    });
    let open = theirs.filter(|(_, status, ..)| ActionStatus::is_open(status));
    let open: Vec<_> = open.map(|(id, ..)| id).collect();
    let free = free_of(tx, open.iter().copied()).await?;
    let cancelled = cancel::work(&**tx, &free, (&of.reason, now)).await?;
    Ok(Walked { cancelled, met_open: !open.is_empty(), position })
}

/// What waits for a backend, in its lane: what is cancelled is found no more, so that each stretch is
/// the first.
async fn walk_lane(tx: &Tx, of: &Withdrawal, now: DateTime<Utc>, limit: u64) -> Result<Walked> {
    use scheduled_action::{Column, Entity};
    let waiting = Entity::find()
        .select_only()
        .column(Column::Id)
        // Written out, so that the index of what waits is used.
        .filter(Expr::cust("status = 'pending'"))
        .filter(Column::Lane.eq(of.owner.id))
        .filter(Column::BackendId.eq(of.owner.id))
        .order_by_asc(Column::Lane)
        .order_by_asc(Column::ExecuteAt)
        .limit(limit);
    let free: Vec<Uuid> = skipping_held(tx, waiting).into_tuple().all(&**tx).await?;
    let cancelled = cancel::work(&**tx, &free, (&of.reason, now)).await?;
    // Both in one look: what is claimed or given back meanwhile is one of the two.
    let waits = Expr::cust("status = 'pending'").and(Column::Lane.eq(of.owner.id));
    let open = waits.or(Expr::cust("status = 'processing'"));
    let left = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(open)
        .filter(Column::BackendId.eq(of.owner.id))
        .limit(1)
        .into_tuple::<Uuid>()
        .one(&**tx)
        .await?;
    Ok(Walked { cancelled, met_open: left.is_some(), position: None })
}

/// A trigger's occurrences, in the order of their due times. One of whose deliveries somebody holds is
/// left for the next walk, whole.
async fn walk_occurrences(
    tx: &Tx,
    of: &Withdrawal,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Walked> {
    use trigger_occurrence::{Column, Entity};
    let after = DateTime::parse_from_rfc3339(&of.position).map(|at| at.to_utc());
    let rows: Vec<(Uuid, DateTime<Utc>, String)> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::ScheduledAt, Column::Status])
        .filter(Column::TriggerId.eq(of.owner.id))
        .filter(Column::ScheduledAt.gt(after.unwrap_or(DateTime::UNIX_EPOCH)))
        .order_by_asc(Column::ScheduledAt)
        .limit(limit)
        .into_tuple()
        .all(&**tx)
        .await?;
    let position =
        last_of(&rows, limit).map(|(_, at, _)| at.to_rfc3339_opts(SecondsFormat::AutoSi, true));
    let pending = rows.into_iter().filter(|row| row.2 == OccurrenceStatus::Pending.as_str());
    let pending: Vec<Uuid> = pending.map(|(id, ..)| id).collect();
    let busy = busy_of(tx, &pending).await?;
    let free: Vec<_> = pending.iter().copied().filter(|id| !busy.contains(id)).collect();
    let cancelled = cancel::occurrences(&**tx, &free, (&of.reason, now)).await?;
    Ok(Walked { cancelled, met_open: !pending.is_empty(), position })
}

/// Those of these occurrences that have a delivery which somebody works on or holds. The open
/// deliveries of the others are held.
async fn busy_of(tx: &Tx, occurrences: &[Uuid]) -> Result<HashSet<Uuid>> {
    use scheduled_action::{Column, Entity};
    let deliveries: HashMap<Uuid, Uuid> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::TriggerOccurrenceId])
        .filter(Column::TriggerOccurrenceId.is_in(occurrences.iter().copied()))
        .filter(Column::Status.is_in(ActionStatus::OPEN.map(ActionStatus::as_str)))
        .into_tuple()
        .all(&**tx)
        .await?
        .into_iter()
        .collect();
    let free: HashSet<_> = free_of(tx, deliveries.keys().copied()).await?.into_iter().collect();
    let held = deliveries.into_iter().filter(|(id, _)| !free.contains(id));
    Ok(held.map(|(_, occurrence)| occurrence).collect())
}

/// Those of these pieces of work that wait and that nobody holds: they are held now.
async fn free_of(tx: &Tx, work: impl Iterator<Item = Uuid>) -> Result<Vec<Uuid>> {
    let free = dialect::HOLD_WAITING_WORK.rows::<IdRow>(&**tx, vec![dialect::ids(work)]).await?;
    Ok(free.into_iter().map(|row| row.id).collect())
}

/// Lets `select` hold its rows until the transaction ends, those left out that others hold.
fn skipping_held<E: EntityTrait>(tx: &Tx, select: Select<E>) -> Select<E> {
    match tx.engine() {
        Engine::Sqlite => select,
        Engine::Postgres => select.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked),
    }
}

/// The last of these rows, unless there are no more behind it.
fn last_of<T>(rows: &[T], limit: u64) -> Option<&T> {
    rows.last().filter(|_| rows.len() as u64 == limit)
}
