//! The live tail: tells those who follow along that something happened.

use std::sync::Arc;

use tokio::sync::Notify;

/// A hint that something happened that somebody may follow.
#[derive(Clone, Default)]
pub struct Live {
    happened: Arc<Notify>,
}

impl Live {
    /// Something happened.
    pub fn hint(&self) {
        self.happened.notify_waiters();
    }
}
