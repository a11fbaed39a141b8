//! The statements of every pass find their rows by an index, however long the tables.

use sea_orm::Value;
use trigger_manager::store::{Engine, Store, executor, planned_statements, removal_statements};
use uuid::Uuid;

use super::world::{World, at, query, within};
use crate::harness::TestStore;

/// 5,000 rows in each table, of which few are due, spread over 20 lanes.
async fn crowd(store: &TestStore) -> World {
    let world = World::new(store).await;
    for number in 0..20 {
        let backend = world.backend(&format!("backend {number}")).await;
        world.queued(backend.id, 250).await;
    }
    super::world::claim(store, at(10), 100, 5).await;
    let trigger = world.trigger("trigger", None).await;
    for batch in 0..5 {
        let occurrences: Vec<_> = (0..1000)
            .map(|number| {
                let mut occurrence = world.new_occurrence(&trigger, at(batch * 1000 + number));
                occurrence.next_attempt_at = (number < 20).then(|| at(number));
                occurrence
            })
            .collect();
        within!(store, |tx| executor::insert_occurrences(&*tx, &occurrences));
    }
    let tx = store.begin().await.unwrap();
    for number in 0..5000 {
        let next = (number % 10 == 0).then(|| at(number));
        let trigger = world.new_trigger("trigger", next);
        trigger_manager::store::trigger::insert(&*tx, &trigger).await.unwrap();
    }
    tx.commit_unaudited().await.unwrap();
    // These alone: the tables of other tests are being dropped.
    for table in ["scheduled_action", "trigger_occurrence", "\"trigger\"", "backend_registration"] {
        super::world::execute(store, &format!("ANALYZE {table}")).await;
    }
    world
}

fn values(statement: &str) -> Vec<Value> {
    let now: Value = at(10_000).into();
    let token = Uuid::new_v4();
    match statement {
        "next_due" => vec![],
        "claim" => vec![
            now,
            token.into(),
            at(30_000).into(),
            500_i64.into(),
            50_i64.into(),
            Uuid::nil().into(),
            "[]".into(),
        ],
        "finish" => {
            let row = format!(
                r#"{{"id":"{token}","lease_token":"{token}","status":"completed",
                "execute_at":"2026-03-01T12:00:00Z","retry_count":1}}"#
            );
            vec![format!("[{row}]").into(), now]
        }
        "settle" => {
            vec![format!(r#"[{{"id":"{token}","delivered":1,"failed":0}}]"#).into(), now]
        }
        cancel if cancel.starts_with("cancel_") => {
            vec![token.into(), "why".into(), now, 5_000_i64.into()]
        }
        "delete_applications" | "delete_open_applications" => {
            vec![format!("[\"{}\"]", token.simple()).into()]
        }
        delete if delete.starts_with("delete_") => vec![token.into()],
        _ => vec![now, 64_i64.into()],
    }
}

