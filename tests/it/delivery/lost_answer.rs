//! The answer to a commit is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trigger_manager::checkpoint::Point;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::error::Error;

use crate::app::TestApp;

#[tokio::test]
async fn an_attempt_whose_record_is_repeated_is_logged_once() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.advance(10);
    // A pass, a claim, and then the finish.
    let commits = Arc::new(AtomicUsize::new(0));
    let seen = commits.clone();
    let executor = t.executor_at(move |point| {
        let lost = point == Point::AfterCommit && seen.fetch_add(1, Ordering::Relaxed) == 2;
        if lost { Err(Error::internal("lost")) } else { Ok(()) }
    });
    let executor = executor.await;
    executor.run_until_idle().await.unwrap();
    assert_eq!(t.receiver.received().len(), 1);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!((delivery.status, delivery.retry_count), (ActionStatus::Completed, 1));
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    // The third commit's answer was lost, and a fourth repeated it.
    assert!(commits.load(Ordering::Relaxed) > 3);
}
