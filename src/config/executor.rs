//! Settings of schedules, delivery and clean-up.

use std::{net::IpAddr, time::Duration};

use crate::domain::cron::{CronError, Zone};
use ipnet::IpNet;
use serde::Serialize;

use super::{error::ConfigError, reader::Reader, show, values};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// What a lease must have left after a call has run out of time, to write down its outcome.
pub(super) const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// Schedules and the executor's metrics.
#[derive(Debug, Clone, Serialize)]
pub struct CronConfig {
    /// The longest time between two passes; 1 s to 1 h.
    #[serde(serialize_with = "show::duration")]
    pub trigger_check_interval: Duration,
    /// A backend without a heartbeat for this long is inactive; 1 s to 1 d.
    #[serde(serialize_with = "show::duration")]
    pub backend_heartbeat_timeout: Duration,
    /// Port of the metrics; 0 takes any free port.
    pub metrics_port: u16,
    /// Address the metrics listen on.
    pub metrics_host: IpAddr,
    /// Zone of schedules that name none; `None` is the machine's, see [`CronConfig::zone`].
    #[serde(serialize_with = "show::zone")]
    pub time_zone: Option<Zone>,
    /// Older occurrences are recorded, not sent; 0 to 31 d.
    #[serde(serialize_with = "show::duration")]
    pub catch_up_window: Duration,
    /// Occurrences of one trigger that one pass sends, at most; 1 to 10 000.
    pub max_occurrences_per_window: u32,
}

impl CronConfig {
    /// The zone of schedules that name none: the configured one, else the machine's. `tz` is the
    /// value of the variable `TZ`.
    ///
    /// # Errors
    /// What the machine says names no zone.
    pub fn zone(&self, tz: Option<&str>) -> Result<Zone, CronError> {
        self.time_zone.clone().map_or_else(|| Zone::machine(tz), Ok)
    }

    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            trigger_check_interval: r.duration("cron.trigger_check_interval", SECOND..=HOUR)?,
            backend_heartbeat_timeout: r
                .duration("cron.backend_heartbeat_timeout", SECOND..=DAY)?,
            metrics_port: r.number("cron.metrics_port", 0..=u16::MAX)?,
            metrics_host: r.text("cron.metrics_host", values::ip_address)?,
            time_zone: r.optional("cron.time_zone", values::time_zone)?,
            catch_up_window: r.duration("cron.catch_up_window", Duration::ZERO..=31 * DAY)?,
            max_occurrences_per_window: r.number("cron.max_occurrences_per_window", 1..=10_000)?,
        })
    }
}

/// How work is sent to backends.
#[derive(Debug, Clone, Serialize)]
pub struct DispatchConfig {
    /// Connect, headers and body of one call together; 100 ms to 30 s.
    #[serde(serialize_with = "show::duration")]
    pub timeout: Duration,
    /// Calls in flight in this process, at most; 1 to 10 000.
    pub concurrency: usize,
    /// Calls in flight for one application, at most; 1 to 10 000.
    pub concurrency_per_application: usize,
    /// Calls in flight to one backend, at most; 1 to 10 000.
    pub concurrency_per_backend: usize,
    /// Rows that one claim takes, at most; 1 to 10 000.
    pub batch_size: u32,
    /// How long a claim holds; at least 5 s more than `timeout` and `line.timeout`, at most 10 min.
    #[serde(serialize_with = "show::duration")]
    pub lease: Duration,
    /// What happens after a failed attempt.
    pub retry: RetryConfig,
}

/// What happens after a failed attempt.
#[derive(Debug, Clone, Serialize)]
pub struct RetryConfig {
    /// Wait before the first retry; 100 ms to 1 h.
    #[serde(serialize_with = "show::duration")]
    pub initial: Duration,
    /// Wait between attempts, at most; not less than `initial`, at most 1 d.
    #[serde(serialize_with = "show::duration")]
    pub max: Duration,
    /// Growth from wait to wait; 1 to 10.
    pub multiplier: f64,
    /// Attempts in all; 1 to 1000.
    pub max_attempts: u32,
    /// Age at which a delivery has failed; 1 s to 31 d.
    #[serde(serialize_with = "show::duration")]
    pub max_age: Duration,
}

