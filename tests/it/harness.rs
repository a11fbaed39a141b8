//! A fresh database for each test, on the engine that `PFY_TEST_ENGINE` names.
//!
//! On SQLite that is a file in a folder of its own, on PostgreSQL a schema of its own. Both are
//! gone when the [`TestStore`] is dropped, or, if the process ends first, with the machine's
//! temporary files and the throw-away server.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{OnceLock, mpsc};

use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};
use trigger_manager::store::{Engine, Options, Store, Tx};
use uuid::Uuid;

/// Connections of a test's pool. Small: a server takes many tests at once.
const CONNECTIONS: u32 = 5;
/// How many tasks race where tasks race.
pub const RACERS: usize = 16;

/// The engine under test.
pub fn engine() -> Engine {
    match variable("PFY_TEST_ENGINE").as_deref() {
        Some("sqlite") => Engine::Sqlite,
        Some("postgres") => Engine::Postgres,
        Some(other) => panic!(
            "PFY_TEST_ENGINE is {other:?}, which is neither sqlite nor postgres: \
             run the tests with tests/run"
        ),
        None => panic!(
            "PFY_TEST_ENGINE is not set: run the tests with tests/run, which runs them on both \
             engines, or set it to sqlite or postgres"
        ),
    }
}

/// The throw-away server's address.
pub fn postgres_url() -> String {
    variable("PFY_TEST_POSTGRES_URL").unwrap_or_else(|| {
        panic!(
            "PFY_TEST_POSTGRES_URL is not set: run the tests with tests/run, or set it to what \
             `tests/postgres start` prints"
        )
    })
}

