//! Withdrawals: open work of something that was disabled or deleted, taken back in steps because it is
//! too much for one transaction.
//!
//! While a withdrawal goes on, nothing new is queued for its owner: what was deleted is not found, and
//! what was disabled is not enabled, retried or run until then. Executors start none of the owner's
//! work that they claim after it began, and give it back. A step takes nothing that somebody works on;
//! so a withdrawal ends after the last that had been claimed before. It ends when a whole walk over the
//! owner's work has met none that is open.

mod walk;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, OnConflict};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use super::cancel::{self, Why};
use super::entity::scheduled_action;
use super::entity::withdrawal::{Column, Entity, Model};
use super::{Engine, Tx};
use crate::domain::id::{ApplicationId, ProjectId};
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
    /// What a rule has made later is not taken back: one whose work names a workflow goes on when that is
    /// deleted. Others have no newer work.
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

/// Cancels up to `limit` of an owner's open work, of a trigger that many occurrences. Answers how much, and
/// whether there is more: that less than `limit` was cancelled says nothing, since some of what was found
/// may have ended before it was held.
pub async fn cancel_some(tx: &Tx, owner: &Owner, why: Why<'_>, limit: u64) -> Result<(u64, bool)> {
    let (db, id) = (&**tx, owner.id);
    let cancelled = match owner.kind {
        Kind::Trigger => return cancel::of_trigger(db, id.into(), why, limit).await,
        Kind::TriggerRule => cancel::of_rule(db, id.into(), why, limit).await?,
        Kind::Backend => cancel::of_backend(db, id.into(), why, limit).await?,
        Kind::LineOa => cancel::of_line_oa(db, id.into(), why, limit).await?,
        Kind::Workflow => cancel::of_workflow(db, id.into(), why, limit).await?,
    };
    Ok((cancelled, has_open(tx, owner).await?))
}

/// Whether anything of an owner that is no trigger is open. In one look: what is claimed or given back
/// meanwhile is one of the two.
async fn has_open(tx: &Tx, owner: &Owner) -> Result<bool> {
    use scheduled_action::{Column, Entity};
    // Written out, so that the indexes of open work are used.
    let (waits, is_held) = (Expr::cust("status = 'pending'"), Expr::cust("status = 'processing'"));
    let (column, waits) = match owner.kind {
        Kind::Backend => (Column::BackendId, waits.and(Column::Lane.eq(owner.id))),
        Kind::TriggerRule => (Column::TriggerRuleId, waits),
        Kind::LineOa => (Column::LineOaId, waits),
        Kind::Workflow | Kind::Trigger => (Column::WorkflowId, waits),
    };
    let found = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(waits.or(is_held))
        .filter(column.eq(owner.id))
        .limit(1)
        .into_tuple::<Uuid>()
        .one(&**tx)
        .await?;
    Ok(found.is_some())
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

/// Whose work is being taken back, and, of a workflow, what of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners(HashMap<Uuid, Option<DateTime<Utc>>>);

impl Owners {
    /// Whether work that belongs to one of these is being taken back; `made_by_rule`: when, if a rule has
    /// made it.
    pub fn have(
        &self,
        of: impl IntoIterator<Item = Uuid>,
        made_by_rule: Option<DateTime<Utc>>,
    ) -> bool {
        let is_theirs = |id| self.0.get(&id).is_some_and(|until| is_old(made_by_rule, *until));
        !self.0.is_empty() && of.into_iter().any(is_theirs)
    }
}

fn is_old(made_by_rule: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> bool {
    made_by_rule.zip(until).is_none_or(|(made, until)| made <= until)
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
        Kind::Trigger => walk::occurrences(tx, withdrawal, now, limit).await?,
        Kind::Backend => walk::lane(tx, withdrawal, now, limit).await?,
        Kind::TriggerRule | Kind::LineOa | Kind::Workflow => {
            walk::own(tx, withdrawal, now, limit).await?
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

/// Lets `select` hold its rows until the transaction ends, those left out that others hold.
fn skipping_held<E: EntityTrait>(tx: &Tx, select: Select<E>) -> Select<E> {
    match tx.engine() {
        Engine::Sqlite => select,
        Engine::Postgres => select.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked),
    }
}
