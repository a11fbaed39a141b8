//! What takes too long must not keep others waiting, nor be tried for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, json};
use trigger_manager::checkpoint::Point;
use trigger_manager::domain::cycle::CycleStatus;
use trigger_manager::domain::event::{Event, EventStatus};
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::error::Error;

use super::cycles::hourly;
use super::events::{refusing, refusing_where};
use super::place::{Place, user};
use crate::store_contract::world::execute;

/// Looks at all of a form for each of its answers: with [`large`] some two million steps at the
/// most, and far fewer in truth.
const COSTLY: &str = "event.payload.answers.all(k, event.payload.answers[k] == '1')";

/// A form with many answers.
fn large(p: &Place, number: usize) -> Event {
    let answers: Map<_, _> =
        (0..400).map(|answer| (format!("answer{answer}"), json!("1"))).collect();
    let payload = json!({"formId": "f", "submissionId": "s", "answers": answers});
    p.event("form_submitted", Some(user(number)), payload)
}

async fn costly_rules(p: &Place, count: usize) {
    for _ in 0..count {
        let condition = json!({ "condition": COSTLY });
        p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    }
}

#[tokio::test]
async fn rules_that_cost_too_much_together_have_failed_and_those_before_them_fire() {
    let p = Place::new().await;
    costly_rules(&p, 30).await;
    p.happens(&[large(&p, 1), p.form(2)]).await;
    p.t.run().await;
    assert!(p.events().await.iter().all(|event| event.status == EventStatus::Processed));
    let logs = p.logs().await;
    let failed: Vec<_> = logs.iter().filter(|log| log.status.as_str() == "failed").collect();
    assert!((1..30).contains(&failed.len()), "{}", failed.len());
    assert!(failed.iter().all(|log| log.reason.as_deref() == Some("too_costly")));
    assert!(failed.iter().all(|log| log.user_id == Some(user(1))));
    assert_eq!(p.sent().len(), 30 - failed.len());
}

#[tokio::test]
async fn events_that_cost_too_much_together_are_evaluated_in_several_transactions() {
    let p = Place::new().await;
    costly_rules(&p, 7).await;
    let events: Vec<_> = (0..4).map(|number| large(&p, number)).collect();
    p.happens(&events).await;
    let mut batches = Vec::new();
    while p.events().await.iter().any(|event| event.status == EventStatus::Pending) {
        batches.push(p.t.executor.take_events(p.t.app.now()).await.unwrap().events);
    }
    assert_eq!(batches, [2, 2]);
    p.t.run().await;
    assert_eq!(p.sent().len(), 4 * 7);
}

#[tokio::test]
async fn events_that_meet_many_rules_are_evaluated_in_several_transactions() {
    let p = Place::new().await;
    for _ in 0..11 {
        let condition = json!({ "condition": "false" });
        p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    }
    let events: Vec<_> = (0..500).map(|number| p.form(number)).collect();
    p.happens(&events).await;
    let take = async || p.t.executor.take_events(p.t.app.now()).await.unwrap().events;
    assert_eq!([take().await, take().await, take().await], [455, 45, 0]);
    assert_eq!(p.logs().await.len(), 5_500);
}

#[tokio::test]
async fn an_event_of_which_no_evaluation_comes_to_an_end_has_failed_and_the_others_go_on() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    let lost = Arc::new(AtomicU32::new(0));
    let counted = lost.clone();
    // The connection is gone by the time at which there is something to commit.
    let executor = p.t.executor_at(move |point| match point {
        Point::BeforeCommit if counted.fetch_add(1, Ordering::Relaxed) < 15 => {
            Err(Error::internal("the connection is gone"))
        }
        _ => Ok(()),
    });
    let executor = executor.await;
    p.happens(&[p.form(1), p.form(2)]).await;
    let now = p.t.app.now();
    for _ in 0..15 {
        executor.take_events(now).await.unwrap_err();
    }
    assert_eq!(executor.take_events(now).await.unwrap().events, 1);
    let events = p.events().await;
    assert_eq!([events[0].status, events[1].status], [EventStatus::Failed, EventStatus::Pending]);
    assert!(events[0].error.is_some());
    executor.run_until_idle().await.unwrap();
    assert_eq!(p.events().await[1].status, EventStatus::Processed);
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn a_busy_database_is_never_the_reason_why_an_event_has_failed() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    let busy = AtomicU32::new(0);
    let executor = p.t.executor_at(move |point| match point {
        Point::BeforeCommit if busy.fetch_add(1, Ordering::Relaxed) < 40 => Err(Error::Busy),
        _ => Ok(()),
    });
    let executor = executor.await;
    p.happens(&[p.form(1)]).await;
    for _ in 0..40 {
        executor.take_events(p.t.app.now()).await.unwrap_err();
    }
    executor.run_until_idle().await.unwrap();
    assert_eq!(p.events().await[0].status, EventStatus::Processed);
}