impl DispatchConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        let moment = Duration::from_millis(100);
        Ok(Self {
            timeout: r.duration("dispatch.timeout", moment..=30 * SECOND)?,
            concurrency: r.number("dispatch.concurrency", 1..=10_000)?,
            concurrency_per_application: r
                .number("dispatch.concurrency_per_application", 1..=10_000)?,
            concurrency_per_backend: r.number("dispatch.concurrency_per_backend", 1..=10_000)?,
            batch_size: r.number("dispatch.batch_size", 1..=10_000)?,
            lease: r.duration("dispatch.lease", LEASE_MARGIN..=10 * MINUTE)?,
            retry: RetryConfig {
                initial: r.duration("dispatch.retry.initial", moment..=HOUR)?,
                max: r.duration("dispatch.retry.max", moment..=DAY)?,
                multiplier: r.number("dispatch.retry.multiplier", 1.0..=10.0)?,
                max_attempts: r.number("dispatch.retry.max_attempts", 1..=1000)?,
                max_age: r.duration("dispatch.retry.max_age", SECOND..=31 * DAY)?,
            },
        })
    }

    pub(super) fn check_together(&self, r: &mut Reader) {
        let least = self.timeout + LEASE_MARGIN;
        if self.lease < least {
            let reason = format!(
                "is too short for dispatch.timeout; write at least {}, which is 5s more",
                humantime::format_duration(least)
            );
            r.refuse("dispatch.lease", reason);
        }
        if self.retry.max < self.retry.initial {
            let reason = format!(
                "is less than dispatch.retry.initial; write at least {}",
                humantime::format_duration(self.retry.initial)
            );
            r.refuse("dispatch.retry.max", reason);
        }
    }
}

/// Which addresses callbacks may have.
#[derive(Debug, Clone, Serialize)]
pub struct CallbacksConfig {
    /// Private networks that are reachable all the same; host bits are cut off.
    #[serde(serialize_with = "show::list")]
    pub allowed_networks: Vec<IpNet>,
}

impl CallbacksConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { allowed_networks: r.list("callbacks.allowed_networks", values::network)? })
    }
}

/// How long what has happened is kept. `None` keeps it forever.
#[derive(Debug, Clone, Serialize)]
pub struct RetentionConfig {
    /// Work and cycles that ended well, and skipped occurrences.
    #[serde(serialize_with = "show::forever")]
    pub delivered: Option<Duration>,
    /// Failed, expired and cancelled work and cycles.
    #[serde(serialize_with = "show::forever")]
    pub failed: Option<Duration>,
    /// Events that were evaluated; as long are their ids known, so that the same one sent again does
    /// nothing.
    #[serde(serialize_with = "show::forever")]
    pub events: Option<Duration>,
    /// Rows of the trigger log that say what was held back.
    #[serde(serialize_with = "show::forever")]
    pub held_back: Option<Duration>,
    /// All other rows of the trigger log.
    #[serde(serialize_with = "show::forever")]
    pub log: Option<Duration>,
    /// Rows of the audit log.
    #[serde(serialize_with = "show::forever")]
    pub audit: Option<Duration>,
    /// Rows that one statement takes, at most, of occurrences without their deliveries; 1 to 10 000.
    pub batch: u32,
}

impl RetentionConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        let mut keep = |key: &str| -> Result<Option<Duration>, ConfigError> {
            let kept = r.duration(key, Duration::ZERO..=36_500 * DAY)?;
            Ok(Some(kept).filter(|kept| !kept.is_zero()))
        };
        Ok(Self {
            delivered: keep("retention.delivered")?,
            failed: keep("retention.failed")?,
            events: keep("retention.events")?,
            held_back: keep("retention.held_back")?,
            log: keep("retention.log")?,
            audit: keep("retention.audit")?,
            batch: r.number("retention.batch", 1..=10_000)?,
        })
    }
}
