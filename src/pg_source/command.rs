//! The arguments of `trigger-manager pg-source sql`.

use clap::Args;
use uuid::Uuid;

use super::kind::EventKind;
use super::quote;
use super::sql::{self, Capture, Content, Installation, LineOa, Table};
use crate::error::{Error, Result};

/// Print the SQL that makes a table of another PostgreSQL database a source of events, for psql.
///
/// Without --table it is the SQL of the outbox alone. It may be applied again. Names are taken to
/// the letter; put a part that holds a dot or a comma in double quotes.
#[derive(Debug, Clone, Default, Args)]
pub struct SqlArgs {
    /// The table whose changes are events.
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub table: Option<String>,
    /// What its changes are.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<EventKind>,
    /// The LINE OA that all rows belong to.
    #[arg(long, value_name = "UUID")]
    pub line_oa_id: Option<Uuid>,
    /// The column with the id of the row's LINE OA.
    #[arg(long, value_name = "COLUMN")]
    pub line_oa_column: Option<String>,
    /// The column with LINE's id of the user; a row without one makes no event.
    #[arg(long, value_name = "COLUMN")]
    pub user_column: Option<String>,
    /// With attribute_changed: the columns that are attributes, with commas between them. Without
    /// it all but those of the primary key, the user and the LINE OA.
    #[arg(long, value_name = "COLUMNS")]
    pub attributes: Option<String>,
    /// With the other types: a key of the payload and the column with its value. Give it once for
    /// each; without it the payload holds all columns but those of the user and the LINE OA.
    #[arg(long, value_name = "KEY=COLUMN")]
    pub map: Vec<String>,
    /// The role that the trigger manager connects as; it gets the rights to read the outbox.
    #[arg(long, value_name = "ROLE")]
    pub reader: Option<String>,
    /// Do without NOTIFY: for tables that are written in two-phase commits.
    #[arg(long)]
    pub no_notify: bool,
    /// Remove the trigger of --table and --type; without them everything, events that were not
    /// read included.
    #[arg(long)]
    pub uninstall: bool,
}

impl SqlArgs {
    /// The SQL. Refused with `INVALID` on the option: what is missing, does not fit the others,
    /// or can't be a name.
    pub fn sql(&self) -> Result<String> {
        if self.uninstall {
            return self.uninstall();
        }
        let reader = self.reader.as_deref().map(|role| quote::checked("--reader", role));
        let capture = match &self.table {
            Some(table) => Some(self.capture(table)?),
            None => {
                self.refuse_beside("--table", &self.of_a_table())?;
                None
            }
        };
        Ok(sql::install(&Installation { capture, reader: reader.transpose()? }))
    }

    fn uninstall(&self) -> Result<String> {
        let mut others = self.of_a_table();
        others.retain(|(option, _)| *option != "--type");
        others.push(("--reader", self.reader.is_some()));
        if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
            let reason = "--uninstall takes --table and --type, or nothing";
            return Err(Error::invalid(*option, reason));
        }
        match (&self.table, self.kind) {
            (Some(name), Some(kind)) => Ok(sql::uninstall_table(&table(name)?, kind)),
            (None, None) => Ok(sql::uninstall()),
            (Some(_), None) => Err(missing("--type")),
            (None, Some(_)) => Err(missing("--table")),
        }
    }

    fn capture(&self, name: &str) -> Result<Capture> {
        let kind = self.kind.ok_or_else(|| missing("--type"))?;
        let user_column = self.user_column.as_deref().ok_or_else(|| missing("--user-column"))?;
        let line_oa = match (self.line_oa_id, &self.line_oa_column) {
            (Some(id), None) => LineOa::Fixed(id),
            (None, Some(column)) => LineOa::Column(quote::checked("--line-oa-column", column)?),
            _ => {
                let reason = "write either --line-oa-id or --line-oa-column";
                return Err(Error::invalid("--line-oa-id", reason));
            }
        };
        Ok(Capture {
            table: table(name)?,
            kind,
            line_oa,
            user_column: quote::checked("--user-column", user_column)?,
            content: self.content(kind)?,
            notify: !self.no_notify,
        })
    }

    fn content(&self, kind: EventKind) -> Result<Content> {
        let attributes = kind == EventKind::AttributeChanged;
        match &self.attributes {
            Some(_) if !attributes => {
                let reason = "--attributes belongs to attribute_changed; write --map";
                return Err(Error::invalid("--attributes", reason));
            }
            Some(list) => return quote::names("--attributes", list, ',').map(Content::Attributes),
            None => {}
        }
        if self.map.is_empty() {
            return Ok(Content::All);
        }
        if attributes {
            let reason = "--map does not fit attribute_changed; write --attributes";
            return Err(Error::invalid("--map", reason));
        }
        let mut map: Vec<(String, String)> = Vec::new();
        for entry in &self.map {
            let (key, column) = entry.split_once('=').unwrap_or(("", ""));
            if key.is_empty() || map.iter().any(|(other, _)| other == key) {
                let reason = format!(
                    "--map must be a key of the payload and its column, such as formId=form_id, \
                     and each key once, which {entry:?} is not"
                );
                return Err(Error::invalid("--map", reason));
            }
            map.push((key.to_owned(), quote::checked("--map", column)?));
        }
        Ok(Content::Map(map))
    }

    /// The options that mean nothing without a table, and whether they were given.
    fn of_a_table(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("--type", self.kind.is_some()),
            ("--line-oa-id", self.line_oa_id.is_some()),
            ("--line-oa-column", self.line_oa_column.is_some()),
            ("--user-column", self.user_column.is_some()),
            ("--attributes", self.attributes.is_some()),
            ("--map", !self.map.is_empty()),
            ("--no-notify", self.no_notify),
        ]
    }

    fn refuse_beside(&self, needed: &str, options: &[(&'static str, bool)]) -> Result<()> {
        match options.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(Error::invalid(*option, format!("{option} means nothing without {needed}")))
            }
            None => Ok(()),
        }
    }
}