/// Walks until nothing is being walked. Answers how often it failed.
async fn walk_all(p: &Place) -> usize {
    let mut failures = 0;
    while p.cycles().await.iter().any(|cycle| cycle.status == CycleStatus::Processing) {
        failures += usize::from(p.t.executor.walk_cycle(p.t.app.now()).await.is_err());
        assert!(failures < 100, "it is tried for ever");
    }
    failures
}

async fn refuse(p: &Place, statements: Vec<String>) {
    for statement in statements {
        execute(&p.t.app.store, &statement).await;
    }
}

#[tokio::test]
async fn a_user_of_a_cycle_who_can_not_be_handled_is_logged_and_the_walk_goes_on_behind() {
    let p = Place::new().await;
    let audience = p.audience(20).await;
    hourly(&p, audience.id).await;
    refuse(&p, refusing(p.t.app.store.engine(), &user(7))).await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    assert!(walk_all(&p).await > 3);
    let cycle = p.cycles().await.remove(0);
    assert_eq!(cycle.status, CycleStatus::Completed);
    assert_eq!((cycle.processed_users, cycle.failed_users), (20, 1));
    let failed = p.logs().await.into_iter().filter(|log| log.status.as_str() == "failed");
    let failed: Vec<_> = failed.map(|log| (log.user_id.unwrap(), log.reason.unwrap())).collect();
    assert_eq!(failed, [(user(7), "not_evaluated".to_owned())]);
    p.t.run().await;
    assert_eq!(p.sent().len(), 19);
}

#[tokio::test]
async fn other_cycles_do_not_wait_for_one_that_can_not_be_walked() {
    let p = Place::new().await;
    let (bad, good) = (p.audience(20).await, p.audience(5).await);
    hourly(&p, bad.id).await;
    let good = hourly(&p, good.id).await;
    refuse(&p, refusing(p.t.app.store.engine(), &user(7))).await;
    p.t.advance(3600);
    let now = p.t.app.now();
    p.t.executor.begin_cycles(now).await.unwrap();
    let both = [p.t.executor.walk_cycle(now).await, p.t.executor.walk_cycle(now).await];
    assert_eq!(both.iter().filter(|walked| walked.is_err()).count(), 1);
    let done = p.cycles().await.into_iter().filter(|one| one.status == CycleStatus::Completed);
    assert_eq!(done.map(|cycle| cycle.trigger_rule_id).collect::<Vec<_>>(), [good.id]);
}

#[tokio::test]
async fn a_cycle_none_of_whose_users_can_be_handled_has_failed_and_says_so() {
    let p = Place::new().await;
    let audience = p.audience(30).await;
    hourly(&p, audience.id).await;
    refuse(&p, refusing_where(p.t.app.store.engine(), "NEW.user_id IS NOT NULL")).await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    walk_all(&p).await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.failed_users), (CycleStatus::Failed, 10));
    assert!(cycle.error_message.is_some());
    assert_eq!(cycle.completed_at, Some(p.t.app.now()));
}

#[tokio::test]
async fn users_whose_evaluation_costs_much_are_walked_in_several_steps_and_each_once() {
    let p = Place::new().await;
    let audience = p.audience(20).await;
    let rule = hourly(&p, audience.id).await;
    let condition = "user.attributes.tags.all(t, size(user.attributes.tags) > 0)";
    let mut config = rule.source_config.clone();
    config["condition"] = condition.into();
    p.save(TriggerRule { source_config: config, ..rule }).await;
    let tags: Vec<_> = (0..400).map(|tag| format!("tag-{tag:06}")).collect();
    for number in 0..20 {
        let (whom, attributes) = (user(number), json!({ "tags": tags }));
        let set = p.t.app.set_line_user_attributes(&p.t.caller, (p.line_oa.id, &whom), attributes);
        set.await.unwrap();
    }
    p.t.advance(3600);
    let now = p.t.app.now();
    p.t.executor.begin_cycles(now).await.unwrap();
    assert!(p.t.executor.walk_cycle(now).await.unwrap());
    let cycle = p.cycles().await.remove(0);
    assert_eq!(cycle.status, CycleStatus::Processing);
    assert!((2..20).contains(&cycle.processed_users), "{}", cycle.processed_users);
    p.t.run().await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.processed_users), (CycleStatus::Completed, 20));
    assert_eq!(p.sent().len(), 20);
}
