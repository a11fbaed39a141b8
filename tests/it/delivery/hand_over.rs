//! Several executors, and executors that go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chrono::Duration;
use tokio::sync::Barrier;
use trigger_manager::app::RegisterBackend;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::TestApp;
use crate::receiver::Answer;

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
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts[0].reason.as_deref(), Some("lease_expired"));
    let metrics = t.app.metrics.encode();
    assert!(metrics.contains("pfy_executor_leases_expired_total 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_reap_answers_how_much_it_took_back_and_nothing_twice() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    for _ in 0..3 {
        t.trigger("0 0 * * * *").await;
    }
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let dead = t.another_executor().await;
    assert_eq!(dead.pass(t.app.now(), 10).await.unwrap().deliveries, 3);
    assert_eq!(t.executor.reap(t.app.now()).await.unwrap(), 0);
    t.advance(31);
    assert_eq!(t.executor.reap(t.app.now()).await.unwrap(), 3);
    assert_eq!(t.executor.reap(t.app.now()).await.unwrap(), 0);
    assert!(t.deliveries().await.iter().all(|one| one.status == ActionStatus::Pending));
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

#[tokio::test]
async fn a_claim_begins_after_the_lanes_that_the_one_before_came_to() {
    let t = TestApp::new().await;
    let mut backends = Vec::new();
    for name in ["a", "b", "c"] {
        backends.push(t.register(name).await.id);
    }
    backends.sort_by_key(|id| id.0);
    t.trigger("*/30 * * * * *").await;
    t.advance(60);
    let executor = t.another_executor().await;
    executor.pass(t.app.now(), 0).await.unwrap();
    assert_eq!(executor.claim(t.app.now(), 3).await.unwrap(), 3);
    assert_eq!(executor.claim(t.app.now(), 1).await.unwrap(), 1);
    let deliveries = t.deliveries().await;
    let claimed = backends.iter().map(|id| {
        let of = deliveries.iter().filter(|delivery| delivery.backend_id == *id);
        of.filter(|delivery| delivery.status == ActionStatus::Processing).count()
    });
    assert_eq!(claimed.collect::<Vec<_>>(), [2, 1, 1], "the third was not passed over");
}

#[tokio::test]
async fn what_is_known_too_late_is_logged_and_changes_nothing() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    // The first answer comes when the lease has ended and the work has been taken back.
    let (app, clock, first) = (t.app.clone(), t.clock.clone(), Arc::new(AtomicBool::new(true)));
    let other = Arc::new(t.another_executor().await);
    t.receiver.during("/a", move || {
        let (app, clock, other) = (app.clone(), clock.clone(), other.clone());
        let first = first.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            if first {
                clock.advance(chrono::Duration::seconds(31));
                assert_eq!(other.reap(app.now()).await.unwrap(), 1);
            }
        })
    });
    t.receiver.next("/a", [Answer::Status(410)]);
    t.run().await;
    let delivery = t.deliveries().await.remove(0);
    assert_eq!(delivery.status, ActionStatus::Completed, "the backend was not turned away");
    let attempts = t.app.attempts_of(&[delivery.id]).await.unwrap();
    assert_eq!(attempts.len(), 3, "the late one, the one that was given up, and the last");
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Delivered);
    let metrics = t.app.metrics.encode();
    assert!(metrics.contains("pfy_executor_fenced_total 1\n"), "{metrics}");
    assert!(metrics.contains("pfy_executor_callbacks_refused_total 0\n"), "{metrics}");
}

#[tokio::test]
async fn what_was_known_of_a_backend_is_old_when_the_clock_was_set_back() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    for _ in 0..3 {
        t.trigger("0 0 * * * *").await;
    }
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    // The first call lasts; during the second the clock is set back, and the backend moves.
    let (app, caller, clock, calls) =
        (t.app.clone(), t.caller.clone(), t.clock.clone(), AtomicUsize::new(0));
    let moved = RegisterBackend {
        application_id: Some(t.application.id),
        name: "a".into(),
        callback_url: t.receiver.url("/moved"),
        ..Default::default()
    };
    t.receiver.during("/a", move || {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let (app, caller, moved) = (app.clone(), caller.clone(), moved.clone());
        clock.advance(Duration::seconds(if call == 0 { 2 } else { -600 }));
        Box::pin(async move {
            if call == 1 {
                app.register_backend(&caller, moved).await.unwrap();
            }
        })
    });
    t.run().await;
    let paths: Vec<_> = t.receiver.received().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/a", "/a", "/moved"]);
}
