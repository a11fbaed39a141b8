//! The series of trigger rules: events in, evaluations, actions out.
//!
//! Labels are names of types and outcomes, which are closed lists: a caller's text never makes a
//! series.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

use super::Metrics;
use super::metrics::gauge;
use super::series::{added, counters};
use crate::domain::cycle::CycleStatus;

/// What trigger rules count.
#[derive(Debug)]
pub(super) struct RuleSeries {
    received: IntCounterVec,
    duplicate: IntCounterVec,
    matched: IntCounterVec,
    evaluations: IntCounterVec,
    events_waiting: IntGauge,
    events_oldest: IntGauge,
    actions: IntCounterVec,
    actions_waiting: IntGaugeVec,
    actions_oldest: IntGauge,
    cycles: IntCounterVec,
    cycle_users: IntCounterVec,
    webhooks_refused: IntCounter,
    line_oas_paused: IntGauge,
}

impl RuleSeries {
    pub fn new(r: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| counters(r, name, help, labels);
        let number = |name: &str, help: &str| added(r, IntGauge::new(name, help)?);
        let waiting = Opts::new(
            "pfy_actions_waiting",
            "Actions of rules and workflows that wait, due or not, by action type.",
        );
        let refused = IntCounter::new(
            "pfy_line_webhooks_refused_total",
            "Webhooks with a wrong signature, or for no LINE OA.",
        )?;
        Ok(Self {
            received: counter("pfy_events_received_total", "Events stored.", &["type", "origin"])?,
            duplicate: counter(
                "pfy_events_duplicate_total",
                "Events that were stored before and did nothing.",
                &["origin"],
            )?,
            matched: counter(
                "pfy_events_matched_total",
                "Events that at least one rule accepted.",
                &["type"],
            )?,
            evaluations: counter(
                "pfy_rule_evaluations_total",
                "Evaluations of a rule for an event or a user of a cycle, by outcome.",
                &["outcome"],
            )?,
            events_waiting: number("pfy_events_waiting", "Events that wait to be evaluated.")?,
            events_oldest: number(
                "pfy_events_oldest_waiting_seconds",
                "Age of the oldest event that waits to be evaluated.",
            )?,
            actions: counter(
                "pfy_actions_total",
                "Actions of rules and workflows that were done, failed or expired, or that a request cancelled.",
                &["action_type", "outcome"],
            )?,
            actions_waiting: added(r, IntGaugeVec::new(waiting, &["action_type"])?)?,
            actions_oldest: number(
                "pfy_actions_oldest_due_seconds",
                "How long the oldest due action of rules and workflows has been due.",
            )?,
            cycles: cycles(r)?,
            cycle_users: counter(
                "pfy_cycle_users_total",
                "Users of cycles that were handled, by outcome.",
                &["outcome"],
            )?,
            webhooks_refused: added(r, refused)?,
            line_oas_paused: number(
                "pfy_line_oas_paused",
                "LINE OAs that are paused: the platform refused the token, or the month's messages are used up.",
            )?,
        })
    }
}

/// There from the first scrape, so that an alert can ask for them.
fn cycles(r: &Registry) -> Result<IntCounterVec> {
    let help = "Cycles that began (processing) and ended.";
    let cycles = counters(r, "pfy_cycles_total", help, &["status"])?;
    for status in CycleStatus::ALL {
        cycles.with_label_values(&[status.as_str()]);
    }
    Ok(cycles)
}

/// What waits now, of trigger rules.
#[derive(Debug, Clone, Default)]
pub struct RulesWaiting<'a> {
    /// Events that wait to be evaluated.
    pub events: u64,
    /// How old the oldest of them is, in seconds.
    pub oldest_event: u64,
    /// Actions that wait, by type.
    pub actions: Vec<(&'a str, u64)>,
    /// How long the oldest due action has been due, in seconds.
    pub oldest_action: u64,
    /// LINE OAs that are paused.
    pub paused: u64,
}

impl Metrics {
    /// Events of a known type were stored.
    pub fn events_received(&self, event_type: &str, origin: &'static str, count: u64) {
        self.rules().received.with_label_values(&[event_type, origin]).inc_by(count);
    }

    /// Events had been stored before.
    pub fn events_duplicate(&self, origin: &'static str, count: u64) {
        self.rules().duplicate.with_label_values(&[origin]).inc_by(count);
    }

    /// Events of a known type were accepted by at least one rule.
    pub fn events_matched(&self, event_type: &str, count: u64) {
        self.rules().matched.with_label_values(&[event_type]).inc_by(count);
    }

    /// Rules were evaluated, with this outcome: `queued`, `held_back` or `failed`.
    pub fn rules_evaluated(&self, outcome: &'static str, count: u64) {
        self.rules().evaluations.with_label_values(&[outcome]).inc_by(count);
    }

    /// So many actions of a known type have ended.
    pub fn actions_ended(&self, action_type: &str, outcome: &'static str, count: u64) {
        self.rules().actions.with_label_values(&[action_type, outcome]).inc_by(count);
    }

    /// A cycle began (`processing`) or ended.
    pub fn cycle(&self, status: &'static str) {
        self.rules().cycles.with_label_values(&[status]).inc();
    }

    /// Users of a cycle were handled, with this outcome.
    pub fn cycle_users(&self, outcome: &'static str, count: u64) {
        self.rules().cycle_users.with_label_values(&[outcome]).inc_by(count);
    }

    /// A webhook was refused.
    pub fn webhook_refused(&self) {
        self.rules().webhooks_refused.inc();
    }

    /// What waits now, the whole of it: an action type that is not named has nothing waiting.
    pub fn set_rules_waiting(&self, waiting: &RulesWaiting<'_>) {
        let series = self.rules();
        series.events_waiting.set(gauge(waiting.events));
        series.events_oldest.set(gauge(waiting.oldest_event));
        series.actions_oldest.set(gauge(waiting.oldest_action));
        series.line_oas_paused.set(gauge(waiting.paused));
        series.actions_waiting.reset();
        for (action_type, count) in &waiting.actions {
            series.actions_waiting.with_label_values(&[*action_type]).set(gauge(*count));
        }
    }
}
