//! All that a simulation has left behind.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Duration, Utc};
use serde_json::Value;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::AuditLog;
use trigger_manager::domain::delivery::{Attempt, Delivery};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::scheduled_action::ScheduledAction;
use trigger_manager::domain::trigger::{Occurrence, Trigger};

use super::backend::Request;
use super::world::World;

pub struct Seen {
    pub occurrences: Vec<Occurrence>,
    pub deliveries: Vec<Delivery>,
    /// The work of rules.
    pub actions: Vec<ScheduledAction>,
    pub triggers: Vec<Trigger>,
    /// In the order of the commits.
    pub audit: Vec<AuditLog>,
    /// The log of what was attempted.
    pub attempts: Vec<Attempt>,
    pub requests: Vec<Request>,
    /// When people have given work a new budget, by its id.
    retries: HashMap<String, Vec<DateTime<Utc>>>,
    commits: HashMap<String, DateTime<Utc>>,
    pub end: DateTime<Utc>,
}

/// A schedule, for as long as it was a trigger's.
#[derive(Debug, Clone)]
pub struct Interval {
    pub cron: String,
    pub enabled: bool,
    /// Due times after this one belong to it.
    pub after: DateTime<Utc>,
    /// Up to here it was evaluated.
    pub evaluated: DateTime<Utc>,
    /// The commit of the change that ended it.
    pub ended: DateTime<Utc>,
}

impl Seen {
    pub async fn read(world: &World) -> Self {
        let (app, all, up) = (&world.p.t.app, Scope::Everything, Direction::Ascending);
        let page = PageRequest { limit: 1_000_000, ..Default::default() };
        let occurrences = app.occurrences(all, &Default::default(), up, &page).await.unwrap();
        let deliveries = app.deliveries(all, &Default::default(), up, &page).await.unwrap();
        let sort = (Default::default(), up);
        let triggers = app.triggers(all, &Default::default(), sort, &page).await.unwrap();
        let audit = app.audit_logs(all, &Default::default(), &page).await.unwrap();
        let audit: Vec<_> = audit.rows.into_iter().rev().map(|(_, row)| row).collect();
        let actions = world.p.actions().await;
        let deliveries: Vec<_> = deliveries.rows.into_iter().map(|(_, row)| row).collect();
        let ids = deliveries.iter().map(|row| row.id).chain(actions.iter().map(|row| row.id));
        let attempts = app.attempts_of(&ids.collect::<Vec<_>>()).await.unwrap();
        let mut seen = Self {
            occurrences: occurrences.rows.into_iter().map(|(_, row)| row).collect(),
            deliveries,
            actions,
            attempts,
            triggers: triggers.rows.into_iter().map(|(_, row)| row).collect(),
            requests: world.s.requests.all(),
            retries: HashMap::new(),
            commits: world.s.commits.clone(),
            end: world.s.time,
            audit,
        };
        let mut retries = HashMap::<_, Vec<_>>::new();
        for row in seen.retry_rows() {
            let at = seen.committed(row);
            retries.entry(row.entity_id.to_string()).or_default().push(at);
        }
        seen.retries = retries;
        seen
    }

    /// What the audit log says of retries.
    pub fn retry_rows(&self) -> impl Iterator<Item = &AuditLog> {
        let actions = ["delivery.retry", "scheduled_action.retry"];
        self.audit.iter().filter(move |row| actions.contains(&row.action.as_str()))
    }

    /// When people have given that work a new budget.
    pub fn retries(&self, id: &str) -> &[DateTime<Utc>] {
        self.retries.get(id).map_or(&[], Vec::as_slice)
    }

    /// When a change was committed.
    pub fn committed(&self, change: &AuditLog) -> DateTime<Utc> {
        let known = change.request_id.as_ref().and_then(|name| self.commits.get(name));
        known.copied().unwrap_or(change.at)
    }

    /// The changes of each trigger.
    pub fn changes(&self) -> BTreeMap<String, Vec<&AuditLog>> {
        let mut changes = BTreeMap::<_, Vec<_>>::new();
        let of_triggers = self.audit.iter().filter(|row| row.entity_type == "trigger");
        for row in of_triggers.filter(|row| !BESIDE.contains(&row.action.as_str())) {
            changes.entry(row.entity_id.to_string()).or_default().push(row);
        }
        changes
    }

    /// What each trigger's schedule was, and when.
    pub fn intervals(&self) -> BTreeMap<String, Vec<Interval>> {
        self.changes().into_iter().map(|(id, changes)| (id, self.intervals_of(&changes))).collect()
    }

    fn intervals_of(&self, changes: &[&AuditLog]) -> Vec<Interval> {
        let mut intervals = Vec::<Interval>::new();
        for change in changes {
            if !starts_window(change) {
                continue;
            }
            if let (Some(last), Some(before)) = (intervals.last_mut(), &change.before) {
                last.evaluated = instant(&before["evaluatedAt"]);
                last.ended = self.committed(change);
            }
            let Some(after) = &change.after else { continue };
            intervals.push(Interval {
                cron: after["cronExpression"].as_str().unwrap().to_owned(),
                enabled: after["enabled"] == true,
                after: instant(&after["evaluatedAt"]),
                evaluated: self.end,
                ended: self.end + Duration::days(1),
            });
        }
        intervals
    }

    /// The requests of each delivery, in the order of their arrival.
    pub fn by_delivery(&self) -> BTreeMap<&str, Vec<&Request>> {
        let mut requests = BTreeMap::<_, Vec<_>>::new();
        for request in &self.requests {
            requests.entry(request.id.as_str()).or_default().push(request);
        }
        requests
    }
}

/// Rows about a trigger that leave it as it is.
const BESIDE: [&str; 2] = ["trigger.run", "trigger.cancel_rest"];

/// Whether a change makes other instants due than before.
fn starts_window(change: &AuditLog) -> bool {
    let of = |state: &Option<Value>| {
        let state = state.as_ref()?;
        Some(["cronExpression", "timeZone", "enabled"].map(|name| state[name].clone()))
    };
    of(&change.before) != of(&change.after)
}

pub fn instant(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}
