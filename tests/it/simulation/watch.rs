//! What must be true after every commit, whoever made it. At the end of a simulation much of it
//! can't be seen any more: what was done too early is done then.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Duration, Utc};
use sea_orm::{ConnectionTrait, QueryResult, Statement};
use uuid::Uuid;

use super::fan_out::Fanned;
use super::world::{SKEW, World};

/// What is broken, and by which row. A claim leaves the due time as it was and writes down when it
/// was made.
const ALWAYS: &str = "
    SELECT 'it was claimed before it was due' AS what, id FROM scheduled_action
    WHERE status = 'processing' AND execute_at > updated_at
    UNION ALL
    SELECT 'nobody works on it, and yet somebody may finish it', id FROM scheduled_action
    WHERE status <> 'processing' AND lease_token IS NOT NULL
    UNION ALL
    SELECT 'somebody works on it, and nobody may finish it', id FROM scheduled_action
    WHERE status = 'processing' AND (lease_token IS NULL OR lease_until IS NULL)
    UNION ALL
    SELECT 'it has ended, and not its deliveries', o.id FROM scheduled_action a
        JOIN trigger_occurrence o ON o.id = a.trigger_occurrence_id
    WHERE a.status IN ('pending', 'processing') AND o.status <> 'pending'";

/// As [`ALWAYS`], but it takes more time, and is asked less often.
const COUNTERS: &str = "
    SELECT 'it counts otherwise than its deliveries' AS what, o.id FROM trigger_occurrence o
        LEFT JOIN scheduled_action a ON a.trigger_occurrence_id = o.id
    WHERE o.status <> 'cancelled'
    GROUP BY o.id, o.delivered, o.failed
    HAVING o.delivered <> count(CASE WHEN a.status = 'completed' THEN 1 END)
        OR o.failed <> count(CASE WHEN a.status IN ('failed', 'cancelled', 'expired') THEN 1 END)";

const EVALUATED: &str = "SELECT id FROM event WHERE status <> 'pending'";
const WINDOWS: &str = "SELECT id, enabled, version, evaluated_at FROM trigger_rule
    WHERE evaluated_at IS NOT NULL";
const HELD: &str = "SELECT id, lease_until FROM scheduled_action WHERE status = 'processing'";
const CLAIMED: &str = "SELECT id, retry_count, lease_token FROM scheduled_action
    WHERE status = 'processing' AND lease_token IS NOT NULL";

/// What is recorded only, and the policy of its trigger. Asked after each commit, it is the policy that was
/// in force.
const SKIPPED: &str = "SELECT o.id, t.catch_up FROM trigger_occurrence o
        JOIN \"trigger\" t ON t.id = o.trigger_id
    WHERE o.status = 'skipped'";

/// From where to where windows were moved, by rule.
pub type Moves = BTreeMap<Uuid, Vec<(DateTime<Utc>, DateTime<Utc>)>>;

/// When things were seen for the first time, which no row tells.
#[derive(Default)]
pub struct Times {
    /// That an event was evaluated: its row names the time at which the evaluation began.
    pub evaluated: HashMap<Uuid, DateTime<Utc>>,
    /// That work was claimed for the attempt after so many.
    pub claimed: HashMap<(Uuid, i32), Vec<DateTime<Utc>>>,
    /// How passes have moved the windows of time-based rules.
    pub moved: Moves,
    /// The policies by which due times were recorded only, by occurrence.
    pub policies: HashMap<Uuid, String>,
    pub(super) fanned: Fanned,
    windows: HashMap<Uuid, Window>,
    leases: HashSet<(Uuid, Uuid)>,
}

/// How far a rule is evaluated.
#[derive(Clone, Copy, PartialEq)]
struct Window {
    enabled: bool,
    version: i64,
    evaluated_at: DateTime<Utc>,
}

impl Times {
    /// Only who evaluates a rule moves its window, and who enables or disables it begins it anew.
    fn see(&mut self, rule: Uuid, window: Window) {
        let Some(before) = self.windows.insert(rule, window) else { return };
        let (from, to) = (before.evaluated_at, window.evaluated_at);
        if from == to || before.enabled != window.enabled {
            return;
        }
        assert_eq!(before.version, window.version, "an edit moved the window of rule {rule}");
        assert!(from < to, "the window of rule {rule} went back from {from} to {to}");
        self.moved.entry(rule).or_default().push((from, to));
    }
}

impl World {
    /// Looks on after a commit.
    pub(super) async fn watch(&mut self) {
        self.hold(ALWAYS).await;
        for row in self.rows(EVALUATED).await {
            self.times.evaluated.entry(row.try_get("", "id").unwrap()).or_insert(self.s.time);
        }
        for row in self.rows(WINDOWS).await {
            let window = Window {
                enabled: row.try_get("", "enabled").unwrap(),
                version: row.try_get("", "version").unwrap(),
                evaluated_at: row.try_get("", "evaluated_at").unwrap(),
            };
            self.times.see(row.try_get("", "id").unwrap(), window);
        }
        for row in self.rows(SKIPPED).await {
            let policy = row.try_get("", "catch_up").unwrap();
            self.times.policies.entry(row.try_get("", "id").unwrap()).or_insert(policy);
        }
        self.watch_fan_out().await;
        for row in self.rows(CLAIMED).await {
            let id: Uuid = row.try_get("", "id").unwrap();
            let lease = (id, row.try_get("", "lease_token").unwrap());
            if self.times.leases.insert(lease) {
                let claimed = (id, row.try_get("", "retry_count").unwrap());
                self.times.claimed.entry(claimed).or_default().push(self.s.time);
            }
        }
    }

    /// Counts, when nobody can go on. What was held before the round and had ended then, some executor has
    /// taken back, if one became idle in the round.
    pub(super) async fn count(&self) {
        self.hold(COUNTERS).await;
        let Some(began) = self.idle_since else { return };
        for row in self.rows(HELD).await {
            let until: DateTime<Utc> = row.try_get("", "lease_until").unwrap();
            let id: Uuid = row.try_get("", "id").unwrap();
            assert!(until > began - Duration::milliseconds(SKEW), "held since {until}: {id}");
        }
    }

    async fn hold(&self, broken: &str) {
        if let Some(row) = self.rows(broken).await.first() {
            let (what, id): (String, Uuid) =
                (row.try_get("", "what").unwrap(), row.try_get("", "id").unwrap());
            panic!("{what}: {id}");
        }
    }

    pub(super) async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let db = self.p.t.app.store.read();
        let statement = Statement::from_string(db.get_database_backend(), sql);
        db.query_all_raw(statement).await.unwrap()
    }
}
