//! The metrics, in the Prometheus text format.
//!
//! Names and labels are a contract: autoscalers read them. `app` is the
//! application's id; all series of an application appear with its first event, at
//! zero, so that rates have a start.

use std::{
    collections::BTreeSet,
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use prometheus::{Registry, Result, TextEncoder};

use super::rules::RuleSeries;
use super::series::{ExecutorSeries, HttpSeries, QueueSeries, build_info};

/// The content type of [`Metrics::encode`]: the text format, version 0.0.4.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How one call of a backend ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchStatus {
    /// A complete answer with a status of 200 to 299 in time.
    Success,
    /// Anything else.
    Error,
}

impl DispatchStatus {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// All metrics of a process, on a registry of their own. A clone counts into the same.
///
/// Counting never fails and never waits for anything but memory.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    apps: Mutex<BTreeSet<String>>,
    queue: QueueSeries,
    executor: ExecutorSeries,
    http: HttpSeries,
    rules: RuleSeries,
}

impl Metrics {
    /// Metrics that all stand at zero.
    ///
    /// # Errors
    /// If two metrics had the same name, which a test rules out.
    pub fn new() -> Result<Self> {
        let registry = Registry::new();
        build_info(&registry)?;
        let metrics = Self(Arc::new(Inner {
            queue: QueueSeries::new(&registry)?,
            executor: ExecutorSeries::new(&registry)?,
            http: HttpSeries::new(&registry)?,
            rules: RuleSeries::new(&registry)?,
            apps: Mutex::default(),
            registry,
        }));
        for status in [DispatchStatus::Success, DispatchStatus::Error] {
            metrics.dispatched(status, 0);
        }
        Ok(metrics)
    }

    /// Deliveries of `app`'s triggers were put into the queue, or a person had a call retried.
    pub fn queued(&self, app: impl Display, count: u64) {
        self.app(app, |app| self.0.queue.all.with_label_values(&[app]).inc_by(count));
    }

    /// Work for backends of `app` has ended, however; `took` is the time since it was made.
    pub fn processed(&self, app: impl Display, took: Duration) {
        self.app(app, |app| {
            self.0.queue.processed.with_label_values(&[app]).inc();
            self.0.queue.process_time.with_label_values(&[app]).observe(took.as_secs_f64());
        });
    }

    /// What waits in the queue now, the whole of it: an application that is not named has
    /// nothing waiting.
    pub fn set_waiting<A: Display>(&self, waiting: impl IntoIterator<Item = (A, u64)>) {
        let mut named = BTreeSet::new();
        for (app, count) in waiting {
            self.app(app, |app| {
                self.0.queue.waiting.with_label_values(&[app]).set(gauge(count));
                named.insert(app.to_owned());
            });
        }
        let apps = self.0.apps.lock().unwrap_or_else(PoisonError::into_inner);
        for app in apps.difference(&named) {
            self.0.queue.waiting.with_label_values(&[app]).set(0);
        }
    }

    /// Work for backends of `app` has failed or expired, or an occurrence found no backend.
    pub fn delivery_failed(&self, app: impl Display, count: u64) {
        self.app(app, |app| self.0.queue.failed.with_label_values(&[app]).inc_by(count));
    }

    /// Occurrences of `app` found no active backend when they were due.
    pub fn without_backend(&self, app: impl Display, count: u64) {
        self.app(app, |app| self.0.queue.unserved.with_label_values(&[app]).inc_by(count));
    }

    /// So many triggers are enabled now.
    pub fn set_active_triggers(&self, count: u64) {
        self.0.executor.active_triggers.set(gauge(count));
    }

    /// Calls of backends ended so.
    pub fn dispatched(&self, status: DispatchStatus, count: u64) {
        self.0.executor.dispatch.with_label_values(&[status.label()]).inc_by(count);
    }

    /// Due occurrences were recorded and not sent. The reasons are a closed list.
    pub fn occurrences_skipped(&self, reason: &'static str, count: u64) {
        self.0.executor.skipped.with_label_values(&[reason]).inc_by(count);
    }

