//! Opening the database, and bringing its schema up to date.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use migration::MigratorTrait;
use sea_orm::sqlx::pool::PoolConnectionMetadata;
use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sea_orm::sqlx::{self, ConnectOptions as _, Connection};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement,
};

use super::{Engine, Store, Traffic};
use crate::error::{Error, Result};

const SQLITE_READERS: u32 = 4;
/// What the writer keeps of the file, in KiB: the pages of a batch. What does not fit is written to
/// the log and read back before the batch ends.
const SQLITE_WRITER_CACHE: &str = "-16000";
/// How long SQLite's log gets before it is copied into the file, in pages of 4 KiB. What is changed
/// again and again is then copied once.
const SQLITE_CHECKPOINT: &str = "4000";
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(8);
/// A process that was frozen, or whose machine went away, in the middle of a transaction must not
/// hold its locks for ever: others could not take its work over. Ours never think that long.
const IDLE_IN_TRANSACTION: &str = "SET idle_in_transaction_session_timeout = '15s'";
/// How many rows of an answer the thread that reads SQLite may be ahead of who takes them. With less
/// than a batch it waits, its transaction open, for its turn among everything else that runs.
const SQLITE_ROWS: usize = 2_048;
/// How long a connection is tried, to learn why none can be had.
const TRIED_FOR: Duration = Duration::from_secs(2);
/// A pooled connection that rested longer is tried before it is used.
const TRIED_AFTER: Duration = Duration::from_secs(5);

/// How to open the database. The address may hold a password.
#[derive(Clone)]
pub struct Options {
    /// `sqlite:…` or `postgres:…`.
    pub url: String,
    /// The most connections to PostgreSQL. SQLite has one writer and a few readers.
    pub max_connections: u32,
    /// A PostgreSQL schema other than the role's first one.
    pub schema: Option<String>,
}

impl Store {
    /// Opens the database. An SQLite file that is not there is made, with its folder.
    /// Refused with `INVALID`: SQLite in memory. When the database can't be reached, the error's source
    /// says why.
    pub async fn connect(options: &Options) -> Result<Self> {
        let traffic = Traffic::default();
        let url = options.url.as_str().into();
        if options.url.starts_with("sqlite:") {
            refuse_memory(&options.url)?;
            make_file(&options.url)?;
            let write = open(sqlite_writer(options), &traffic).await?;
            let read = open(sqlite(options, SQLITE_READERS), &traffic).await?;
            return Ok(Self {
                url,
                read,
                write,
                engine: Engine::Sqlite,
                traffic,
                checkpoint: None,
                file: Some(Arc::new(DatabaseFile::of(&options.url)?)),
            });
        }
        let pool = match open(postgres(options), &traffic).await {
            Ok(pool) => pool,
            Err(error) => return Err(why_not(&options.url).await.unwrap_or(error)),
        };
        let (engine, checkpoint) = (Engine::Postgres, None);
        Ok(Self { url, read: pool.clone(), write: pool, engine, traffic, checkpoint, file: None })
    }

    /// Applies the changes to the schema that are not applied yet. Safe to run twice, and by
    /// several processes at once: they take turns.
    pub async fn migrate(&self) -> Result<()> {
        let tx = self.begin().await?;
        // SQLite's writers take turns by themselves.
        if self.engine == Engine::Postgres {
            let lock = super::dialect::MIGRATION_LOCK;
            tx.execute_raw(Statement::from_string(DbBackend::Postgres, lock)).await?;
        }
        let missing = migration::Migrator::get_pending_migrations(&*tx).await?.len();
        migration::Migrator::up(&*tx, None).await?;
        tx.commit_unaudited().await?;
        if missing > 0 {
            tracing::info!(changes = missing, "the database's schema was brought up to date");
        }
        Ok(())
    }

    /// How many changes of the schema this program knows and the database lacks.
    pub async fn pending_migrations(&self) -> Result<usize> {
        Ok(migration::Migrator::get_pending_migrations(&self.read).await?.len())
    }

    /// What stands behind `error`: a pool says that it has no connection, and not why none can be made.
    pub async fn why(&self, error: Error) -> Error {
        match (self.engine, &error) {
            (Engine::Postgres, Error::Busy) => why_not(&self.url).await.unwrap_or(error),
            _ => error,
        }
    }

    /// Fails when the database does not answer.
    pub async fn ping(&self) -> Result<()> {
        self.has_file()?;
        Ok(self.read.ping().await?)
    }
}

/// Why no connection can be made: a pool tries again and again, and in the end says only that it did.
async fn why_not(url: &str) -> Option<Error> {
    let connection = PgConnectOptions::from_str(url).ok()?;
    let tried = tokio::time::timeout(TRIED_FOR, connection.connect()).await.ok()?;
    tried.err().map(Error::internal)
}

async fn open(options: ConnectOptions, traffic: &Traffic) -> Result<DatabaseConnection> {
    let mut connection = Database::connect(options).await?;
    let traffic = traffic.clone();
    connection.set_metric_callback(move |_| traffic.count_statement());
    Ok(connection)
}

