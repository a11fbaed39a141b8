//! Slow hashes off the event loop, a few at a time.
//!
//! Each takes 19 MiB and a processor for tens of milliseconds. Without a bound a flood of sign-ins
//! would take all memory; with it the flood waits in line, and the line has an end.

use std::sync::Arc;

use secrecy::SecretString;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::secrets::{Password, verify_dummy, verify_password};

/// How many may wait for a slot; whoever comes then is told to come again.
const LINE: usize = 64;

/// As many slots as there are processors, and a line in front of them.
pub(in crate::app) struct Hashing {
    slots: Arc<Semaphore>,
    line: Semaphore,
}

impl Hashing {
    pub(super) fn new() -> Self {
        let slots = std::thread::available_parallelism().map_or(2, usize::from);
        Self { slots: Arc::new(Semaphore::new(slots)), line: Semaphore::new(LINE) }
    }

    /// The hash to store for a new password.
    pub(in crate::app) async fn hash(&self, password: Password) -> Result<String> {
        self.run(move || Ok(password.hash()?)).await
    }

    /// Whether `candidate` is the password behind `stored`. With nothing stored it is not, and
    /// that takes as long.
    pub(in crate::app) async fn verify(
        &self,
        candidate: SecretString,
        stored: Option<String>,
    ) -> Result<bool> {
        self.run(move || match stored {
            Some(stored) => Ok(verify_password(&candidate, &stored)?),
            None => Ok(verify_dummy(&candidate)?),
        })
        .await
    }

    /// A caller who goes away gives the slot back only when the work has ended. `BUSY` when the
    /// line is full.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = self.line.try_acquire().map_err(|_| Error::Busy)?;
        let slot = self.slots.clone().acquire_owned().await.map_err(Error::internal)?;
        drop(place);
        let work = move || {
            let done = work();
            drop(slot);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
    }
}
