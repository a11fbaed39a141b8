//! Whether this process can serve.

use super::App;
use crate::error::{Error, Result};

impl App {
    /// Fails unless the database answers and its schema is as new as this program.
    pub async fn ready(&self) -> Result<()> {
        self.store.ping().await?;
        match self.store.pending_migrations().await? {
            0 => Ok(()),
            n => Err(Error::internal(format!("{n} changes of the schema are not applied"))),
        }
    }
}