fn common(options: &Options, connections: u32) -> ConnectOptions {
    let mut connect = ConnectOptions::new(options.url.clone());
    connect
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_timeout(ACQUIRE_TIMEOUT)
        .sqlx_logging(false);
    connect
}

fn sqlite(options: &Options, connections: u32) -> ConnectOptions {
    let mut connect = common(options, connections);
    connect.idle_timeout(None::<Duration>).max_lifetime(None::<Duration>);
    // A file does not go away between two statements as a server does.
    connect.test_before_acquire(false);
    connect.map_sqlx_sqlite_opts(durable);
    connect
}

fn sqlite_writer(options: &Options) -> ConnectOptions {
    let mut connect = sqlite(options, 1);
    connect.map_sqlx_sqlite_opts(|sqlite| {
        // What a statement may have to undo stays in memory.
        durable(sqlite).pragma("cache_size", SQLITE_WRITER_CACHE).pragma("temp_store", "memory")
    });
    connect.map_sqlx_sqlite_pool_opts(|pool| {
        pool.before_acquire(|connection, _| Box::pin(is_at_rest(connection)))
    });
    connect
}

fn durable(sqlite: SqliteConnectOptions) -> SqliteConnectOptions {
    sqlite
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(SQLITE_ROWS)
        .pragma("wal_autocheckpoint", SQLITE_CHECKPOINT)
}

/// Whether a connection is in no transaction; one that is gets closed.
///
/// When the disk is full, or can't be read, SQLite ends a transaction by itself. The driver does
/// not notice, takes the next one for a part of the one it believes open, and would from then on
/// report as committed what no other connection ever sees.
async fn is_at_rest(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // A rollback that waits to be sent is sent with this.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

fn postgres(options: &Options) -> ConnectOptions {
    let mut connect = common(options, options.max_connections);
    connect.test_before_acquire(false);
    connect.set_application_name("trigger-manager");
    let mut settings = IDLE_IN_TRANSACTION.to_owned();
    if let Some(schema) = &options.schema {
        settings = format!("{settings}; SET search_path = \"{schema}\"");
    }
    connect.map_sqlx_postgres_pool_opts(move |pool| {
        let settings = settings.clone();
        let pool = pool.before_acquire(|connection, known| Box::pin(is_there(connection, known)));
        pool.after_connect(move |connection, _| {
            let settings = sqlx::raw_sql(sqlx::AssertSqlSafe(settings.clone()));
            Box::pin(async move { settings.execute(connection).await.map(drop) })
        })
    });
    connect
}

/// Tries a connection that rested for long, or since before another one was lost: what ends one, a
/// restart of the server, ends them all. One that does not answer is closed.
async fn is_there(
    connection: &mut PgConnection,
    known: PoolConnectionMetadata,
) -> Result<bool, sqlx::Error> {
    let lost = doubts().map_or(Duration::MAX, |at| at.elapsed());
    if known.idle_for >= TRIED_AFTER || known.idle_for >= lost {
        connection.ping().await?;
    }
    Ok(true)
}

/// When a connection was lost last, of whichever pool of the process: a needless try harms nobody.
static LOST: Mutex<Option<Instant>> = Mutex::new(None);

fn doubts() -> Option<Instant> {
    *LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection may have been lost: those that rest are doubted.
pub(super) fn doubt() {
    *LOST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// Makes the file, with its folder, if it is not there: readable by its owner alone, since it holds
/// password hashes. What SQLite puts beside it gets the same rights.
fn make_file(url: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let options = SqliteConnectOptions::from_str(url).map_err(Error::internal)?;
    let file = options.get_filename();
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(Error::internal)?;
    }
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::internal(error))
        }
        _ => Ok(()),
    }
}

/// The file of an SQLite database, as it was opened. SQLite goes on with a file that was removed, and
/// what is written then is gone with the process.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: std::path::PathBuf,
    id: (u64, u64),
}

impl DatabaseFile {
    fn of(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(url).map_err(Error::internal)?;
        let path = options.get_filename().to_path_buf();
        let id = Self::id(&path).map_err(Error::internal)?;
        Ok(Self { path, id })
    }

    fn id(path: &std::path::Path) -> std::io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path)?;
        Ok((found.dev(), found.ino()))
    }

    /// Fails when another file, or none, stands in its place.
    pub(super) fn check(&self) -> Result<()> {
        match Self::id(&self.path) {
            Ok(id) if id == self.id => Ok(()),
            _ => Err(Error::internal(format!(
                "the database's file {} was removed or replaced while the server runs; until the server \
                 ends it holds the old one, below /proc/{}/fd: copy that if there is no other copy, stop \
                 the server, put the file back, and start it",
                self.path.display(),
                std::process::id()
            ))),
        }
    }
}

/// Readers and the writer have connections of their own, and one in memory is seen by its own
/// connection alone.
fn refuse_memory(url: &str) -> Result<()> {
    if url.contains(":memory:") || url.contains("mode=memory") {
        let reason = "database_url must name a file, for example sqlite://data/manager.db: a \
                      database in memory is gone with the connection that made it";
        return Err(Error::invalid("database_url", reason));
    }
    Ok(())
}
