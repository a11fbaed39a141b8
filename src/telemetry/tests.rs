use std::{
    collections::BTreeSet,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};

use super::*;

const APP: &str = "0190b8a1-0000-7000-8000-000000000001";
const OTHER: &str = "0190b8a1-0000-7000-8000-000000000002";

fn metrics() -> Metrics {
    Metrics::new().unwrap()
}

/// The value of one series; `None` if there is no such series.
fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    metrics.encode().lines().find_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        (name == series).then(|| value.parse().unwrap())
    })
}

#[test]
fn names_types_and_labels_are_the_contract() {
    let metrics = metrics();
    metrics.queued(APP, 1);
    metrics.occurrences_skipped("too_old", 1);
    let (get, ok) = (http::Method::GET, http::StatusCode::OK);
    metrics.http_request(Some("/graphql"), &get, ok, Duration::ZERO);
    count_rules(&metrics);
    let text = metrics.encode();
    let types: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let expected = BTreeSet::from([
        "pfy_actions_oldest_due_seconds gauge",
        "pfy_actions_total counter",
        "pfy_actions_waiting gauge",
        "pfy_build_info gauge",
        "pfy_cycle_users_total counter",
        "pfy_cycles_total counter",
        "pfy_events_duplicate_total counter",
        "pfy_events_matched_total counter",
        "pfy_events_oldest_waiting_seconds gauge",
        "pfy_events_received_total counter",
        "pfy_events_waiting gauge",
        "pfy_executor_active_triggers gauge",
        "pfy_executor_backend_dispatch_total counter",
        "pfy_executor_callbacks_refused_total counter",
        "pfy_executor_clock_skew_seconds gauge",
        "pfy_executor_fenced_total counter",
        "pfy_executor_last_pass_timestamp_seconds gauge",
        "pfy_executor_lateness_seconds histogram",
        "pfy_executor_leases_expired_total counter",
        "pfy_executor_occurrences_skipped_total counter",
        "pfy_executor_occurrences_without_backend_total counter",
        "pfy_executor_passes_total counter",
        "pfy_executor_queue_all_total counter",
        "pfy_executor_queue_process_time_seconds histogram",
        "pfy_executor_queue_processed_total counter",
        "pfy_executor_queue_waiting gauge",
        "pfy_executor_trigger_delivery_failed_total counter",
        "pfy_http_request_duration_seconds histogram",
        "pfy_http_requests_total counter",
        "pfy_line_oas_paused gauge",
        "pfy_line_webhooks_refused_total counter",
        "pfy_rule_evaluations_total counter",
    ]);
    assert_eq!(types, expected);
    for series in [
        "pfy_events_received_total{origin=\"api\",type=\"form_submitted\"} 2".to_owned(),
        "pfy_rule_evaluations_total{outcome=\"held_back\"} 3".to_owned(),
        "pfy_actions_total{action_type=\"send_message\",outcome=\"completed\"} 1".to_owned(),
        "pfy_actions_waiting{action_type=\"send_message\"} 4".to_owned(),
        "pfy_line_webhooks_refused_total 1".to_owned(),
        format!("pfy_executor_queue_all_total{{app=\"{APP}\"}} 1"),
        "pfy_executor_occurrences_skipped_total{reason=\"too_old\"} 1".to_owned(),
        "pfy_http_requests_total{method=\"GET\",route=\"/graphql\",status=\"200\"} 1".to_owned(),
        "pfy_http_request_duration_seconds_count{route=\"/graphql\"} 1".to_owned(),
        format!("pfy_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.lines().any(|line| line == series), "{series} not in\n{text}");
    }
}

fn count_rules(metrics: &Metrics) {
    metrics.events_received("form_submitted", "api", 2);
    metrics.events_duplicate("api", 1);
    metrics.events_matched("form_submitted", 1);
    metrics.rules_evaluated("held_back", 3);
    metrics.actions_ended("send_message", "completed", 1);
    metrics.cycle("completed");
    metrics.cycle_users("handled", 5);
    metrics.webhook_refused();
    metrics.set_rules_waiting(&RulesWaiting {
        actions: vec![("send_message", 4)],
        ..RulesWaiting::default()
    });
}

#[test]
fn an_action_type_that_has_nothing_waiting_any_more_is_gone() {
    let metrics = metrics();
    count_rules(&metrics);
    metrics.set_rules_waiting(&RulesWaiting { events: 7, ..RulesWaiting::default() });
    assert_eq!(value(&metrics, "pfy_actions_waiting{action_type=\"send_message\"}"), None);
    assert_eq!(value(&metrics, "pfy_events_waiting"), Some(7.0));
}

#[test]
fn both_dispatch_series_exist_from_the_start() {
    let metrics = metrics();
    let series = |status| format!("pfy_executor_backend_dispatch_total{{status=\"{status}\"}}");
    assert_eq!(value(&metrics, &series("success")), Some(0.0));
    assert_eq!(value(&metrics, &series("error")), Some(0.0));
    metrics.dispatched(DispatchStatus::Error, 3);
    metrics.dispatched(DispatchStatus::Success, 2);
    assert_eq!(value(&metrics, &series("error")), Some(3.0));
    assert_eq!(value(&metrics, &series("success")), Some(2.0));
}

#[test]
fn all_series_of_an_application_appear_with_its_first_event_and_go_with_it() {
    let metrics = metrics();
    let series = [
        format!("pfy_executor_queue_all_total{{app=\"{APP}\"}}"),
        format!("pfy_executor_queue_processed_total{{app=\"{APP}\"}}"),
        format!("pfy_executor_queue_waiting{{app=\"{APP}\"}}"),
        format!("pfy_executor_queue_process_time_seconds_count{{app=\"{APP}\"}}"),
        format!("pfy_executor_trigger_delivery_failed_total{{app=\"{APP}\"}}"),
        format!("pfy_executor_occurrences_without_backend_total{{app=\"{APP}\"}}"),
    ];
    metrics.queued(OTHER, 1);
    assert!(series.iter().all(|series| value(&metrics, series).is_none()));
    metrics.delivery_failed(APP, 0);
    assert!(series.iter().all(|series| value(&metrics, series) == Some(0.0)));
    metrics.remove_app(APP);
    metrics.remove_app(APP);
    assert!(!metrics.encode().contains(APP));
    assert!(metrics.encode().contains(OTHER));
}

#[test]
fn an_application_without_waiting_work_falls_to_zero() {
    let metrics = metrics();
    let waiting = |app| value(&metrics, &format!("pfy_executor_queue_waiting{{app=\"{app}\"}}"));
    metrics.set_waiting([(APP, 7), (OTHER, 2)]);
    assert_eq!((waiting(APP), waiting(OTHER)), (Some(7.0), Some(2.0)));
    metrics.set_waiting([(OTHER, 5)]);
    assert_eq!((waiting(APP), waiting(OTHER)), (Some(0.0), Some(5.0)));
    metrics.set_waiting(std::iter::empty::<(&str, u64)>());
    assert_eq!(waiting(OTHER), Some(0.0));
}

#[test]
fn one_attempt_counts_once_and_with_its_time() {
    let metrics = metrics();
    metrics.processed(APP, Duration::from_millis(300));
    let series = |name: &str, labels: &str| {
        value(&metrics, &format!("pfy_executor_queue_{name}{{app=\"{APP}\"{labels}}}"))
    };
    assert_eq!(series("processed_total", ""), Some(1.0));
    assert_eq!(series("process_time_seconds_sum", ""), Some(0.3));
    assert_eq!(series("process_time_seconds_bucket", ",le=\"0.25\""), Some(0.0));
    assert_eq!(series("process_time_seconds_bucket", ",le=\"0.5\""), Some(1.0));
    assert_eq!(series("process_time_seconds_bucket", ",le=\"86400\""), Some(1.0), "up to a day");
}

#[test]
fn times_are_seconds() {
    let metrics = metrics();
    let now: DateTime<Utc> = "2026-03-01T12:00:00.250Z".parse().unwrap();
    metrics.passed(now);
    metrics.set_clock_skew(TimeDelta::milliseconds(-1500));
    metrics.late(TimeDelta::milliseconds(1500));
    metrics.late(TimeDelta::milliseconds(-20));
    let series = |name| value(&metrics, &format!("pfy_executor_{name}")).unwrap();
    assert_eq!(series("passes_total"), 1.0);
    assert_eq!(series("last_pass_timestamp_seconds"), 1_772_366_400.25);
    assert_eq!(series("clock_skew_seconds"), -1.5);
    assert_eq!(series("lateness_seconds_sum"), 1.5);
    assert_eq!(series("lateness_seconds_count"), 2.0);
}

#[test]
fn what_a_client_sends_does_not_make_new_series() {
    let metrics = metrics();
    for method in ["BREW", "PROPFIND"] {
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        metrics.http_request(None, &method, http::StatusCode::NOT_FOUND, Duration::ZERO);
    }
    let series = "pfy_http_requests_total{method=\"OTHER\",route=\"unmatched\",status=\"404\"}";
    assert_eq!(value(&metrics, series), Some(2.0));
}

#[test]
fn clones_count_together_and_two_registries_apart() {
    let (one, two) = (metrics(), metrics());
    one.clone().fenced(2);
    one.leases_expired(1);
    assert_eq!(value(&one, "pfy_executor_fenced_total"), Some(2.0));
    assert_eq!(value(&two, "pfy_executor_fenced_total"), Some(0.0));
    assert_eq!(value(&one, "pfy_executor_leases_expired_total"), Some(1.0));
}

#[test]
fn threads_that_count_and_remove_at_once_leave_no_half_application() {
    let metrics = metrics();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| metrics.processed(APP, Duration::ZERO)));
            scope.spawn(|| (0..200).for_each(|_| metrics.remove_app(APP)));
        }
    });
    metrics.remove_app(APP);
    assert!(!metrics.encode().contains(APP));
}

