//! The schema: how it comes to be, and the tables whose form the users of the program know.

use trigger_manager::store::{Engine, Store};

use super::world::{number, on_postgres, query, race_of};
use crate::harness::TestStore;

#[tokio::test]
async fn a_migrated_database_has_nothing_pending_and_may_be_migrated_again() {
    let store = TestStore::empty().await;
    assert!(store.pending_migrations().await.unwrap() > 0);
    store.migrate().await.unwrap();
    assert_eq!(store.pending_migrations().await.unwrap(), 0);
    store.migrate().await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM setting").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_at_once_migrate_in_turn() {
    let store = TestStore::empty().await;
    let options = store.options();
    let migrated = race_of(4, |_| {
        let options = options.clone();
        async move { Store::connect(&options).await?.migrate().await }
    })
    .await;
    for result in migrated {
        result.unwrap();
    }
    assert_eq!(store.pending_migrations().await.unwrap(), 0);
    let applied = "SELECT count(*) - count(DISTINCT version) FROM seaql_migrations";
    assert_eq!(number(&store, applied).await, 0);
}

/// Name, kind, whether it may be null, default.
type Column = (&'static str, &'static str, bool, Option<&'static str>);

const SCHEDULED_ACTION: &[Column] = &[
    ("id", "uuid", false, None),
    ("trigger_rule_id", "uuid", true, None),
    ("user_id", "text", true, None),
    ("action_type", "text", false, None),
    ("action_config", "json", false, None),
    ("source_config", "json", true, None),
    ("execute_at", "time", false, None),
    ("expires_at", "time", true, None),
    ("executed_at", "time", true, None),
    ("status", "text", false, Some("pending")),
    ("retry_count", "int", false, Some("0")),
    ("workflow_id", "uuid", true, None),
    ("workflow_node_path", "text", true, None),
];

const TRIGGER_LOG: &[Column] = &[
    ("id", "bigint", false, None),
    ("trigger_rule_id", "uuid", true, None),
    ("audience_id", "uuid", true, None),
    ("user_id", "text", true, None),
    ("trigger_on", "text", false, None),
    ("action_type", "text", true, None),
    ("action_config", "json", true, None),
    ("status", "text", false, Some("success")),
    ("error_message", "text", true, None),
    ("created_date", "time", false, None),
];

const TRIGGER_RULE: &[Column] = &[
    ("source_type", "text", false, None),
    ("source_config", "json", false, None),
    ("action_type", "text", false, None),
    ("action_config", "json", false, None),
    ("enabled", "bool", false, None),
    ("frequency", "text", false, Some("once_per_hour")),
    ("cooldown_seconds", "int", false, Some("0")),
    ("workflow_id", "uuid", true, None),
    ("workflow_node_path", "text", true, None),
    ("line_oa_id", "uuid", false, None),
    ("organization_id", "uuid", false, None),
    ("deleted_date", "time", true, None),
];

const SCHEDULED_TRIGGER_EXECUTION: &[Column] = &[
    ("trigger_rule_id", "uuid", false, None),
    ("scheduled_at", "time", false, None),
    ("started_at", "time", false, None),
    ("completed_at", "time", true, None),
    ("status", "text", false, Some("processing")),
    ("total_users", "int", false, Some("0")),
    ("processed_users", "int", false, Some("0")),
    ("failed_users", "int", false, Some("0")),
    ("error_message", "text", true, None),
];

/// A column as the database describes it.
#[derive(Debug)]
struct Described {
    name: String,
    kind: String,
    nullable: bool,
    default: Option<String>,
}

async fn describe(store: &Store, table: &str) -> Vec<Described> {
    let sql = match store.engine() {
        Engine::Sqlite => {
            "SELECT name, lower(type) AS kind, \"notnull\" = 0 AND pk = 0 AS nullable, \
             dflt_value AS standard FROM pragma_table_info($1) ORDER BY cid"
        }
        Engine::Postgres => {
            "SELECT column_name AS name, data_type AS kind, is_nullable = 'YES' AS nullable, \
             column_default AS standard FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position"
        }
    };
    let rows = query(store, sql, vec![table.into()]).await;
    let described = rows.iter().map(|row| Described {
        name: row.try_get("", "name").unwrap(),
        kind: row.try_get("", "kind").unwrap(),
        nullable: row.try_get("", "nullable").unwrap(),
        default: row.try_get("", "standard").unwrap(),
    });
    described.collect()
}

/// What a kind of column is called by the engine.
fn called(engine: Engine, kind: &str) -> &'static [&'static str] {
    match (engine, kind) {
        (_, "uuid") => &["uuid", "uuid_text"],
        (Engine::Sqlite, "text") => &["varchar", "text"],
        (Engine::Postgres, "text") => &["character varying", "text"],
        (Engine::Sqlite, "json") => &["jsonb_text"],
        (Engine::Postgres, "json") => &["jsonb"],
        (Engine::Sqlite, "time") => &["timestamp_with_timezone_text"],
        (Engine::Postgres, "time") => &["timestamp with time zone"],
        (_, "int") => &["integer"],
        (_, "bool") => &["boolean"],
        // SQLite's row numbers have 64 bits.
        (Engine::Sqlite, "bigint") => &["integer"],
        (Engine::Postgres, "bigint") => &["bigint"],
        _ => panic!("no such kind: {kind}"),
    }
}

