//! Several executors at once.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use tokio::sync::Barrier;
use trigger_manager::app::UpdateTriggerRule;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::event::Event;
use trigger_manager::domain::id::{CycleId, ScheduledActionId};
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::store::firing::{self, NewFiring};
use trigger_manager::store::rule::{self, Ask, take};
use trigger_manager::store::{Engine, Hold, Tx, cycle, line, scheduled_action};
use uuid::Uuid;

use super::place::{Place, text};
use crate::harness::{engine, until_another_waits_for};

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

/// What an executor does about an event, up to its commit: takes the right to fire and queues.
async fn fires(tx: &Tx, rule: &TriggerRule, event: &Event, now: DateTime<Utc>) {
    let user_id = event.user_id.as_deref();
    let pause_ms = rule.pause().map(|pause| pause.num_milliseconds());
    let ask = Ask { rule_id: rule.id, user_id: user_id.unwrap().into(), pause_ms, by: event.id.0 };
    assert!(take(&**tx, &[ask], now).await.unwrap()[0].2.taken);
    let queued = NewFiring {
        id: ScheduledActionId::new(),
        trigger_rule_id: rule.id,
        user_id,
        action_config: &rule.action_config,
        execute_at: now,
        expires_at: now + Duration::hours(1),
        application_id: None,
        event_id: Some(event.id),
        subject: None,
    };
    firing::queue(&**tx, &[queued], None, now).await.unwrap();
}

/// On SQLite, with its one writer, the edit begins when the batch has ended.
#[tokio::test]
async fn a_rule_that_is_edited_while_its_audience_is_walked_changes_between_two_batches() {
    let p = Place::new().await;
    let audience = p.audience(2).await;
    let rule = super::cycles::hourly(&p, audience.id).await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    let walking = p.t.app.store.begin().await.unwrap();
    let walked = cycle::next(&*walking, CycleId(Uuid::nil())).await.unwrap();
    assert_eq!(walked.unwrap().trigger_rule_id, rule.id);
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let renamed = UpdateTriggerRule { name: Some("Renamed".into()), ..Default::default() };
    let editing =
        tokio::spawn(async move { app.update_trigger_rule(&caller, rule.id, renamed).await });
    until_another_waits_for(&walking).await;
    let read = rule::find_all(&*walking, Scope::Everything, &[rule.id]).await.unwrap();
    assert_eq!(read[0].name, rule.name);
    walking.commit_unaudited().await.unwrap();
    assert_eq!(editing.await.unwrap().unwrap().name, "Renamed");
}

/// On SQLite, with its one writer, each begins when the one before has ended.
#[tokio::test]
async fn who_disables_a_rule_and_who_records_a_pause_of_its_line_oa_do_not_wait_for_each_other() {
    let p = Place::new().await;
    let limited = TriggerRule { cooldown_seconds: 60, ..p.draft() };
    let (now, rule) = (p.t.app.now(), p.save(limited.clone()).await);
    let (event, store) = (p.form(1), p.t.app.store.clone());
    let batch = store.begin().await.unwrap();
    rule::versions(&batch, &[p.line_oa.id]).await.unwrap();
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let off = UpdateTriggerRule { enabled: Some(false), ..Default::default() };
    let disabling =
        tokio::spawn(async move { app.update_trigger_rule(&caller, rule.id, off).await });
    until_another_waits_for(&batch).await;
    let mut batch = Some(batch);
    if engine() == Engine::Sqlite {
        batch.take().unwrap().commit_unaudited().await.unwrap();
    }
    let queueing = store.begin().await.unwrap();
    fires(&queueing, &limited, &event, now).await;
    queueing.commit_unaudited().await.unwrap();
    let queued = p.actions().await.pop().unwrap();
    let finishing = store.begin().await.unwrap();
    scheduled_action::cancel(&*finishing, queued.id, "test", now).await.unwrap();
    if let Some(batch) = batch {
        batch.commit_unaudited().await.unwrap();
        until_another_waits_for(&finishing).await;
    }
    line::find_held(&finishing, Scope::Everything, p.line_oa.id, Hold::Change).await.unwrap();
    finishing.commit_unaudited().await.unwrap();
    assert!(!disabling.await.unwrap().unwrap().enabled);
}

/// On SQLite, with its one writer, the second transaction begins when the first one has ended.
#[tokio::test]
async fn what_a_transaction_queued_that_stood_still_for_longer_than_the_cooldown_holds_back_more() {
    for has_fired in [false, true] {
        let p = Place::new().await;
        let rule = p.save(TriggerRule { cooldown_seconds: 60, ..p.draft() }).await;
        if has_fired {
            p.form_sent(1).await;
            p.t.advance(60);
        }
        let (sent, now) = (p.sent().len(), p.t.app.now());
        p.happens(&[p.form(1)]).await;
        let stalled = p.t.app.store.begin().await.unwrap();
        fires(&stalled, &rule, &p.form(1), now).await;
        p.t.advance(61);
        let (second, now) = (p.another_executor().await, p.t.app.now());
        let taking = tokio::spawn(async move { second.take_events(now).await });
        until_another_waits_for(&stalled).await;
        stalled.commit_unaudited().await.unwrap();
        assert_eq!(taking.await.unwrap().unwrap().queued, 0, "{has_fired}");
        assert_eq!(p.logs().await.pop().unwrap().reason.as_deref(), Some("waiting"));
        p.t.run().await;
        assert_eq!(p.sent().len(), sent + 1);
        p.t.advance(1);
        p.form_sent(1).await;
        assert_eq!(p.sent().len(), sent + 2, "what it queued is done, and the pause is over");
    }
}
