//! Making executors look. A hint that carries no data and may be lost: whoever is woken looks
//! at the whole state, and without any hint it looks when its timer ends.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::store::{Engine, Store, executor};

/// Wakes the executors of this process at once, and those of others through the database.
#[derive(Clone)]
pub struct Wake {
    store: Store,
    near: Arc<Notify>,
    far: Arc<Notify>,
}

impl Wake {
    /// A hint that goes through `store`.
    pub fn new(store: Store) -> Self {
        Self { store, near: Arc::default(), far: Arc::default() }
    }

    /// There may be something to do. Call it after the commit, never inside the transaction.
    pub fn hint(&self) {
        self.near.notify_one();
        self.far.notify_one();
    }

    /// Wakes the executor of this process only; for what came from another process.
    pub fn hint_near(&self) {
        self.near.notify_one();
    }

    /// What the executor of this process waits for. A hint that comes while nobody waits is
    /// kept, any number of them as one.
    pub fn near(&self) -> &Notify {
        &self.near
    }

    /// Carries hints to other processes until `stop`: many that come at once as one.
    pub async fn carry(&self, stop: CancellationToken) {
        if self.store.engine() == Engine::Sqlite {
            return;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.far.notified() => {}
            }
            if let Err(error) = executor::notify(&self.store).await {
                tracing::debug!(%error, "a hint was lost; executors look when their timers end");
            }
        }
    }
}