fn table(text: &str) -> Result<Table> {
    match quote::names("--table", text, '.')?.as_slice() {
        [schema, name] => Ok(Table { schema: schema.clone(), name: name.clone() }),
        _ => {
            let reason = format!("--table must be SCHEMA.TABLE, such as public.users, not {text}");
            Err(Error::invalid("--table", reason))
        }
    }
}

fn missing(option: &'static str) -> Error {
    Error::invalid(option, format!("{option} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> SqlArgs {
        SqlArgs {
            table: Some("public.users".to_owned()),
            kind: Some(EventKind::AttributeChanged),
            line_oa_id: Some(Uuid::nil()),
            user_column: Some("line_id".to_owned()),
            ..SqlArgs::default()
        }
    }

    fn refused(change: impl FnOnce(&mut SqlArgs)) -> String {
        let mut args = complete();
        change(&mut args);
        args.sql().unwrap_err().field().unwrap().to_owned()
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_refused_by_its_option() {
        assert!(complete().sql().is_ok());
        assert_eq!(refused(|a| a.kind = None), "--type");
        assert_eq!(refused(|a| a.user_column = None), "--user-column");
        assert_eq!(refused(|a| a.line_oa_id = None), "--line-oa-id");
        assert_eq!(refused(|a| a.line_oa_column = Some("oa".to_owned())), "--line-oa-id");
        assert_eq!(refused(|a| a.table = Some("users".to_owned())), "--table");
        assert_eq!(refused(|a| a.table = Some("a.b.c".to_owned())), "--table");
        assert_eq!(refused(|a| a.table = None), "--type");
        assert_eq!(refused(|a| a.map = vec!["a=b".to_owned()]), "--map");
        assert_eq!(refused(|a| a.attributes = Some("a,,b".to_owned())), "--attributes");
        let form = |a: &mut SqlArgs| a.kind = Some(EventKind::FormSubmitted);
        let map = |a: &mut SqlArgs, entries: &[&str]| {
            form(a);
            a.map = entries.iter().map(|entry| (*entry).to_owned()).collect();
        };
        assert_eq!(refused(|a| map(a, &["formId"])), "--map");
        assert_eq!(refused(|a| map(a, &["formId=a", "formId=b"])), "--map");
        let attributes = Some("a".to_owned());
        assert_eq!(refused(|a| (form(a), a.attributes = attributes).1), "--attributes");
    }

    #[test]
    fn uninstall_takes_a_table_and_its_type_or_nothing() {
        assert_eq!(refused(|a| a.uninstall = true), "--line-oa-id");
        let all = SqlArgs { uninstall: true, ..SqlArgs::default() };
        assert!(all.sql().unwrap().contains("DROP SCHEMA"));
        let table = Some("public.users".to_owned());
        assert!(SqlArgs { table: table.clone(), ..all.clone() }.sql().is_err());
        let one = SqlArgs { table, kind: Some(EventKind::BookingEvent), ..all };
        let sql = one.sql().unwrap();
        assert!(sql.contains("\"trigger_manager_booking_event\" ON \"public\".\"users\""), "{sql}");
        assert!(!sql.contains("SCHEMA"), "{sql}");
    }
}
