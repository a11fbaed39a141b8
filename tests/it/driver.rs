//! The driver: the executor's loop as a process runs it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trigger_manager::clock::{Clock, SystemClock};
use trigger_manager::domain::trigger::Trigger;
use trigger_manager::executor::driver;

use crate::app::TestApp;
use crate::client::Client;
use crate::receiver::Answer;
use crate::served::listen;

const ALIVE: &str = "{ executorStatus { executors { alive } } }";

/// A client that may ask what the executors do.
async fn administrator(t: &TestApp) -> Client {
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
    let t = TestApp::new().await;
    t.clock.advance(SystemClock.now() - t.clock.now());
    t.register("a").await;
    let trigger = t.trigger("0 0 0 29 2 *").await;
    (t, trigger)
}

/// An executor of another process, driven until `stop`; returned once it has begun.
async fn drive(t: &TestApp, stop: &CancellationToken) -> JoinHandle<()> {
    let settings = [("PFY_CRON_TRIGGER_CHECK_INTERVAL", "1s")];
    let executor = Arc::new(t.another_executor_with(&settings).await);
    let driving = tokio::spawn(driver::run(executor, stop.clone()));
    administrator(t).await.until(ALIVE, json!(null), running).await;
    driving
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
async fn what_an_executor_left_behind_is_called_when_its_lease_has_ended() {
    let (t, trigger) = world().await;
    t.receiver.next("/a", [Answer::Hang]);
    t.app.run_trigger(&t.caller, trigger.id).await.unwrap();
    // It goes away in the middle of a call.
    let gone = t.another_executor().await;
    let gone = tokio::spawn(async move { gone.run_until_idle().await });
    t.receiver.until(|received| received.len() == 1).await;
    gone.abort();
    let stop = CancellationToken::new();
    let driving = drive(&t, &stop).await;
    t.advance(31);
    t.receiver.until(|received| received.len() == 2).await;
    let received = t.receiver.received();
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[1].header("x-trigger-attempt"), "2");
    stop.cancel();
    driving.await.unwrap();
}
