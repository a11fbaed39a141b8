//! What is done beside the driver's steps: they do not wait for it, and do not fail with it.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::driver::{FIRST_PAUSE, LONGEST_PAUSE, rest_for, within_bounds};
use super::whole;
use crate::error::Result;

/// A kind of work of which one piece at a time is done. What fails is logged and, when it is started
/// again, tried after a pause, ever longer while it goes on failing.
pub(super) struct Beside {
    name: &'static str,
    /// Ends with whether it succeeded.
    task: Option<JoinHandle<bool>>,
    pause: Option<Duration>,
}

impl Beside {
    pub fn new(name: &'static str) -> Self {
        Self { name, task: None, pause: None }
    }

    /// Starts `work`, unless the piece before is still being done.
    pub async fn start(&mut self, work: impl Future<Output = Result<()>> + Send + 'static) {
        if let Some(ended) = self.task.take_if(|task| task.is_finished()) {
            let longer = |pause: Duration| (pause * 2).min(LONGEST_PAUSE);
            self.pause = match ended.await {
                Ok(true) => None,
                _ => Some(self.pause.map_or(FIRST_PAUSE, longer)),
            };
        }
        let (name, pause) = (self.name, self.pause);
        self.task.get_or_insert_with(|| {
            tokio::spawn(async move {
                if let Some(pause) = pause {
                    rest_for(pause).await;
                }
                let done = within_bounds(whole(work)).await;
                if let Err(error) = &done {
                    tracing::error!(
                        error = error as &dyn std::error::Error,
                        work = name,
                        "a part of the executor's work failed, and is tried again"
                    );
                }
                done.is_ok()
            })
        });
    }

    /// Ends what is being done; its transaction leaves nothing.
    pub fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;
    use crate::error::Error;

    #[tokio::test]
    async fn one_piece_is_done_at_a_time() {
        let (mut beside, begun) = (Beside::new("test"), Arc::new(AtomicUsize::new(0)));
        let (go, on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let work = || {
            let (begun, go, on) = (begun.clone(), go.clone(), on.clone());
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                on.notify_one();
                go.notified().await;
                Ok(())
            }
        };
        beside.start(work()).await;
        beside.start(work()).await;
        on.notified().await;
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        go.notify_one();
        assert!(beside.task.as_mut().unwrap().await.unwrap());
    }

    #[tokio::test]
    async fn what_fails_or_panics_is_tried_again_ever_later_and_fails_nobody_else() {
        tokio::time::pause();
        let mut beside = Beside::new("test");
        let mut pauses = Vec::new();
        for _ in 0..4 {
            beside.start(async { Err(Error::internal("no")) }).await;
            while !beside.task.as_ref().unwrap().is_finished() {
                tokio::time::advance(LONGEST_PAUSE).await;
            }
            pauses.push(beside.pause);
        }
        beside.start(async { panic!("a panic") }).await;
        pauses.push(beside.pause);
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [None, ms(100), ms(200), ms(400), ms(800)]);
        while !beside.task.as_ref().unwrap().is_finished() {
            tokio::time::advance(LONGEST_PAUSE).await;
        }
        beside.start(async { Ok(()) }).await;
        assert_eq!(beside.pause, ms(1600));
        while !beside.task.as_ref().unwrap().is_finished() {
            tokio::time::advance(LONGEST_PAUSE).await;
        }
        beside.start(async { Ok(()) }).await;
        assert_eq!(beside.pause, None);
    }
}
