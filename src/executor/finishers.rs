//! Finishers: they write down what came of work, in batches, beside the driver's steps.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

use super::attempt::Done;
use super::driver::{FIRST_PAUSE, LONGEST_PAUSE, rest_for, within_bounds};
use super::{Executor, whole};
use crate::domain::delivery::ActionStatus;
use crate::domain::id::ScheduledActionId;
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
        for batch in apart(batch, |done| done.finished.id) {
            record(&executor, batch).await;
        }
    }
}

/// Divides ended work so that no piece of it is in a batch twice, in its order. A piece may have ended
/// twice, under one lease and under the next, when the database was away for longer than a lease:
/// which of the two is recorded can be told of each batch.
fn apart<T>(ended: Vec<T>, id: impl Fn(&T) -> ScheduledActionId) -> Vec<Vec<T>> {
    let mut batches = Vec::<(HashSet<ScheduledActionId>, Vec<T>)>::new();
    for done in ended {
        let id = id(&done);
        let place = batches.iter().rposition(|(ids, _)| ids.contains(&id)).map_or(0, |at| at + 1);
        if place == batches.len() {
            batches.push((HashSet::new(), Vec::new()));
        }
        let (ids, batch) = &mut batches[place];
        ids.insert(id);
        batch.push(done);
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

/// Records a batch, however long it takes.
async fn record(executor: &Executor, mut batch: Vec<Done>) {
    let mut pause = FIRST_PAUSE;
    let mut again = false;
    while let Err(error) = within_bounds(whole(executor.finish(&mut batch, again))).await {
        again = true;
        tracing::error!(
            error = &error as &dyn std::error::Error,
            work = batch.len(),
            "what came of work can't be recorded, and is tried again"
        );
        rest_for(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    let to_be_tried_again = |done: &Done| done.finished.status == ActionStatus::Pending;
    if batch.iter().any(to_be_tried_again) {
        executor.app.wake.hint_near();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ended_twice_is_recorded_in_two_batches_in_its_order() {
        let [a, b, c] = [(); 3].map(|()| ScheduledActionId::new());
        let ended = vec![(a, 1), (b, 1), (a, 2), (c, 1), (a, 3), (b, 2)];
        let batches = apart(ended, |(id, _)| *id);
        let wanted = [vec![(a, 1), (b, 1), (c, 1)], vec![(a, 2), (b, 2)], vec![(a, 3)]].to_vec();
        assert_eq!(batches, wanted);
        assert!(apart(Vec::new(), |(id, _): &(_, u8)| *id).is_empty());
    }
}
