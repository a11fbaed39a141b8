//! Finishers: they write down what came of work, in batches, beside the driver's steps.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

use super::attempt::Done;
use super::driver::{FIRST_PAUSE, LONGEST_PAUSE, rest_for, within_bounds};
use super::{Executor, whole};
use crate::domain::delivery::ActionStatus;
use crate::store::Engine;

/// Work that has ended, on its way to be recorded.
type Ended = mpsc::UnboundedReceiver<Done>;

/// The most that is recorded in one transaction.
const FINISH_BATCH: usize = 1_000;
/// How long a small batch of ended work waits for more.
const LINGER: Duration = Duration::from_millis(4);
/// A batch of this size waits for nothing.
const FULL_ENOUGH: usize = 100;

/// Starts what records ended work: on PostgreSQL two, so that one gathers while the other waits for
/// the database.
pub(super) fn finishers(executor: &Arc<Executor>, ended: Ended) -> TaskTracker {
    let (finishers, ended) = (TaskTracker::new(), Arc::new(Mutex::new(ended)));
    let count = match executor.app.store.engine() {
        Engine::Sqlite => 1,
        Engine::Postgres => 2,
    };
    for _ in 0..count {
        finishers.spawn(finish_all(executor.clone(), ended.clone()));
    }
    finishers.close();
    finishers
}

/// Gathers ended work. Empty: there is none, and no more can come.
async fn gather(ended: &Mutex<Ended>) -> Vec<Done> {
    let mut batch = Vec::with_capacity(FINISH_BATCH);
    let mut ended = ended.lock().await;
    let count = ended.recv_many(&mut batch, FINISH_BATCH).await;
    if count > 0 && count < FULL_ENOUGH {
        rest_for(LINGER).await;
        while batch.len() < FINISH_BATCH
            && let Ok(more) = ended.try_recv()
        {
            batch.push(more);
        }
    }
    batch
}

/// Records ended work, in batches, until there is none and no more can come.
async fn finish_all(executor: Arc<Executor>, ended: Arc<Mutex<Ended>>) {
    loop {
        let batch = gather(&ended).await;
        if batch.is_empty() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        let mut again = false;
        while let Err(error) = within_bounds(whole(executor.finish(&batch, again))).await {
            again = true;
            tracing::error!(
                error = &error as &dyn std::error::Error,
                deliveries = batch.len(),
                "what came of deliveries can't be recorded, and is tried again"
            );
            rest_for(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let to_be_tried_again = |done: &Done| done.finished.status == ActionStatus::Pending;
        if batch.iter().any(to_be_tried_again) {
            executor.app.wake.hint_near();
        }
    }
}
