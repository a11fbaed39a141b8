//! Several executors, and executors that go away.

use std::sync::Arc;

use tokio::sync::Barrier;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::TestApp;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_executors_fire_each_due_time_once() {
    let t = TestApp::new().await;
    t.register("a").await;
    for _ in 0..20 {
        t.trigger("*/10 * * * * *").await;
    }
    t.advance(30);
    let barrier = Arc::new(Barrier::new(4));
    let mut racers = Vec::new();
    for _ in 0..4 {
        let (executor, barrier) = (t.another_executor().await, barrier.clone());
        racers.push(tokio::spawn(async move {
            barrier.wait().await;
            executor.run_until_idle().await.unwrap()
        }));
    }
    let mut attempts = 0;
    for racer in racers {
        attempts += racer.await.unwrap().attempts;
    }
    // A racer may find nothing due while another still holds it.
    attempts += t.run().await.attempts;
    assert_eq!(attempts, 60);
    let mut ids: Vec<_> =
        t.receiver.received().iter().map(|r| r.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 60);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 60);
    assert!(t.occurrences().await.iter().all(|o| o.status == OccurrenceStatus::Delivered));
}

#[tokio::test]
async fn what_a_dead_executor_held_is_taken_over_when_its_lease_ends() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let dead = t.another_executor().await;
    assert_eq!(dead.pass(t.app.now(), 10).await.unwrap().deliveries, 1);
    drop(dead);
    t.run().await;
    assert!(t.receiver.received().is_empty(), "it is somebody's until its lease ends");
    t.live(29, &[backend.id]).await;
    assert!(t.receiver.received().is_empty());
    t.live(2, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1);
    assert_eq!(t.receiver.received()[0].header("x-trigger-attempt"), "2");
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Completed);
    let attempts = t.app.attempts(&[delivery.id]).await.unwrap();
    assert_eq!(attempts[0].reason.as_deref(), Some("lease_expired"));
}

#[tokio::test]
async fn an_executor_that_comes_back_after_its_lease_sends_nothing_it_no_longer_holds() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let slow = t.another_executor().await;
    slow.pass(t.app.now(), 10).await.unwrap();
    t.live(31, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 1);
    slow.run_until_idle().await.unwrap();
    assert_eq!(t.receiver.received().len(), 1);
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Completed);
}