/// Log lines of one test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log_config(format: LogFormat, level: &str) -> LogConfig {
    LogConfig { format, level: level.to_owned() }
}

#[test]
fn json_lines_carry_the_fields_at_the_top() {
    let lines = Lines::default();
    let writer = lines.clone();
    let config = log_config(LogFormat::Json, "info");
    let subscriber = json(&config, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(trigger = "t1", "fired");
        tracing::debug!("too quiet");
    });
    let text = lines.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&line["message"], &line["trigger"]), (&"fired".into(), &"t1".into()));
    assert_eq!(line["level"], "INFO");
}

#[test]
fn single_modules_have_their_own_level() {
    let lines = Lines::default();
    let writer = lines.clone();
    let config = log_config(LogFormat::Text, "warn, loud=debug");
    let subscriber = text(&config, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::debug!(target: "loud", "heard");
        tracing::info!(target: "other", "not heard");
    });
    let text = lines.text();
    assert!(text.contains("loud: heard") && text.lines().count() == 1, "{text}");
}

#[test]
fn the_alert_rules_ask_for_series_that_there_are() {
    let metrics = metrics();
    count_rules(&metrics);
    metrics.delivery_failed(APP, 1);
    metrics.without_backend(APP, 1);
    let known = metrics.encode();
    let rules = include_str!("../../deploy/alerts.yml");
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let asked: BTreeSet<_> = words.filter(|word| word.starts_with("pfy_")).collect();
    assert!(asked.len() > 5, "{asked:?}");
    for name in asked {
        assert!(known.contains(&format!("# TYPE {name} ")), "{name}");
    }
}