async fn assert_columns(store: &Store, table: &str, columns: &[Column]) {
    let described = describe(store, table).await;
    for (name, kind, nullable, default) in columns {
        let found = described.iter().find(|column| column.name == *name);
        let found = found.unwrap_or_else(|| panic!("{table} has no {name}: {described:#?}"));
        assert!(called(store.engine(), kind).contains(&found.kind.as_str()), "{table}: {found:?}");
        assert_eq!(found.nullable, *nullable, "{table}: {found:?}");
        let standard = found.default.as_deref().unwrap_or_default();
        let standard = standard.split("::").next().unwrap_or_default().trim_matches('\'');
        if *kind != "bigint" {
            assert_eq!(standard, default.unwrap_or_default(), "{table}: {found:?}");
        }
    }
}

#[tokio::test]
async fn the_queue_has_the_columns_and_defaults_that_its_users_know() {
    let store = TestStore::new().await;
    assert_columns(&store, "scheduled_action", SCHEDULED_ACTION).await;
}

#[tokio::test]
async fn the_log_has_the_columns_and_defaults_that_its_users_know() {
    let store = TestStore::new().await;
    assert_columns(&store, "trigger_log", TRIGGER_LOG).await;
}

#[tokio::test]
async fn a_rule_has_the_columns_and_defaults_that_its_users_know() {
    let store = TestStore::new().await;
    assert_columns(&store, "trigger_rule", TRIGGER_RULE).await;
}

#[tokio::test]
async fn a_cycle_has_the_columns_and_defaults_that_its_users_know() {
    let store = TestStore::new().await;
    assert_columns(&store, "scheduled_trigger_execution", SCHEDULED_TRIGGER_EXECUTION).await;
}

/// The text that made an index, without what differs between the engines.
async fn index(store: &Store, name: &str) -> String {
    let sql = match store.engine() {
        Engine::Sqlite => {
            "SELECT sql AS text FROM sqlite_master WHERE type = 'index' AND name = $1"
        }
        Engine::Postgres => {
            "SELECT indexdef AS text FROM pg_indexes \
             WHERE schemaname = current_schema() AND indexname = $1"
        }
    };
    let rows = query(store, sql, vec![name.into()]).await;
    assert_eq!(rows.len(), 1, "there is no index {name}");
    let text: String = rows[0].try_get("", "text").unwrap();
    let text = text.split_once(" (").map(|(_, columns)| format!("({columns}")).unwrap();
    text.replace("::text", "")
        .replace("((status) = 'pending')", "status = 'pending'")
        .replace(['(', ')'], " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn the_tables_have_the_indexes_that_their_users_know() {
    let store = TestStore::new().await;
    for (name, expected) in [
        ("idx_scheduled_action_pending", "execute_at WHERE status = 'pending'"),
        ("idx_scheduled_action_processing", "updated_at WHERE status = 'processing'"),
        ("idx_scheduled_action_user", "user_id, trigger_rule_id WHERE user_id IS NOT NULL"),
        (
            "idx_trigger_log_rule",
            "trigger_rule_id, created_date DESC WHERE trigger_rule_id IS NOT NULL",
        ),
        ("uq_trigger_occurrence", "trigger_id, scheduled_at"),
        ("idx_trigger_rule_scope", "line_oa_id, organization_id"),
        ("idx_trigger_rule_deleted", "deleted_date"),
        ("uq_scheduled_trigger_execution", "trigger_rule_id, scheduled_at"),
    ] {
        assert_eq!(index(&store, name).await, expected, "{name}");
    }
}

#[tokio::test]
async fn the_log_counts_its_rows_with_64_bits() {
    let store = TestStore::new().await;
    let beyond_32_bits = 5_000_000_000_i64;
    super::world::execute(
        &store,
        &format!(
            "INSERT INTO trigger_log (id, trigger_on, created_date) \
             VALUES ({beyond_32_bits}, 'trigger', '2026-03-01T12:00:00+00:00')"
        ),
    )
    .await;
    assert_eq!(number(&store, "SELECT max(id) FROM trigger_log").await, beyond_32_bits);
    let defaults = "SELECT count(*) FROM trigger_log WHERE status = 'success'";
    assert_eq!(number(&store, defaults).await, 1);
}

#[tokio::test]
async fn only_postgresql_has_a_clock_of_its_own() {
    use trigger_manager::store::executor::database_now;
    let store = TestStore::new().await;
    assert_eq!(database_now(&store).await.unwrap().is_some(), on_postgres(&store));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_an_error_and_not_a_panic() {
    let mut options = TestStore::empty().await.options();
    options.url = match options.schema {
        Some(_) => "postgres://test:wrong@127.0.0.1:1/test".to_owned(),
        None => "sqlite:///dev/null/store.db?mode=rwc".to_owned(),
    };
    assert!(Store::connect(&options).await.is_err());
}

#[tokio::test]
async fn a_database_in_memory_is_refused_with_what_would_be_right() {
    for url in ["sqlite::memory:", "sqlite://store.db?mode=memory", "sqlite://:memory:"] {
        let options =
            trigger_manager::store::Options { url: url.into(), max_connections: 1, schema: None };
        let error = Store::connect(&options).await.err().expect(url);
        assert_eq!((error.code(), error.field()), ("INVALID", Some("database_url")));
        assert!(error.to_string().contains("must name a file"), "{error}");
    }
}

#[tokio::test]
async fn the_folder_of_a_database_file_is_made_under_its_own_name() {
    let folder = std::env::temp_dir().join(format!("trigger-manager {}", uuid::Uuid::now_v7()));
    let path = folder.display().to_string().replace(' ', "%20");
    let url = format!("sqlite://{path}/inner/store.db?mode=rwc");
    let options = trigger_manager::store::Options { url, max_connections: 1, schema: None };
    let store = Store::connect(&options).await.unwrap();
    store.ping().await.unwrap();
    assert!(folder.join("inner/store.db").is_file());
    store.close().await.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
