//! What the tables say, and what the calendar says that they should.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use chrono::{DateTime, Duration, Utc};
use sea_orm::{Database, DatabaseConnection, DbBackend, FromQueryResult, Statement};
use serde_json::Value;
use uuid::Uuid;

type Time = DateTime<Utc>;

/// A due time that was recorded.
#[derive(Debug, Clone, FromQueryResult)]
pub struct Occurrence {
    pub id: Uuid,
    pub trigger_id: Uuid,
    pub scheduled_at: Time,
    pub until_at: Option<Time>,
    pub origin: String,
    pub status: String,
    pub deliveries: i32,
    pub delivered: i32,
}

/// A row of the queue.
#[derive(Debug, Clone, FromQueryResult)]
pub struct Action {
    pub id: Uuid,
    pub trigger_id: Option<Uuid>,
    pub trigger_occurrence_id: Option<Uuid>,
    pub status: String,
}

/// A row of the audit log.
#[derive(Debug, Clone, FromQueryResult)]
pub struct Audit {
    pub action: String,
    pub entity_id: Uuid,
    pub request_id: Option<String>,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// An event that was stored.
#[derive(Debug, Clone, FromQueryResult)]
pub struct Event {
    pub event_id: String,
    pub status: String,
    pub user_id: Option<String>,
}

/// A row of the trigger log.
#[derive(Debug, Clone, FromQueryResult)]
pub struct Log {
    pub trigger_rule_id: Option<Uuid>,
    pub event_id: Option<Uuid>,
    pub user_id: Option<String>,
    pub scheduled_action_id: Option<Uuid>,
    pub status: String,
    pub attempt: Option<i32>,
    pub reason: Option<String>,
    pub created_date: Time,
}

/// All of it.
#[derive(Clone)]
pub struct Ledger {
    pub occurrences: Vec<Occurrence>,
    pub actions: Vec<Action>,
    pub audits: Vec<Audit>,
    pub events: Vec<Event>,
    pub logs: Vec<Log>,
    /// Ids of the triggers that there are.
    pub triggers: Vec<Uuid>,
}

/// The database, beside all proxies.
pub struct Tables(DatabaseConnection);

#[derive(FromQueryResult)]
struct Id {
    id: Uuid,
}

#[derive(FromQueryResult)]
struct Text {
    text: String,
}

impl Tables {
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self(Database::connect(url).await?))
    }

    async fn rows<T: FromQueryResult>(&self, sql: &str) -> Result<Vec<T>> {
        let statement = Statement::from_string(DbBackend::Postgres, sql);
        Ok(T::find_by_statement(statement).all(&self.0).await?)
    }

    pub async fn read(&self) -> Result<Ledger> {
        let triggers = self.rows::<Id>("SELECT id FROM trigger").await?;
        Ok(Ledger {
            occurrences: self
                .rows(
                    "SELECT id, trigger_id, scheduled_at, until_at, origin, status, deliveries,
                    delivered FROM trigger_occurrence",
                )
                .await?,
            actions: self
                .rows("SELECT id, trigger_id, trigger_occurrence_id, status FROM scheduled_action")
                .await?,
            audits: self
                .rows("SELECT action, entity_id, request_id, before, after FROM audit_log ORDER BY at, id")
                .await?,
            events: self.rows("SELECT event_id, status, user_id FROM event").await?,
            logs: self
                .rows(
                    "SELECT trigger_rule_id, event_id, user_id, scheduled_action_id, status, attempt, reason,
                    created_date FROM trigger_log ORDER BY id",
                )
                .await?,
            triggers: triggers.into_iter().map(|row| row.id).collect(),
        })
    }

    /// What is not done yet.
    pub async fn unfinished(&self) -> Result<Vec<String>> {
        let rows = self.rows::<Text>(
            "SELECT 'delivery ' || id || ' ' || status || ' tried ' || retry_count
                || ' due ' || execute_at || coalesce(' ' || last_error, '') AS text
                FROM scheduled_action WHERE status IN ('pending', 'processing')
            UNION ALL SELECT 'occurrence ' || id || ' of ' || scheduled_at || ' waits'
                FROM trigger_occurrence WHERE status = 'pending'
            UNION ALL SELECT 'event ' || event_id || ' waits' FROM event WHERE status = 'pending'
            ORDER BY text",
        );
        Ok(rows.await?.into_iter().map(|row| row.text).collect())
    }

    /// Triggers that are on and not evaluated up to `end`.
    pub async fn behind(&self, end: Time) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT id || ' is evaluated up to ' || evaluated_at AS text FROM trigger
                WHERE enabled AND next_fire_at <= '{}' ORDER BY id",
            end.to_rfc3339()
        );
        Ok(self.rows::<Text>(&sql).await?.into_iter().map(|row| row.text).collect())
    }

    /// Triggers that are on.
    pub async fn enabled(&self) -> Result<Vec<Uuid>> {
        let rows = self.rows::<Id>("SELECT id FROM trigger WHERE enabled").await?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }
}

/// A time in which a trigger had one schedule, as the audit log says: due in it is each second that
/// `step` divides, after `after` and up to `until`.
#[derive(Debug, Clone)]
pub struct Span {
    pub trigger: Uuid,
    step: i64,
    after: Time,
    until: Time,
    /// Until when the schedule was in force; what fell due after `until` went with it.
    pub in_force: Time,
}

impl Span {
    pub fn due(&self) -> impl Iterator<Item = Time> {
        self.due_between(self.after, self.until)
    }

    /// What fell due and was not evaluated yet when the trigger was switched off or changed.
    pub fn left(&self) -> usize {
        self.due_between(self.until, self.in_force).count()
    }

    fn due_between(&self, after: Time, until: Time) -> impl Iterator<Item = Time> {
        let step = self.step;
        let first = (after.timestamp() / step + 1) * step;
        let times = (0..).map_while(move |n| DateTime::from_timestamp(first + n * step, 0));
        times.take_while(move |at| *at <= until)
    }
}

/// The schedules of all triggers, from the audit log alone.
pub fn calendar(audits: &[Audit]) -> Result<Vec<Span>> {
    let (mut open, mut spans) = (BTreeMap::<Uuid, (i64, Time)>::new(), Vec::new());
    for row in audits {
        if !matches!(row.action.as_str(), "trigger.create" | "trigger.update" | "trigger.delete") {
            continue;
        }
        if let Some(before) = &row.before
            && let Some((step, after)) = open.remove(&row.entity_id)
        {
            let until = time(before, "evaluatedAt")?;
            let changed = row.after.as_ref().map(|after| time(after, "updatedAt")).transpose()?;
            let in_force = changed.unwrap_or(until);
            spans.push(Span { trigger: row.entity_id, step, after, until, in_force });
        }
        if let Some(after) = &row.after
            && after["enabled"] == true
            && let Some(step) = step(after["cronExpression"].as_str().unwrap_or_default())
        {
            open.insert(row.entity_id, (step, time(after, "evaluatedAt")?));
        }
    }
    // Every trigger was put to sleep, so that none is open.
    for (trigger, (step, after)) in open {
        spans.push(Span { trigger, step, after, until: after, in_force: after + Duration::zero() });
    }
    Ok(spans)
}

fn time(json: &Value, key: &str) -> Result<Time> {
    json[key].as_str().context("no time")?.parse().context("a time")
}

fn step(cron: &str) -> Option<i64> {
    match cron {
        "* * * * * *" => Some(1),
        "*/5 * * * * *" => Some(5),
        _ => None,
    }
}
