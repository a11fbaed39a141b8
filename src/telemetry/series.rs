//! Which series there are: their names, labels and help texts.
//!
//! Names and labels are a contract with the autoscalers and dashboards that read them.

use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, Result, core::Collector,
};

/// Seconds; ends at the longest `dispatch.timeout`.
const CALL_BUCKETS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Seconds; ends at a day, as long as work is tried unless configured otherwise: pauses count.
const PROCESS_BUCKETS: [f64; 14] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0];
/// Seconds; ends where the default `cron.catch_up_window` ends.
const LATENESS_BUCKETS: [f64; 12] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0, 3600.0];

/// The series that each application has.
#[derive(Debug)]
pub(super) struct QueueSeries {
    pub all: IntCounterVec,
    pub processed: IntCounterVec,
    pub waiting: IntGaugeVec,
    pub process_time: HistogramVec,
    pub failed: IntCounterVec,
    pub unserved: IntCounterVec,
}

impl QueueSeries {
    pub fn new(r: &Registry) -> Result<Self> {
        let waiting = (
            "pfy_executor_queue_waiting",
            "Pending work for backends, due or not: of triggers, rules and workflows.",
        );
        let counter = |name: &str, help: &str| counters(r, name, help, &["app"]);
        Ok(Self {
            all: counter(
                "pfy_executor_queue_all_total",
                "Deliveries of triggers put into the queue, and any call that a person retried; calls of rules and workflows are left out.",
            )?,
            processed: counter(
                "pfy_executor_queue_processed_total",
                "Work for backends that ended in an executor, however: of triggers, rules and workflows.",
            )?,
            waiting: added(r, IntGaugeVec::new(Opts::new(waiting.0, waiting.1), &["app"])?)?,
            process_time: histograms(
                r,
                "pfy_executor_queue_process_time_seconds",
                "Time from the making of work for backends to its end, pauses and delays included.",
                ("app", &PROCESS_BUCKETS),
            )?,
            failed: counter(
                "pfy_executor_trigger_delivery_failed_total",
                "Work for backends that failed or expired, of triggers, rules and workflows, and occurrences that found no backend.",
            )?,
            unserved: counter(
                "pfy_executor_occurrences_without_backend_total",
                "Occurrences that found no active backend when they were due; they wait for one.",
            )?,
        })
    }
}

/// The series of the executor as a whole.
#[derive(Debug)]
pub(super) struct ExecutorSeries {
    pub active_triggers: IntGauge,
    pub dispatch: IntCounterVec,
    pub skipped: IntCounterVec,
    pub lateness: Histogram,
    pub leases_expired: IntCounter,
    pub fenced: IntCounter,
    pub passes: IntCounter,
    pub last_pass: Gauge,
    pub clock_skew: Gauge,
    pub callbacks_refused: IntCounter,
}

impl ExecutorSeries {
    pub fn new(r: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str| added(r, IntCounter::new(name, help)?);
        let seconds = |name: &str, help: &str| added(r, Gauge::new(name, help)?);
        let active = IntGauge::new("pfy_executor_active_triggers", "Enabled triggers.")?;
        let dispatch = ("pfy_executor_backend_dispatch_total", "Calls of backends.");
        let skipped =
            ("pfy_executor_occurrences_skipped_total", "Due occurrences recorded and not sent.");
        let lateness = HistogramOpts::new(
            "pfy_executor_lateness_seconds",
            "From when the first attempt of work was due to its start; work that had waited for its place was due when that was back.",
        );
        Ok(Self {
            active_triggers: added(r, active)?,
            dispatch: counters(r, dispatch.0, dispatch.1, &["status"])?,
            skipped: counters(r, skipped.0, skipped.1, &["reason"])?,
            lateness: added(r, Histogram::with_opts(lateness.buckets(LATENESS_BUCKETS.into()))?)?,
            leases_expired: counter("pfy_executor_leases_expired_total", "Claims taken back.")?,
            fenced: counter(
                "pfy_executor_fenced_total",
                "Outcomes that came after their claim was lost.",
            )?,
            passes: counter("pfy_executor_passes_total", "Passes over the schedules.")?,
            last_pass: seconds(
                "pfy_executor_last_pass_timestamp_seconds",
                "When the last pass over the schedules ended.",
            )?,
            clock_skew: seconds(
                "pfy_executor_clock_skew_seconds",
                "How far this machine's clock is ahead of the database's.",
            )?,
            callbacks_refused: counter(
                "pfy_executor_callbacks_refused_total",
                "Calls not made: the address policy refuses the address, or the secrets can't be read.",
            )?,
        })
    }
}

/// The series of the API.
#[derive(Debug)]
pub(super) struct HttpSeries {
    pub requests: IntCounterVec,
    pub duration: HistogramVec,
}

impl HttpSeries {
    pub fn new(r: &Registry) -> Result<Self> {
        let labels = ["route", "method", "status"];
        Ok(Self {
            requests: counters(r, "pfy_http_requests_total", "Requests answered.", &labels)?,
            duration: histograms(
                r,
                "pfy_http_request_duration_seconds",
                "Time from a request's head to its answer's head.",
                ("route", &CALL_BUCKETS),
            )?,
        })
    }
}

/// A series that carries the program's version in a label.
pub(super) fn build_info(r: &Registry) -> Result<()> {
    let opts = Opts::new("pfy_build_info", "Always 1; the label names the version.");
    let info = added(r, IntGaugeVec::new(opts, &["version"])?)?;
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    Ok(())
}

pub(super) fn counters(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec> {
    added(r, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn histograms(
    r: &Registry,
    name: &str,
    help: &str,
    (label, buckets): (&str, &[f64]),
) -> Result<HistogramVec> {
    let opts = HistogramOpts::new(name, help).buckets(buckets.into());
    added(r, HistogramVec::new(opts, &[label])?)
}

pub(super) fn added<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
