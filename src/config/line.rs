//! Settings of the calls of the LINE platform.

use std::time::Duration;

use serde::Serialize;
use url::Url;

use super::executor::{DispatchConfig, LEASE_MARGIN};
use super::{error::ConfigError, reader::Reader, show, values};

const DAY: Duration = Duration::from_secs(86_400);

/// Calls of the LINE platform.
#[derive(Debug, Clone, Serialize)]
pub struct LineConfig {
    /// Where the API's paths start: http or https, a path if need be, no user, query or fragment.
    #[serde(serialize_with = "show::text")]
    pub api_base: Url,
    /// Calls in a second that this process makes for one channel; 1 to 100 000.
    pub rate_limit: u32,
    /// A whole call, the wait for its turn included; 100 ms to 30 s, and at least 5 s less than
    /// `dispatch.lease`.
    #[serde(serialize_with = "show::duration")]
    pub timeout: Duration,
    /// The rest of a channel whose messages of the month are used up; 1 s to 31 d.
    #[serde(serialize_with = "show::duration")]
    pub monthly_limit_pause: Duration,
    /// The rest of a channel whose access token was refused; 1 s to 1 d.
    #[serde(serialize_with = "show::duration")]
    pub unauthorized_pause: Duration,
}

impl LineConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        let second = Duration::from_secs(1);
        Ok(Self {
            api_base: r.text("line.api_base", values::api_base)?,
            rate_limit: r.number("line.rate_limit", 1..=100_000)?,
            timeout: r
                .duration("line.timeout", Duration::from_millis(100)..=Duration::from_secs(30))?,
            monthly_limit_pause: r.duration("line.monthly_limit_pause", second..=31 * DAY)?,
            unauthorized_pause: r.duration("line.unauthorized_pause", second..=DAY)?,
        })
    }

    pub(super) fn check_together(&self, dispatch: &DispatchConfig, r: &mut Reader) {
        if dispatch.lease < self.timeout + LEASE_MARGIN {
            let reason = format!(
                "is too long for dispatch.lease, which is {}; it must be at least 5s shorter than \
                 that",
                humantime::format_duration(dispatch.lease)
            );
            r.refuse("line.timeout", reason);
        }
    }
}