async fn plan(store: &Store, statement: &str, sql: &str) -> String {
    let (explain, column) = match store.engine() {
        Engine::Sqlite => ("EXPLAIN QUERY PLAN", "detail"),
        Engine::Postgres => ("EXPLAIN", "QUERY PLAN"),
    };
    let rows = query(store, &format!("{explain} {sql}"), values(statement)).await;
    let lines = rows.iter().map(|row| row.try_get::<String>("", column).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Lines of a plan that read a whole table of ours.
fn whole_tables(plan: &str) -> Vec<&str> {
    let tables = ["scheduled_action", "trigger_occurrence", "\"trigger\"", "trigger"];
    let reads_all = |line: &&str| {
        let line = line.trim_start_matches([' ', '-', '>']);
        let sequential = line.starts_with("Seq Scan on ");
        let scan = line.starts_with("SCAN ") && !line.contains("USING");
        let table = line.split_whitespace().nth(if sequential { 3 } else { 1 });
        // SQLite names a table by its alias in the statement.
        let aliases = ["a", "d", "o"];
        (sequential || scan)
            && table.is_some_and(|table| tables.contains(&table) || aliases.contains(&table))
    };
    plan.lines().filter(reads_all).collect()
}

#[tokio::test]
async fn no_statement_of_a_pass_reads_a_whole_table() {
    let store = TestStore::new().await;
    crowd(&store).await;
    let statements = planned_statements(store.engine());
    for (name, sql) in statements {
        let plan = plan(&store, name, sql).await;
        assert_eq!(whole_tables(&plan), Vec::<&str>::new(), "{name}:\n{plan}");
        let indexes: &[&str] = match name {
            "due_triggers" => &["idx_trigger_due"],
            "claim" => &["idx_scheduled_action_lane"],
            "next_due" => &[
                "idx_trigger_due",
                "idx_scheduled_action_pending",
                "idx_trigger_occurrence_waiting",
            ],
            "waiting_occurrences" => &["idx_trigger_occurrence_waiting"],
            "reap" => &["idx_scheduled_action_processing"],
            "finish" => &["scheduled_action"],
            "settle" => &["trigger_occurrence"],
            other => panic!("no index is known for {other}"),
        };
        for index in indexes {
            assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        }
    }
}

#[tokio::test]
async fn a_lane_s_work_is_found_without_reading_that_of_the_lanes_due_before_it() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for number in 0..3 {
        let backend = world.backend(&format!("backend {number}")).await;
        world.queued_from(number * 2000, backend.id, 2000).await;
    }
    super::world::execute(&store, "ANALYZE scheduled_action").await;
    let statements = planned_statements(store.engine());
    let (name, sql) = statements.into_iter().find(|(name, _)| *name == "claim").unwrap();
    let plan = plan(&store, name, sql).await;
    assert!(plan.contains("idx_scheduled_action_lane"), "{plan}");
    assert!(!plan.contains("idx_scheduled_action_pending"), "{plan}");
}

#[tokio::test]
async fn what_ends_the_work_of_something_deleted_does_not_read_all_that_has_ended() {
    let store = TestStore::new().await;
    crowd(&store).await;
    for sql in [
        "UPDATE scheduled_action SET status = 'completed' WHERE status = 'pending'
            AND lane <> (SELECT lane FROM scheduled_action ORDER BY lane DESC LIMIT 1)",
        "ANALYZE scheduled_action",
    ] {
        super::world::execute(&store, sql).await;
    }
    for (name, sql) in removal_statements(store.engine()) {
        // PostgreSQL takes a list for ten, and here is one application.
        if name == "delete_applications" && store.engine() == Engine::Postgres {
            continue;
        }
        let plan = plan(&store, name, sql).await;
        // All occurrences are of the one application that there is.
        let mut whole = whole_tables(&plan);
        whole.retain(|line| line.trim() != "SCAN o");
        assert_eq!(whole, Vec::<&str>::new(), "{name}:\n{plan}");
        let expected: &[&str] = match name {
            "cancel_backend" => &["idx_scheduled_action_lane", "idx_scheduled_action_processing"],
            "delete_applications" => {
                &["idx_scheduled_action_occurrence", "idx_scheduled_action_own"]
            }
            "cancel_rule" => &["idx_scheduled_action_rule"],
            "delete_project" => &["idx_scheduled_action_own"],
            _ => &["idx_scheduled_action_processing"],
        };
        for index in expected {
            assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        }
    }
}

#[test]
fn a_plan_that_reads_a_whole_table_would_be_seen() {
    assert_eq!(whole_tables("Update on x\n  ->  Seq Scan on scheduled_action a").len(), 1);
    assert_eq!(whole_tables("SCAN d\nSEARCH scheduled_action USING INDEX i").len(), 1);
    assert_eq!(whole_tables("SCAN a USING COVERING INDEX i\nSCAN lanes").len(), 0);
    assert_eq!(
        whole_tables("  ->  CTE Scan on lanes\n  -> Index Scan using i on trigger").len(),
        0
    );
}
