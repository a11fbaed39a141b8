//! The loop that empties the outbox.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use sea_orm::sqlx::postgres::PgListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::kind::EventKind;
use super::outbox::{OutboxRow, Refused};
use super::reader::Reader;
use crate::error::{Error, Result};
use crate::telemetry::Trouble;

/// Rows that are handed on together, at most.
pub const BATCH: u16 = 200;

/// How long one batch may take, handling included. A connection that hangs is given up.
const STEP_WITHIN: Duration = Duration::from_secs(45);
/// The longest pause after failures in a row, unless the interval is longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const LISTEN_PAUSE: Duration = Duration::from_secs(10);

/// A database with an outbox, and how often to look.
#[derive(Clone)]
pub struct Source {
    /// Its address, `postgres://…`. May hold a password.
    pub url: String,
    /// The longest time between two looks while there is nothing to do.
    pub poll_interval: Duration,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("poll_interval", &self.poll_interval).finish_non_exhaustive()
    }
}

/// Hands the outbox's rows to `handler` until `stop`, at most [`BATCH`] at a time and in the order
/// of their ids, each row at least once. Any number of processes may do so: no two hold the same
/// row.
///
/// When `handler` answers, all rows of the batch leave the outbox: those that it names as refused
/// are kept aside with the reason, the others must be stored by then. When it fails, or takes
/// longer than 45 s, they stay and are handed on again after a pause. Failures of the other
/// database are logged, what lasts every five minutes, and it is tried again with pauses that grow to
/// 30 s.
pub async fn run<H, F>(source: &Source, handler: H, stop: &CancellationToken)
where
    H: Fn(Vec<OutboxRow>) -> F,
    F: Future<Output = Result<Vec<Refused>>>,
{
    let hint = Notify::new();
    tokio::join!(read(source, &handler, &hint, stop), hear(source, &hint, stop));
}

async fn read<H, F>(source: &Source, handler: &H, hint: &Notify, stop: &CancellationToken)
where
    H: Fn(Vec<OutboxRow>) -> F,
    F: Future<Output = Result<Vec<Refused>>>,
{
    let mut reader = None;
    let mut failures = 0_u32;
    let mut trouble = Trouble::default();
    while !stop.is_cancelled() {
        let step = timeout(STEP_WITHIN, step(&mut reader, source, handler)).await;
        let result = step.unwrap_or_else(|_| Err(Error::internal("it took too long")));
        match result {
            Ok(more) => {
                failures = 0;
                if trouble.is_over() {
                    tracing::info!("the outbox of pg_source is read again");
                }
                if !more {
                    pause(source.poll_interval, Some(hint), stop).await;
                }
            }
            Err(error) => {
                reader = None;
                let wait = backoff(source.poll_interval, failures);
                failures = failures.saturating_add(1);
                tell(&error, trouble.is_news(&format!("{error:?}"), wait), (failures, wait));
                // Hints are not heard here: a database in trouble is not to be hammered.
                pause(wait, None, stop).await;
            }
        }
    }
}

/// Does one batch, and says whether there may be more.
async fn step<H, F>(reader: &mut Option<Reader>, source: &Source, handler: &H) -> Result<bool>
where
    H: Fn(Vec<OutboxRow>) -> F,
    F: Future<Output = Result<Vec<Refused>>>,
{
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(Reader::connect(&source.url).await?),
    };
    if !reader.has_rows().await? {
        return Ok(false);
    }
    let mut batch = reader.take(BATCH).await?;
    if batch.is_empty() {
        return Ok(false);
    }
    let refused = match std::mem::take(&mut batch.rows) {
        rows if rows.is_empty() => Vec::new(),
        rows => handler(rows).await?,
    };
    batch.done(refused).await?;
    Ok(true)
}

fn backoff(interval: Duration, failures: u32) -> Duration {
    let grown = interval.saturating_mul(1 << failures.min(16));
    grown.min(PAUSE_MAX.max(interval))
}

fn tell(error: &Error, is_news: bool, (failures, wait): (u32, Duration)) {
    let error = error as &dyn std::error::Error;
    let told = "the outbox of pg_source can't be read; it is tried again";
    match is_news {
        true => tracing::warn!(error, ?wait, failures, "{told}"),
        false => tracing::debug!(error, ?wait, failures, "{told}"),
    }
}

async fn pause(time: Duration, hint: Option<&Notify>, stop: &CancellationToken) {
    let hinted = async {
        match hint {
            Some(hint) => hint.notified().await,
            None => std::future::pending().await,
        }
    };
    let woken = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = hinted => {}
        }
    };
    let _ = timeout(time, woken).await;
}

/// Hears hints, on a connection of its own. Without them the looks go on at the interval: a
/// pooler in between, for example, may not let them through.
async fn hear(source: &Source, hint: &Notify, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let ended = tokio::select! {
            ended = listen(source, hint) => ended,
            () = stop.cancelled() => return,
        };
        if let Err(error) = ended {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(
                error,
                "hints of pg_source are not heard; it is looked at its interval"
            );
        }
        pause(LISTEN_PAUSE, None, stop).await;
    }
}

async fn listen(source: &Source, hint: &Notify) -> Result<()> {
    let mut listener = PgListener::connect(&source.url).await.map_err(Error::internal)?;
    let channels = EventKind::ALL.map(EventKind::as_str);
    listener.listen_all(channels).await.map_err(Error::internal)?;
    loop {
        // What was said while nobody listened is not said again.
        hint.notify_one();
        if listener.try_recv().await.map_err(Error::internal)?.is_none() {
            return Err(Error::internal("the connection was lost"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_the_interval_to_half_a_minute() {
        let second = Duration::from_secs(1);
        let pauses: Vec<_> = (0..7).map(|failures| backoff(second, failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(backoff(second, u32::MAX), PAUSE_MAX);
        let minute = Duration::from_secs(60);
        assert_eq!(backoff(minute, 3), minute);
    }

    #[test]
    fn the_address_is_not_shown() {
        let url = "postgres://u:hunter2@db/x".to_owned();
        let source = Source { url, poll_interval: Duration::from_secs(1) };
        assert!(!format!("{source:?}").contains("hunter2"));
    }
}
