//! Who is called of what is due: as a commit leaves it behind, each backend that was active then and no other.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::world::World;

/// A backend without a heartbeat for this long is not called; what the simulation's settings say too.
const HEARTBEAT_TIMEOUT: Duration = Duration::seconds(60);

/// Ids rise, so what is new is what comes after the last. Nobody is between the beginning and the end of another
/// transaction: the backends are as the one saw them that was committed.
const DELIVERIES: &str = "SELECT id, trigger_occurrence_id AS occurrence, backend_id, created_at
    FROM scheduled_action WHERE trigger_occurrence_id IS NOT NULL";
const WAITING: &str = "SELECT id, created_at FROM trigger_occurrence
    WHERE status = 'pending' AND deliveries = 0 AND fan_out_attempts = 1";
const BACKENDS: &str = "SELECT id, last_heartbeat_at FROM backend_registration
    WHERE deactivated_at IS NULL";

/// What was seen of it.
#[derive(Default)]
pub struct Fanned {
    deliveries: BTreeSet<Uuid>,
    waiting: BTreeSet<Uuid>,
}

/// When occurrences were fanned out, and to whom.
type New = BTreeMap<Uuid, (DateTime<Utc>, BTreeSet<Uuid>)>;

impl World {
    /// Looks at what the last commit has fanned out.
    pub(super) async fn watch_fan_out(&mut self) {
        let mut new = New::new();
        for row in self.rows(DELIVERIES).await {
            if self.times.fanned.deliveries.insert(row.try_get("", "id").unwrap()) {
                let at = row.try_get("", "created_at").unwrap();
                let occurrence = row.try_get("", "occurrence").unwrap();
                let (_, backends) = new.entry(occurrence).or_insert((at, BTreeSet::new()));
                backends.insert(row.try_get("", "backend_id").unwrap());
            }
        }
        for row in self.rows(WAITING).await {
            let id = row.try_get("", "id").unwrap();
            if self.times.fanned.waiting.insert(id) {
                new.insert(id, (row.try_get("", "created_at").unwrap(), BTreeSet::new()));
            }
        }
        if new.is_empty() {
            return;
        }
        let backends = self.rows(BACKENDS).await.into_iter().map(|row| {
            let heartbeat: DateTime<Utc> = row.try_get("", "last_heartbeat_at").unwrap();
            (row.try_get::<Uuid>("", "id").unwrap(), heartbeat)
        });
        let backends: BTreeMap<_, _> = backends.collect();
        for (occurrence, (at, called)) in new {
            let active = backends.iter().filter(|(_, last)| **last >= at - HEARTBEAT_TIMEOUT);
            let active: BTreeSet<_> = active.map(|(id, _)| *id).collect();
            assert_eq!(called, active, "occurrence {occurrence} goes to others than are active");
        }
    }
}
