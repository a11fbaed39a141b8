//! Taking work back because what it is about has changed.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde::Serialize;
use uuid::Uuid;

use super::dialect::{self, hex, time};
use crate::domain::id::{LineOaId, TriggerRuleId};
use crate::error::Result;

/// A later event about something that work may wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The LINE OA.
    pub line_oa_id: LineOaId,
    /// What it is about, for example a booking's id.
    pub subject: String,
    /// When the event happened: work of later ones stays.
    pub occurred_at: DateTime<Utc>,
}

/// Work that was taken back for a later event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Superseded {
    /// The rule that had queued it.
    pub rule_id: TriggerRuleId,
    /// What it was about.
    pub subject: String,
    /// For whom.
    pub user_id: Option<String>,
}

/// Cancels open work of earlier events about `subjects`. Answers what was taken back before any
/// attempt.
pub async fn supersede(
    db: &impl ConnectionTrait,
    subjects: &[Subject],
    now: DateTime<Utc>,
) -> Result<HashSet<Superseded>> {
    #[derive(Serialize)]
    struct Row<'a> {
        line_oa_id: String,
        subject: &'a str,
        occurred_at: String,
    }
    #[derive(FromQueryResult)]
    struct Answer {
        trigger_rule_id: Option<Uuid>,
        subject: Option<String>,
        user_id: Option<String>,
        fresh: bool,
    }
    if subjects.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<_> = subjects
        .iter()
        .map(|subject| Row {
            line_oa_id: hex(subject.line_oa_id.0),
            subject: &subject.subject,
            occurred_at: time(subject.occurred_at),
        })
        .collect();
    let values = vec![dialect::rows(&rows)?, now.into()];
    let mut cancelled = dialect::SUPERSEDE_ACTIONS.rows::<Answer>(db, values.clone()).await?;
    if !cancelled.is_empty() {
        // Who held a call until now may have written copies of it meanwhile.
        cancelled.extend(dialect::SUPERSEDE_ACTIONS.rows::<Answer>(db, values).await?);
    }
    let fresh = cancelled.into_iter().filter(|row| row.fresh).filter_map(|row| {
        let (rule_id, subject) = (row.trigger_rule_id?.into(), row.subject?);
        Some(Superseded { rule_id, subject, user_id: row.user_id })
    });
    Ok(fresh.collect())
}
