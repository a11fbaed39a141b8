//! The SQL that makes the tables of another database sources of events.
//!
//! It is printed for its owner to read and apply; this program never applies it.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kind::EventKind;
use super::quote;

const OUTBOX: &str = include_str!("outbox.sql");

/// What is installed: always the outbox, with a table its trigger, with a reader its rights.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// The table that becomes a source.
    pub capture: Option<Capture>,
    /// The role that reads the outbox and gets the rights for it.
    pub reader: Option<String>,
}

/// Which changes of a table are events. All names are to the letter.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The table.
    pub table: Table,
    /// What its changes are.
    pub kind: EventKind,
    /// Whose rules they meet.
    pub line_oa: LineOa,
    /// The column with LINE's id of the user. A row without one makes no event.
    pub user_column: String,
    /// What of the row goes into the events.
    pub content: Content,
    /// Whether NOTIFY hints at new rows. A transaction that notified can't be prepared for a
    /// two-phase commit.
    pub notify: bool,
}

/// A table's name.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name in the schema.
    pub name: String,
}

/// Where the LINE OA of an event stands.
#[derive(Debug, Clone)]
pub enum LineOa {
    /// All rows belong to this one.
    Fixed(Uuid),
    /// In this column, as a UUID. What is no UUID is refused by the reader.
    Column(String),
}

/// What of a row goes into its events.
#[derive(Debug, Clone)]
pub enum Content {
    /// Every column but those of the user and the LINE OA, and for `attribute_changed` but those
    /// of the primary key.
    All,
    /// For `attribute_changed`: these columns.
    Attributes(Vec<String>),
    /// For the others: these columns under these keys of the payload.
    Map(Vec<(String, String)>),
}

/// The statements that install it, as one transaction that may be repeated.
pub fn install(installation: &Installation) -> String {
    let mut body = format!("{OUTBOX}\n");
    if let Some(capture) = &installation.capture {
        body.push_str(&capture.install());
    }
    if let Some(role) = &installation.reader {
        let role = quote::name(role);
        body.push_str(&format!(
            "GRANT USAGE ON SCHEMA trigger_manager TO {role};\n\
             GRANT SELECT, UPDATE, DELETE ON trigger_manager.outbox TO {role};\n\
             GRANT SELECT, INSERT, DELETE ON trigger_manager.outbox_refused TO {role};\n"
        ));
    }
    transaction(&body)
}

/// The statements that make a table no source any more. The outbox and what is in it stays.
pub fn uninstall_table(table: &Table, kind: EventKind) -> String {
    transaction(&format!("DROP TRIGGER IF EXISTS {} ON {};\n", trigger(kind), table.sql()))
}

/// The statements that remove everything that [`install`] makes, for all tables, and with it the
/// events that were not read.
pub fn uninstall() -> String {
    // No CASCADE on the schema: what others put there stops it.
    transaction(
        "DROP FUNCTION IF EXISTS trigger_manager.capture() CASCADE;\n\
         DROP TABLE IF EXISTS trigger_manager.outbox, trigger_manager.outbox_refused;\n\
         DROP SCHEMA IF EXISTS trigger_manager;\n",
    )
}

fn transaction(body: &str) -> String {
    // The lock's bound keeps writers from queueing behind a statement that waits for its turn.
    format!(
        "BEGIN;\n\
         SET LOCAL search_path = pg_catalog, pg_temp;\n\
         SET LOCAL client_encoding = 'UTF8';\n\
         SET LOCAL client_min_messages = warning;\n\
         SET LOCAL lock_timeout = '10s';\n\n{body}\nCOMMIT;\n"
    )
}

fn trigger(kind: EventKind) -> String {
    quote::name(&format!("trigger_manager_{}", kind.as_str()))
}

impl Table {
    fn sql(&self) -> String {
        format!("{}.{}", quote::name(&self.schema), quote::name(&self.name))
    }
}

impl Capture {
    fn install(&self) -> String {
        let table = self.table.sql();
        let columns: Vec<_> = self.columns().into_iter().map(quote::name).collect();
        let check = format!("BEGIN PERFORM {} FROM {table} LIMIT 0; END", columns.join(", "));
        let change = if self.kind.on_update() { "INSERT OR UPDATE" } else { "INSERT" };
        format!(
            "-- Fails if a column is missing.\n\
             DO {};\n\
             CREATE OR REPLACE TRIGGER {} AFTER {change} ON {table}\n\
             FOR EACH ROW EXECUTE FUNCTION trigger_manager.capture({});\n",
            quote::text(&check),
            trigger(self.kind),
            quote::text(&self.settings().to_string()),
        )
    }

    /// Every column that is named.
    fn columns(&self) -> Vec<&str> {
        let mut columns = vec![self.user_column.as_str()];
        if let LineOa::Column(column) = &self.line_oa {
            columns.push(column);
        }
        match &self.content {
            Content::All => {}
            Content::Attributes(names) => columns.extend(names.iter().map(String::as_str)),
            Content::Map(map) => columns.extend(map.iter().map(|(_, column)| column.as_str())),
        }
        columns
    }

    fn settings(&self) -> Value {
        let mut settings = json!({
            "type": self.kind.as_str(),
            "userColumn": self.user_column,
            "columns": self.columns(),
        });
        match &self.line_oa {
            LineOa::Fixed(id) => settings["lineOaId"] = json!(id),
            LineOa::Column(column) => settings["lineOaColumn"] = json!(column),
        }
        match &self.content {
            Content::All => {}
            Content::Attributes(names) => settings["attributes"] = json!(names),
            Content::Map(map) => {
                let map = map.iter().map(|(key, column)| (key.clone(), json!(column)));
                settings["map"] = Value::Object(Map::from_iter(map));
            }
        }
        if self.notify {
            settings["notify"] = json!(true);
        }
        settings
    }
}