/// The throw-away server's address for tests that need one whatever the engine is. On SQLite there
/// may be none: such tests run in the pass on PostgreSQL.
pub fn postgres_at_hand() -> Option<String> {
    match engine() {
        Engine::Postgres => Some(postgres_url()),
        Engine::Sqlite => {
            let url = variable("PFY_TEST_POSTGRES_URL");
            if url.is_none() {
                eprintln!("this test needs PostgreSQL and runs in the pass on PostgreSQL");
            }
            url
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the tests' one look at the environment")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A database of a test's own. It derefs to the [`Store`] that is open on it.
pub struct TestStore {
    store: Store,
    place: Place,
}

impl TestStore {
    /// A fresh database, its schema up to date.
    pub async fn new() -> Self {
        Self::with_connections(CONNECTIONS).await
    }

    /// A fresh database whose pool has a connection for each of [`RACERS`] tasks.
    pub async fn racing() -> Self {
        Self::with_connections(RACERS as u32 + 1).await
    }

    async fn with_connections(connections: u32) -> Self {
        let empty = Self::empty_with(connections).await;
        empty.store.migrate().await.unwrap();
        empty
    }

    /// A fresh database without any table.
    pub async fn empty() -> Self {
        Self::empty_with(CONNECTIONS).await
    }

    /// A fresh database that nothing else writes beside, on PostgreSQL on a server of its own, so
    /// that what is written can be weighed.
    pub async fn alone() -> Self {
        let place = match engine() {
            Engine::Sqlite => Place::make().await,
            Engine::Postgres => Place::server(),
        };
        let alone = Self::open(place, CONNECTIONS).await;
        alone.store.migrate().await.unwrap();
        alone
    }

    /// The file of the database; PostgreSQL has files of its own.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Folder(folder) => Some(folder.join("store.db")),
            _ => None,
        }
    }

    /// How many bytes of write-ahead log there are. On SQLite they begin anew after 16 MB.
    pub async fn written(&self) -> i64 {
        if let Place::Folder(folder) = &self.place {
            return std::fs::metadata(folder.join("store.db-wal")).unwrap().len() as i64;
        }
        let position = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS n";
        let position = Statement::from_string(DbBackend::Postgres, position);
        let row = self.store.read().query_one_raw(position).await.unwrap().unwrap();
        row.try_get("", "n").unwrap()
    }

    async fn empty_with(connections: u32) -> Self {
        Self::open(Place::make().await, connections).await
    }

    async fn open(place: Place, connections: u32) -> Self {
        let store = Store::connect(&place.options(connections)).await.unwrap();
        Self { store, place }
    }

    /// Opens the same database once more, as another process would.
    pub async fn another(&self) -> Store {
        Store::connect(&self.options()).await.unwrap()
    }

    /// How to open this database.
    pub fn options(&self) -> Options {
        self.place.options(CONNECTIONS)
    }
}

impl Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// Where a test's database is.
enum Place {
    Folder(PathBuf),
    Schema(String),
    Server { folder: PathBuf, url: String },
}

impl Place {
    async fn make() -> Self {
        let name = format!("t_{}", Uuid::now_v7().simple());
        match engine() {
            Engine::Sqlite => {
                let folder = std::env::temp_dir().join("trigger-manager-tests").join(name);
                std::fs::create_dir_all(&folder).unwrap();
                Self::Folder(folder)
            }
            Engine::Postgres => {
                let connection = administration().await;
                connection.execute_unprepared(&format!("CREATE SCHEMA {name}")).await.unwrap();
                connection.close().await.unwrap();
                Self::Schema(name)
            }
        }
    }

    fn server() -> Self {
        let folder = std::env::temp_dir().join(format!("t-{}", Uuid::now_v7().simple()));
        let url = postgres("start", &folder);
        Self::Server { folder, url }
    }

    fn options(&self, max_connections: u32) -> Options {
        let (url, schema) = match self {
            Self::Server { url, .. } => (url.clone(), None),
            Self::Folder(folder) => {
                (format!("sqlite://{}/store.db?mode=rwc", folder.display()), None)
            }
            Self::Schema(name) => (postgres_url(), Some(name.clone())),
        };
        Options { url, max_connections, schema }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match self {
            Self::Folder(folder) => {
                let _ = std::fs::remove_dir_all(folder);
            }
            Self::Schema(name) => {
                let _ = sweeper().send(std::mem::take(name));
            }
            Self::Server { folder, .. } => {
                postgres("stop", folder);
            }
        }
    }
}

/// Calls the script that makes throw-away servers.
fn postgres(action: &str, folder: &Path) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres");
    let output = Command::new(script).arg(action).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A connection that may make databases and schemas.
pub async fn administration() -> DatabaseConnection {
    let mut options = sea_orm::ConnectOptions::new(postgres_url());
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

/// Takes the names of schemas that are done with, and drops them one after the other: a test
/// can't wait for that in `drop`, and need not.
fn sweeper() -> &'static mpsc::Sender<String> {
    static SWEEPER: OnceLock<mpsc::Sender<String>> = OnceLock::new();
    SWEEPER.get_or_init(|| {
        let (sender, names) = mpsc::channel::<String>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let connection = administration().await;
                // A transaction that a test left open must not stop the sweep.
                let _ = connection.execute_unprepared("SET lock_timeout = '2s'").await;
                for name in names {
                    let drop = format!("DROP SCHEMA {name} CASCADE");
                    let _ = connection.execute_unprepared(&drop).await;
                }
            });
        });
        sender
    })
}

/// Ends when another transaction waits for what `tx` holds. On SQLite, with its one writer, at once:
/// none other has begun.
pub async fn until_another_waits_for(tx: &Tx) {
    if engine() == Engine::Sqlite {
        return;
    }
    // What pg_stat_activity shows within a transaction is as it was when it was first asked.
    let waits = "SELECT count(*) AS n FROM pg_locks
        WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    loop {
        let statement = Statement::from_string(DbBackend::Postgres, waits);
        let row = tx.query_one_raw(statement).await.unwrap().unwrap();
        if row.try_get::<i64>("", "n").unwrap() > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}
