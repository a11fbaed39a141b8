//! The driver: the executor's loop as a process runs it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trigger_manager::clock::{Clock, SystemClock};
use trigger_manager::domain::event::EventStatus;
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::domain::trigger::Trigger;
use trigger_manager::executor::{Executor, driver};
use trigger_manager::store::{Engine, event};

use crate::app::TestApp;
use crate::client::Client;
use crate::receiver::{Answer, Received};
use crate::rules::place::{Place, user};
use crate::served::listen;

const ALIVE: &str = "{ executorStatus { executors { alive } } }";

/// A client that may ask what the executors do.
pub async fn administrator(t: &TestApp) -> Client {
    let (secret, _) = t.app.create_personal_access_token(&t.caller, "t", None).await.unwrap();
    let base = listen(trigger_manager::api::router(t.app.clone())).await;
    Client::new(&base).bearer(secrecy::ExposeSecret::expose_secret(&secret))
}

fn running(data: &Value) -> Option<()> {
    (data["executorStatus"]["executors"][0]["alive"] == true).then_some(())
}

/// A backend, and a trigger that nobody will see due. The clock begins at the machine's time: on
/// PostgreSQL a driver does nothing when it differs from the database's.
async fn world() -> (TestApp, Trigger) {
    world_ago(0).await
}

/// One whose clock is so many seconds behind, until it is set right: what is held until then has been so for
/// that long.
async fn world_ago(seconds: i64) -> (TestApp, Trigger) {
    let t = TestApp::new().await;
    t.clock.set(SystemClock.now() - chrono::Duration::seconds(seconds));
    t.register("a").await;
    let trigger = t.trigger("0 0 0 29 2 *").await;
    (t, trigger)
}

/// An executor of another process, driven until `stop`; returned once it has begun.
pub async fn drive(t: &TestApp, stop: &CancellationToken) -> JoinHandle<()> {
    let settings = [("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1s")];
    let executor = Arc::new(t.another_executor_with(&settings).await);
    let driving = tokio::spawn(driver::run(executor, stop.clone()));
    administrator(t).await.until(ALIVE, json!(null), running).await;
    driving
}

/// An executor in the middle of a call that hangs.
async fn in_a_call(t: &TestApp, trigger: &Trigger) -> JoinHandle<()> {
    t.receiver.next("/a", [Answer::Hang]);
    t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    let executor = t.another_executor().await;
    let calling = tokio::spawn(async move { drop(executor.run_until_idle().await) });
    t.receiver.until(|received| received.len() == 1).await;
    calling
}

#[tokio::test]
async fn work_of_which_no_hint_was_heard_is_found_by_the_next_look() {
    let (t, trigger) = world().await;
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    t.advance(1);
    t.receiver.until(|received| received.len() == 1).await;
    stop.cancel();
    driving.await.unwrap();
}

#[tokio::test]
async fn what_is_ready_before_it_is_due_waits_for_its_time() {
    let (t, other) = world().await;
    let each_second = t.trigger("* * * * * *").await;
    let due = each_second.next_fire_at.unwrap();
    t.clock.set(due - chrono::Duration::milliseconds(1));
    t.app.run_trigger(&t.caller, other.id).await.unwrap();
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    t.receiver.until(|received| received.len() == 1).await;
    assert!(t.occurrences().await.iter().all(|one| one.trigger_id == other.id));
    t.clock.set(due);
    t.receiver.until(|received| received.len() == 2).await;
    let occurrences = t.occurrences().await;
    let called = occurrences.iter().find(|one| one.trigger_id == each_second.id).unwrap();
    assert_eq!((called.scheduled_at, called.created_at), (due, due));
    stop.cancel();
    driving.await.unwrap();
}

/// On SQLite, with its one writer, nothing can hold up an evaluation alone.
#[tokio::test]
async fn a_trigger_is_called_while_an_evaluation_hangs() {
    let p = Place::new().await;
    p.t.clock.advance(SystemClock.now() - p.t.clock.now());
    p.t.register("a").await;
    let trigger = p.t.trigger("0 0 0 29 2 *").await;
    p.save(TriggerRule { source_type: "booking_event".into(), ..p.draft() }).await;
    let payload = json!({"bookingId": "b", "status": "new", "startsAt": p.t.app.now()});
    let booking = p.event("booking_event", Some(user(1)), payload);
    p.happens(std::slice::from_ref(&booking)).await;
    let mut held = None;
    if p.t.app.store.engine() == Engine::Postgres {
        let tx = p.t.app.store.begin().await.unwrap();
        event::hold_subjects(&tx, &[&booking]).await.unwrap();
        held = Some(tx);
    }
    let stop = CancellationToken::new();
    let driving = drive(&p.t, &stop).await;
    p.t.app.run_trigger(&p.t.caller, trigger.id).await.unwrap();
    p.t.advance(1);
    p.t.receiver.until(|received| received.len() == 1).await;
    if held.is_some() {
        assert_eq!(p.events().await[0].status, EventStatus::Pending);
    }
    drop(held);
    stop.cancel();
    driving.await.unwrap();
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn what_an_executor_left_behind_is_called_when_its_lease_has_ended() {
    let (t, trigger) = world_ago(31).await;
    // It goes away in the middle of a call.
    in_a_call(&t, &trigger).await.abort();
    t.clock.set(SystemClock.now());
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    t.receiver.until(|received| received.len() == 2).await;
    let received = t.receiver.received();
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[1].header("x-trigger-attempt"), "2");
    stop.cancel();
    driving.await.unwrap();
}

#[tokio::test]
async fn all_that_an_executor_left_behind_is_called_at_once_however_much_it_is() {
    let (t, _) = world_ago(61).await;
    t.register("b").await;
    for _ in 0..10 {
        t.trigger("* * * * * *").await;
    }
    t.advance(30);
    let gone = t.another_executor().await;
    let mut left = 0;
    for _ in 0..10 {
        left += gone.pass(t.app.now(), 1000).await.unwrap().deliveries;
    }
    assert_eq!(left, 600);
    drop(gone);
    t.clock.set(SystemClock.now());
    for name in ["a", "b"] {
        t.register(name).await;
    }
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    let clock = t.clock.clone();
    let again = move |received: &[Received]| {
        // So many calls take a while: the driver's clock goes on as the database's does.
        clock.set(SystemClock.now());
        received.iter().filter(|call| call.header("x-trigger-attempt") == "2").count() == left
    };
    t.receiver.until(again).await;
    stop.cancel();
    driving.await.unwrap();
}

/// Only PostgreSQL has a clock to compare the executor's with.
#[tokio::test]
async fn an_executor_whose_clock_is_wrong_takes_nothing_from_others() {
    let (t, trigger) = world().await;
    let holding = in_a_call(&t, &trigger).await;
    let before = t.deliveries().await;
    t.advance(31);
    let (wrong, stop) = (t.another_app_with(&[]).await, CancellationToken::new());
    let executor = Arc::new(Executor::new(wrong.clone()));
    let driving = tokio::spawn(driver::run(executor, stop.clone()));
    if t.app.store.engine() == Engine::Postgres {
        // It has looked at the clocks, and so it has begun.
        while wrong.clock_holds().is_ok() {
            tokio::task::yield_now().await;
        }
    } else {
        t.receiver.until(|received| received.len() == 2).await;
    }
    stop.cancel();
    driving.await.unwrap();
    holding.abort();
    let after = t.deliveries().await;
    assert_eq!(after == before, t.app.store.engine() == Engine::Postgres, "{after:?}");
}
