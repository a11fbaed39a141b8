//! Several executors at once.

use std::sync::Arc;

use tokio::sync::Barrier;
use trigger_manager::domain::rule::{Frequency, TriggerRule};

use super::place::{Place, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_events_of_one_user_on_three_executors_fire_exactly_once() {
    for (frequency, cooldown_seconds) in [
        (Frequency::Once, 0),
        (Frequency::OncePerHour, 0),
        (Frequency::OncePerDay, 0),
        (Frequency::OncePerWeek, 0),
        (Frequency::OncePerMonth, 0),
        (Frequency::EveryTime, 60),
    ] {
        let p = Place::new().await;
        p.save(TriggerRule { frequency, cooldown_seconds, ..p.draft() }).await;
        let executors =
            [p.another_executor().await, p.another_executor().await, p.another_executor().await];
        let (p, barrier) = (Arc::new(p), Arc::new(Barrier::new(3)));
        let mut tasks = tokio::task::JoinSet::new();
        for executor in executors {
            let (p, barrier) = (p.clone(), barrier.clone());
            tasks.spawn(async move {
                barrier.wait().await;
                for _ in 0..67 {
                    p.happens(&[p.form(1)]).await;
                    executor.take_events(p.t.app.now()).await.unwrap();
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        p.t.run().await;
        assert_eq!(p.sent().len(), 1, "{frequency:?}");
        let said = p.said().await;
        let queued = said.iter().filter(|(status, _)| *status == "queued").count();
        let held = said.iter().filter(|(status, _)| *status == "held_back").count();
        assert_eq!((queued, held), (1, 200), "{frequency:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_is_evaluated_by_one_executor_however_many_there_are() {
    let p = Place::new().await;
    p.on_forms("send_message", text("Hi")).await;
    let events: Vec<_> = (0..300).map(|number| p.form(number)).collect();
    p.happens(&events).await;
    let executors =
        [p.another_executor().await, p.another_executor().await, p.another_executor().await];
    let (now, barrier) = (p.t.app.now(), Arc::new(Barrier::new(3)));
    let mut tasks = tokio::task::JoinSet::new();
    for executor in executors {
        let barrier = barrier.clone();
        tasks.spawn(async move {
            barrier.wait().await;
            while executor.take_events(now).await.unwrap().events > 0 {}
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    p.t.run().await;
    let mut users: Vec<_> = p.sent().into_iter().map(|(user, _)| user).collect();
    users.sort();
    users.dedup();
    assert_eq!((p.sent().len(), users.len()), (300, 300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_executors_begin_one_cycle_once() {
    let p = Place::new().await;
    let audience = p.audience(10).await;
    super::cycles::hourly(&p, audience.id).await;
    p.t.advance(3600);
    let executors = [p.another_executor().await, p.another_executor().await];
    let (now, barrier) = (p.t.app.now(), Arc::new(Barrier::new(2)));
    let mut tasks = tokio::task::JoinSet::new();
    for executor in executors {
        let barrier = barrier.clone();
        tasks.spawn(async move {
            barrier.wait().await;
            executor.begin_cycles(now).await.unwrap();
            while executor.walk_cycle(now).await.unwrap() {}
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    p.t.run().await;
    assert_eq!(p.cycles().await.len(), 1);
    assert_eq!(p.sent().len(), 10);
}
