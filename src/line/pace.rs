//! How fast this process calls the platform, for each channel on its own.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::domain::id::LineOaId;

/// Channels that are remembered before those that rest are forgotten.
const REMEMBERED: usize = 1000;

/// The rate limit of each channel. It is this process's own: several executors together call a
/// channel as many times faster.
pub(super) struct Pace(DefaultKeyedRateLimiter<LineOaId>);

impl Pace {
    /// `a_second` calls a second on average, evenly; at most a twentieth of a second's worth at
    /// once. Zero counts as one.
    pub fn new(a_second: u32) -> Self {
        let rate = NonZeroU32::new(a_second).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(a_second / 20).unwrap_or(NonZeroU32::MIN);
        Self(RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst)))
    }

    /// Waits for the channel's turn, `at_most` so long. False if it does not come in time; then
    /// nothing is used up.
    pub async fn turn(&self, channel: LineOaId, at_most: Duration) -> bool {
        if self.0.len() >= REMEMBERED {
            // Whoever made no call for a moment is as good as new.
            self.0.retain_recent();
        }
        tokio::time::timeout(at_most, self.0.until_key_ready(&channel)).await.is_ok()
    }

    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.0.len()
    }
}
