//! The answer to a commit is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use trigger_manager::app::App;
use trigger_manager::checkpoint::{Checkpoint, Point};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::error::{Error, Result};
use trigger_manager::executor::Executor;

use crate::app::{TestApp, parts};

/// Loses the answer to the commit with this number, counted down to 0.
struct LosesOne(AtomicUsize);

impl Checkpoint for LosesOne {
    fn pass(&self, point: Point) -> BoxFuture<'_, Result<()>> {
        let lost = point == Point::AfterCommit && self.0.fetch_sub(1, Ordering::Relaxed) == 1;
        Box::pin(async move { if lost { Err(Error::internal("lost")) } else { Ok(()) } })
    }
}

#[tokio::test]
async fn an_attempt_whose_record_is_repeated_is_logged_once() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.advance(10);
    // A pass, a claim, and then the finish.
    let checkpoint = Arc::new(LosesOne(AtomicUsize::new(3)));
    let store = t.database.another().await.with_checkpoint(checkpoint.clone());
    let parts = parts(store, &t.clock, t.app.config.clone(), t.app.egress.clone());
    let executor = Executor::new(Arc::new(App::new(parts).unwrap()));
    executor.run_until_idle().await.unwrap();
    assert_eq!(t.receiver.received().len(), 1);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Completed, 1));
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    // The third commit's answer was lost, and a fourth repeated it.
    assert!(checkpoint.0.load(Ordering::Relaxed) > usize::MAX / 2);
}
