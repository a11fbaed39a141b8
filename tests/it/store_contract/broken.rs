//! Transactions that the database ends by itself.

use sea_orm::{ConnectionTrait, DbBackend, Statement};
use trigger_manager::store::{Engine, setting};

use super::world::at;
use crate::harness::{TestStore, engine};

/// Makes the transaction's connection fail as a full disk, or a server that goes away, does.
async fn break_it(tx: &trigger_manager::store::Tx) {
    match engine() {
        Engine::Sqlite => {
            tx.execute_unprepared("PRAGMA max_page_count = 1").await.unwrap();
            let much = "x".repeat(1_000_000);
            setting::set(&**tx, "much", &much, at(0)).await.unwrap_err();
        }
        Engine::Postgres => {
            let end = "SELECT pg_terminate_backend(pg_backend_pid())";
            tx.execute_unprepared(end).await.unwrap_err();
        }
    }
}

#[tokio::test]
async fn what_is_committed_after_a_broken_transaction_is_there_for_everybody() {
    let store = TestStore::new().await;
    let tx = store.begin().await.unwrap();
    break_it(&tx).await;
    drop(tx);
    // A transaction that changes nothing and is dropped, as a pass that finds nothing due.
    drop(store.begin().await.unwrap());
    let tx = store.begin().await.unwrap();
    setting::set(&*tx, "after", "kept", at(1)).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    let another = store.another().await;
    let found = setting::get(another.read(), "after").await.unwrap();
    assert_eq!(found.as_deref(), Some("kept"));
}

/// Ends the connections of four transactions while they rest. On SQLite nothing can end one.
async fn end_resting_ones(store: &TestStore) {
    if engine() == Engine::Sqlite {
        return;
    }
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let tx = store.begin().await.unwrap();
        let which = Statement::from_string(DbBackend::Postgres, "SELECT pg_backend_pid() AS pid");
        let row = tx.query_one_raw(which).await.unwrap().unwrap();
        ended.push(row.try_get::<i32>("", "pid").unwrap());
        begun.push(tx);
    }
    for tx in begun {
        tx.rollback().await.unwrap();
    }
    let another = store.another().await;
    for pid in ended {
        let end = format!("SELECT pg_terminate_backend({pid}, 10000)");
        another.read().execute_unprepared(&end).await.unwrap();
    }
}

#[tokio::test]
async fn when_one_connection_was_lost_the_others_are_tried_before_they_are_used() {
    let store = TestStore::racing().await;
    end_resting_ones(&store).await;
    let mut failed = 0;
    for _ in 0..6 {
        failed += usize::from(setting::get(store.read(), "a").await.is_err());
    }
    assert!(failed <= 1, "{failed}");
}

#[tokio::test]
async fn a_transaction_that_is_left_alone_does_not_hold_its_locks_for_ever() {
    // SQLite's locks end with the process, and a frozen one is the only one.
    if engine() == Engine::Sqlite {
        return;
    }
    let store = TestStore::new().await;
    let show = "SHOW idle_in_transaction_session_timeout";
    let show = Statement::from_string(DbBackend::Postgres, show);
    let row = store.read().query_one_raw(show).await.unwrap().unwrap();
    let found: String = row.try_get_by_index(0).unwrap();
    assert_eq!(found, "15s");
}

/// PostgreSQL keeps its files by itself.
#[tokio::test]
async fn nothing_is_written_to_a_file_that_was_removed_or_replaced() {
    let store = TestStore::new().await;
    let Some(file) = store.file() else {
        store.ping().await.unwrap();
        return;
    };
    store.ping().await.unwrap();
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).unwrap();
    for stands_there in [false, true] {
        if stands_there {
            std::fs::copy(&aside, &file).unwrap();
        }
        assert_eq!(store.ping().await.unwrap_err().code(), "INTERNAL");
        let error = store.begin().await.map(drop).unwrap_err();
        assert!(format!("{error:?}").contains("was removed or replaced"), "{error:?}");
    }
    std::fs::rename(&aside, &file).unwrap();
    drop(store.begin().await.unwrap());
    store.ping().await.unwrap();
}
