//! Hints from other processes, on a connection of their own.

use sea_orm::sqlx::postgres::PgListener;
use tokio_util::sync::CancellationToken;

use super::{Engine, Store};
use crate::error::{Error, Result};

impl Store {
    /// Calls `look` whenever another process hints that there may be something to do, and
    /// once each time the connection is made anew, since hints may have been lost. Ends at
    /// `stop`, or with an error when the connection is lost. On SQLite there is nobody to hear.
    pub async fn listen(&self, stop: &CancellationToken, look: impl Fn() + Send) -> Result<()> {
        if self.engine == Engine::Sqlite {
            stop.cancelled().await;
            return Ok(());
        }
        let mut listener = PgListener::connect(&self.url).await.map_err(Error::internal)?;
        listener.listen("pfy_wake").await.map_err(Error::internal)?;
        look();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                heard = listener.try_recv() => {
                    let lost = heard.map_err(Error::internal)?.is_none();
                    look();
                    if lost {
                        return Err(Error::internal("the connection that hears hints was lost"));
                    }
                }
            }
        }
    }
}
