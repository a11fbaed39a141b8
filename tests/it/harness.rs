//! A fresh database for each test, on the engine that `PFY_TEST_ENGINE` names.
//!
//! On SQLite that is a file in a folder of its own, on PostgreSQL a schema of its own. Both are
//! gone when the [`TestStore`] is dropped, or, if the process ends first, with the machine's
//! temporary files and the throw-away server.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{OnceLock, mpsc};

use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use trigger_manager::store::{Engine, Options, Store};
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

    async fn empty_with(connections: u32) -> Self {
        let place = Place::make().await;
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

    fn options(&self, max_connections: u32) -> Options {
        let (url, schema) = match self {
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
        }
    }
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
