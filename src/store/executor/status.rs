//! What is due when, what waits, and who executes.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::domain::executor::ExecutorInstance;
use crate::domain::id::{ApplicationId, ExecutorId};
use crate::error::Result;
use crate::store::dialect;
use crate::store::entity::executor_instance;
use crate::store::{Engine, Store};

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
    /// Since when the oldest withdrawal goes on.
    pub withdrawal_at: Option<DateTime<Utc>>,
}

impl NextDue {
    /// Each of them.
    pub fn times(&self) -> [Option<DateTime<Utc>>; 7] {
        [
            self.trigger_at,
            self.action_at,
            self.waiting_at,
            self.rule_at,
            self.event_at,
            self.cycle_at,
            self.withdrawal_at,
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

/// The executors whose last pass was at `since` or later, the latest start first, at most 100.
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
