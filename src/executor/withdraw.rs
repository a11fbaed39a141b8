//! Withdrawals: what waits of something that was disabled or deleted is taken back in steps.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::Executor;
use crate::app::counted;
use crate::domain::audit::{Caller, Change};
use crate::error::Result;
use crate::store::withdrawal::{self, Kind, Withdrawal};

impl Executor {
    /// Takes the next step of a withdrawal that nobody else carries out. The last one writes
    /// how much was cancelled into the audit log. Answers whether there is more to do at once.
    pub async fn withdraw(&self, now: DateTime<Utc>) -> Result<bool> {
        let tx = self.app.store.begin().await?;
        let Some(of) = withdrawal::next(&tx).await? else { return Ok(false) };
        let limit = u64::from(self.app.config.retention.batch);
        let step = withdrawal::step(&tx, &of, now, limit).await?;
        if step.was_last {
            tx.commit(&Caller::system(), now, &[ended(&of, step.cancelled)]).await?;
            tracing::info!(
                of = of.owner.kind.as_str(), id = %of.owner.id, reason = of.reason,
                "all that waited is taken back"
            );
        } else {
            tx.commit_unaudited().await?;
        }
        Ok(step.goes_on || step.was_last)
    }
}

fn ended(of: &Withdrawal, last: u64) -> Change {
    let action = match of.owner.kind {
        Kind::Trigger => "trigger.cancel_rest",
        Kind::TriggerRule => "trigger_rule.cancel_rest",
        Kind::Backend => "backend.cancel_rest",
        Kind::LineOa => "line_oa.cancel_rest",
        Kind::Workflow => "workflow.cancel_rest",
    };
    Change {
        action,
        entity_type: of.owner.kind.as_str(),
        entity_id: of.owner.id,
        project_id: Some(of.owner.project_id),
        application_id: of.owner.application_id,
        before: None,
        after: Some(json!({
            "reason": of.reason,
            counted(of.owner.kind): of.cancelled.saturating_add_unsigned(last),
        })),
    }
}
