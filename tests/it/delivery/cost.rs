//! What delivering costs the database, in counts that no noise can touch.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::Duration;
use trigger_manager::domain::id::TriggerId;
use trigger_manager::domain::trigger::Trigger;
use trigger_manager::store::{Engine, trigger};

use crate::app::TestApp;
use crate::harness::{TestStore, engine};

const DUE: usize = 10_000;

/// Triggers that are due at the next full hour.
async fn due_triggers(t: &TestApp, many: usize) {
    let first = t.trigger("0 0 * * * *").await;
    let tx = t.app.store.begin().await.unwrap();
    for _ in 1..many {
        let another = Trigger { id: TriggerId::new(), ..first.clone() };
        trigger::insert(&*tx, &another).await.unwrap();
    }
    tx.commit_unaudited().await.unwrap();
}

#[tokio::test]
async fn ten_thousand_deliveries_cost_a_fixed_number_of_statements_and_commits_a_batch() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    due_triggers(&t, DUE).await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let traffic = t.app.store.traffic();
    let (statements, commits) = (traffic.statements(), traffic.commits());
    let report = t.run().await;
    assert_eq!((report.occurrences, report.attempts), (DUE, DUE));
    let ids: HashSet<_> =
        t.receiver.received().iter().map(|r| r.header("webhook-id").to_owned()).collect();
    assert_eq!((t.receiver.received().len(), ids.len()), (DUE, DUE));
    // Of 500: a pass. Of 250, as much as one backend's lane takes: a claim and a finish.
    let commits = traffic.commits() - commits;
    assert_eq!(commits, (DUE / 500 + DUE / 250 + DUE / 250) as u64);
    let statements = traffic.statements() - statements;
    assert!(statements <= (DUE / 20) as u64, "{statements} statements");
}

#[tokio::test]
async fn a_delivery_writes_no_more_than_three_kilobytes_of_log_and_on_sqlite_four() {
    const DUE: usize = 200;
    let t = TestApp::on(TestStore::alone().await, &[]).await;
    let backend = t.register("a").await;
    due_triggers(&t, DUE).await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let before = t.database.written().await;
    // With room for all of them, as a driver has: none is claimed.
    let passed = t.executor.pass(t.app.now(), DUE).await.unwrap();
    assert_eq!((passed.occurrences, t.run().await.attempts), (DUE, DUE));
    let bytes = (t.database.written().await - before) / DUE as i64;
    let most = match engine() {
        Engine::Postgres => 3_000,
        // Whole pages.
        Engine::Sqlite => 4_000,
    };
    assert!((500..=most).contains(&bytes), "{bytes} bytes");
}

/// Due deliveries to one backend, of which the first lasts `seconds`: the statements that they cost.
async fn statements_when_the_first_lasts(seconds: i64) -> u64 {
    const FEW: usize = 200;
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    due_triggers(&t, FEW).await;
    t.advance(3600);
    t.heartbeat(&[backend.id]).await;
    let (clock, lasts) = (t.clock.clone(), AtomicI64::new(seconds));
    t.receiver.during("/a", move || {
        clock.advance(Duration::seconds(lasts.swap(0, Ordering::Relaxed)));
        Box::pin(async {})
    });
    let before = t.app.store.traffic().statements();
    assert_eq!(t.run().await.attempts, FEW);
    t.app.store.traffic().statements() - before
}

#[tokio::test]
async fn a_backlog_that_is_held_asks_once_a_second_where_it_leads() {
    let statements = statements_when_the_first_lasts(2).await;
    assert!(statements < 50, "{statements} statements");
}

#[tokio::test]
async fn a_backlog_that_can_not_start_in_time_is_given_back_without_a_question() {
    let statements = statements_when_the_first_lasts(12).await;
    assert!(statements < 50, "{statements} statements");
}
