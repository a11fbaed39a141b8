//! What the driver does now and then.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Executor;

/// What is done now and then rather than when something is due.
pub(super) struct Chores {
    pub report: Every,
    pub observe: Every,
    pub skew: Every,
    pub reap: Every,
    pub look: Every,
}

pub(super) struct Every {
    interval: chrono::Duration,
    pub last: Option<DateTime<Utc>>,
}

impl Every {
    fn new(interval: Duration) -> Self {
        Self { interval: crate::app::span(interval), last: None }
    }

    /// Whether it is time; if so, it has now happened. A clock that was set back makes it time.
    pub fn is_due(&mut self, now: DateTime<Utc>) -> bool {
        let due = self.last.is_none_or(|last| now >= last + self.interval || now < last);
        if due {
            self.last = Some(now);
        }
        due
    }
}

impl Chores {
    pub fn new(executor: &Executor) -> Self {
        let config = &executor.app.config;
        Self {
            report: Every::new(Duration::from_secs(10)),
            observe: Every::new(Duration::from_secs(15)),
            skew: Every::new(Duration::from_secs(60)),
            reap: Every::new(config.dispatch.lease / 6),
            look: Every::new(config.cron.trigger_check_interval),
        }
    }
}