    /// The first attempt of work began this long after it was due; negative is zero. Work that had waited
    /// for its place, such as an inactive backend, was due when that was back.
    pub fn late(&self, by: TimeDelta) {
        self.0.executor.lateness.observe(seconds(by).max(0.0));
    }

    /// Claimed work was taken back because its executor did not finish it in time.
    pub fn leases_expired(&self, count: u64) {
        self.0.executor.leases_expired.inc_by(count);
    }

    /// Outcomes were thrown away because the work had been taken back meanwhile.
    pub fn fenced(&self, count: u64) {
        self.0.executor.fenced.inc_by(count);
    }

    /// A pass over the schedules ended at `now`.
    pub fn passed(&self, now: DateTime<Utc>) {
        self.0.executor.passes.inc();
        self.0.executor.last_pass.set(now.timestamp_millis() as f64 / 1000.0);
    }

    /// This machine's clock is ahead of the database's by so much; negative is behind.
    pub fn set_clock_skew(&self, ahead: TimeDelta) {
        self.0.executor.clock_skew.set(seconds(ahead));
    }

    /// Calls were not made: the address policy refuses the address, or the secrets can't be read.
    pub fn callbacks_refused(&self, count: u64) {
        self.0.executor.callbacks_refused.inc_by(count);
    }

    /// One request was answered. `route` is the route's pattern, never the path itself;
    /// `None` is a path without a route. Unusual methods count as `OTHER`.
    pub fn http_request(
        &self,
        route: Option<&str>,
        method: &http::Method,
        status: http::StatusCode,
        took: Duration,
    ) {
        let route = route.unwrap_or("unmatched");
        let method = match method.as_str() {
            usual @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") => usual,
            _ => "OTHER",
        };
        self.0.http.requests.with_label_values(&[route, method, status.as_str()]).inc();
        self.0.http.duration.with_label_values(&[route]).observe(took.as_secs_f64());
    }

    /// Drops the series of a deleted application. What is still counted for it afterwards
    /// starts at zero again.
    pub fn remove_app(&self, app: impl Display) {
        let app = app.to_string();
        let mut apps = self.0.apps.lock().unwrap_or_else(PoisonError::into_inner);
        if apps.remove(&app) {
            // A series that is gone already is as good.
            let labels = [app.as_str()];
            let _ = self.0.queue.all.remove_label_values(&labels);
            let _ = self.0.queue.processed.remove_label_values(&labels);
            let _ = self.0.queue.waiting.remove_label_values(&labels);
            let _ = self.0.queue.process_time.remove_label_values(&labels);
            let _ = self.0.queue.failed.remove_label_values(&labels);
            let _ = self.0.queue.unserved.remove_label_values(&labels);
        }
    }

    /// The applications that have series.
    pub fn apps(&self) -> Vec<String> {
        let apps = self.0.apps.lock().unwrap_or_else(PoisonError::into_inner);
        apps.iter().cloned().collect()
    }

    /// All metrics as text, to be served as [`CONTENT_TYPE`].
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let families = self.0.registry.gather();
        if let Err(error) = TextEncoder::new().encode_utf8(&families, &mut text) {
            tracing::error!(%error, "metrics were not encoded to the end");
        }
        text
    }

    pub(super) fn rules(&self) -> &RuleSeries {
        &self.0.rules
    }

    /// Counts for an application whose series exist, and under the lock, so that a removed
    /// application does not come back in part.
    fn app(&self, app: impl Display, count: impl FnOnce(&str)) {
        let app = app.to_string();
        let mut apps = self.0.apps.lock().unwrap_or_else(PoisonError::into_inner);
        if !apps.contains(&app) {
            self.0.queue.all.with_label_values(&[&app]);
            self.0.queue.processed.with_label_values(&[&app]);
            self.0.queue.waiting.with_label_values(&[&app]);
            self.0.queue.process_time.with_label_values(&[&app]);
            self.0.queue.failed.with_label_values(&[&app]);
            self.0.queue.unserved.with_label_values(&[&app]);
            apps.insert(app.clone());
        }
        count(&app);
    }
}

pub(super) fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn seconds(delta: TimeDelta) -> f64 {
    delta.num_milliseconds() as f64 / 1000.0
}
