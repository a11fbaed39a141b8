//! Cancelling the open work of something that is disabled or deleted. Attempts under way are not
//! stopped, but what comes of them changes nothing.

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QuerySelect,
};
use uuid::Uuid;

use super::delivery::IdRow;
use super::dialect;
use super::entity::trigger_occurrence;
use crate::domain::id::{BackendId, LineOaId, TriggerId, TriggerRuleId, WorkflowId};
use crate::domain::trigger::OccurrenceStatus;
use crate::error::Result;

/// Why work is taken back, as a code, and when.
pub type Why<'a> = (&'a str, DateTime<Utc>);

/// How many times as many deliveries as occurrences are cancelled in one transaction at the most.
const DELIVERIES: u64 = 5;

/// As many of these occurrences, each with its deliveries, as one transaction takes with `limit`.
pub(super) fn taken<T>(rows: &mut Vec<T>, limit: u64, deliveries: impl Fn(&T) -> i32) {
    let mut left = DELIVERIES * limit;
    let fits = rows.iter().take_while(|row| {
        let there_was = left > 0;
        left = left.saturating_sub(deliveries(row).unsigned_abs().max(1).into());
        there_was
    });
    let fit = fits.count();
    rows.truncate(fit);
}

/// Cancels up to `limit` of a trigger's pending occurrences and their open deliveries, fewer if those are
/// many. Answers how many occurrences, and whether there are more: some that were found may have ended
/// meanwhile.
pub async fn of_trigger(
    db: &impl ConnectionTrait,
    trigger: TriggerId,
    why: Why<'_>,
    limit: u64,
) -> Result<(u64, bool)> {
    use trigger_occurrence::{Column, Entity};
    let mut pending: Vec<(Uuid, i32)> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::Deliveries])
        .filter(Column::TriggerId.eq(trigger.0))
        .filter(Column::Status.eq(OccurrenceStatus::Pending.as_str()))
        .limit(limit)
        .into_tuple()
        .all(db)
        .await?;
    let found = pending.len();
    taken(&mut pending, limit, |(_, deliveries)| *deliveries);
    let is_more = found as u64 >= limit || pending.len() < found;
    let pending: Vec<_> = pending.into_iter().map(|(id, _)| id).collect();
    Ok((occurrences(db, &pending, why).await?, is_more))
}

/// Cancels those of these occurrences that are pending, and their open deliveries. Answers how many
/// occurrences.
pub(super) async fn occurrences(
    db: &impl ConnectionTrait,
    occurrences: &[Uuid],
    (reason, now): Why<'_>,
) -> Result<u64> {
    if occurrences.is_empty() {
        return Ok(0);
    }
    let values = |ids| vec![ids, reason.into(), now.into()];
    let ids = dialect::ids(occurrences.iter().copied());
    // Work before occurrences, as whoever finishes it; and once more, for what a fan-out that
    // held an occurrence meanwhile has added to it.
    dialect::CANCEL_ACTIONS.run(db, values(ids.clone())).await?;
    let cancelled = dialect::CANCEL_OCCURRENCES.rows::<IdRow>(db, values(ids)).await?;
    if !cancelled.is_empty() {
        let ids = dialect::ids(cancelled.iter().map(|row| row.id));
        dialect::CANCEL_ACTIONS.run(db, values(ids)).await?;
    }
    Ok(cancelled.len() as u64)
}

/// Cancels up to `limit` of a backend's open deliveries and calls; their occurrences count them as
/// failed. Answers how many.
pub async fn of_backend(
    db: &impl ConnectionTrait,
    backend: BackendId,
    (reason, now): Why<'_>,
    limit: u64,
) -> Result<u64> {
    let limit = dialect::limit(limit);
    let values = vec![backend.0.into(), reason.into(), now.into(), limit];
    let cancelled = dialect::CANCEL_BACKEND_ACTIONS.rows::<OccurrenceRow>(db, values).await?;
    fail_in_occurrences(db, &cancelled, now).await?;
    Ok(cancelled.len() as u64)
}

/// Cancels these pieces of work; their occurrences count them as failed. Answers how many.
pub(super) async fn work(
    db: &impl ConnectionTrait,
    work: &[Uuid],
    (reason, now): Why<'_>,
) -> Result<u64> {
    if work.is_empty() {
        return Ok(0);
    }
    let values = vec![dialect::ids(work.iter().copied()), reason.into(), now.into()];
    let cancelled = dialect::CANCEL_WORK.rows::<OccurrenceRow>(db, values).await?;
    fail_in_occurrences(db, &cancelled, now).await?;
    Ok(cancelled.len() as u64)
}

/// The occurrence of a piece of work. Calls that rules and workflow services queued have none.
#[derive(FromQueryResult)]
struct OccurrenceRow {
    id: Option<Uuid>,
}

async fn fail_in_occurrences(
    db: &impl ConnectionTrait,
    of: &[OccurrenceRow],
    now: DateTime<Utc>,
) -> Result<()> {
    let ended = of.iter().filter_map(|row| Some((row.id?.into(), false)));
    super::executor::settle(db, ended, now).await?;
    Ok(())
}

/// Cancels up to `limit` pieces of open work of a rule. Answers how many.
pub async fn of_rule(
    db: &impl ConnectionTrait,
    rule: TriggerRuleId,
    (reason, now): Why<'_>,
    limit: u64,
) -> Result<u64> {
    let values = vec![rule.0.into(), reason.into(), now.into(), dialect::limit(limit)];
    dialect::CANCEL_RULE_ACTIONS.run(db, values).await
}

/// Cancels up to `limit` pieces of open work of a LINE OA. Answers how much was cancelled.
pub async fn of_line_oa(
    db: &impl ConnectionTrait,
    id: LineOaId,
    (reason, now): Why<'_>,
    limit: u64,
) -> Result<u64> {
    let values = vec![id.0.into(), reason.into(), now.into(), dialect::limit(limit)];
    dialect::CANCEL_LINE_ACTIONS.run(db, values).await
}

/// Cancels up to `limit` pieces of open work of a workflow. Attempts under way are not stopped, but
/// what comes of them changes nothing. Answers how much was cancelled.
pub async fn of_workflow(
    db: &impl ConnectionTrait,
    id: WorkflowId,
    (reason, now): Why<'_>,
    limit: u64,
) -> Result<u64> {
    let values = vec![id.0.into(), reason.into(), now.into(), dialect::limit(limit)];
    dialect::CANCEL_WORKFLOW_ACTIONS.run(db, values).await
}
