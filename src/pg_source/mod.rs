//! Events from the tables of another PostgreSQL database.
//!
//! [`SqlArgs::sql`] makes the SQL that its owner applies there: an outbox, and triggers that write
//! rows into it in the transaction of the change. [`run`] takes the rows out and hands them on.
//! The outbox is the truth; NOTIFY only makes the look sooner. A row is deleted after it was
//! handled, so a crash in between hands it on once more: whoever stores it goes by its event id.
//!
//! The SQL of that database stands here, because its schema is not ours: the store knows our own
//! tables and nothing of these. This module must not store events or know our database.

mod command;
mod kind;
mod outbox;
mod quote;
mod reader;
mod run;
mod sql;

pub use self::command::SqlArgs;
pub use self::kind::EventKind;
pub use self::outbox::{OutboxRow, Refused};
pub use self::reader::{Batch, PAYLOAD_READ_MAX, REFUSED_KEPT, Reader};
pub use self::run::{BATCH, Source, run};
