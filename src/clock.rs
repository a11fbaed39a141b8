//! The one place that reads the wall clock.
//!
//! Everything that depends on the time takes `now` as a value; whoever needs a
//! value asks a [`Clock`]. Instants are UTC, cut to whole milliseconds, so that
//! what is written to either database is what is read back.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Duration, SubsecRound, Utc};

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current instant, UTC, cut to milliseconds.
    fn now(&self) -> DateTime<Utc>;
}

/// A clock that can be handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one legal site")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }
}

/// A clock that stands still until it is told otherwise: for tests and simulations.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<DateTime<Utc>>>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self(Arc::new(Mutex::new(start.trunc_subsecs(3))))
    }

    /// Moves the clock by `step`, which may be negative.
    pub fn advance(&self, step: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now += step;
    }

    /// Sets the clock to `instant`, forwards or backwards.
    pub fn set(&self, instant: DateTime<Utc>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = instant.trunc_subsecs(3);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
