//! Joins the outbox of another database to the use case that stores what it holds.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::app::{App, NewEvent};
use crate::error::Result;
use crate::pg_source::{self, OutboxRow, Refused, Source};

/// Stores the events of the outbox that `pg_source.database_url` names until `stop`; nothing if
/// it names none. Any number of processes may do so.
pub(crate) async fn run(app: Arc<App>, stop: CancellationToken) {
    let config = &app.config.pg_source;
    let Some(url) = &config.database_url else { return };
    let source = Source { url: url.expose().to_owned(), poll_interval: config.poll_interval };
    tracing::info!(database = %url, "events are read from the outbox of another database");
    pg_source::run(&source, |rows| store(&app, rows), &stop).await;
}

async fn store(app: &App, rows: Vec<OutboxRow>) -> Result<Vec<Refused>> {
    let rows = rows.into_iter().map(|row| (row.id, told(row))).collect();
    let refused = app.receive_outbox(rows).await?;
    Ok(refused.into_iter().map(|(id, reason)| Refused { id, reason }).collect())
}

fn told(row: OutboxRow) -> NewEvent {
    NewEvent {
        event_id: Some(format!("pg:{}", row.event_id)),
        event_type: Some(row.event_type),
        line_oa_id: row.line_oa_id.map(|id| id.to_string()),
        user_id: row.user_id,
        occurred_at: Some(row.occurred_at.to_rfc3339()),
        payload: Some(row.payload),
    }
}
