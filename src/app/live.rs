//! The live tail: what the executors record, as it happens, wherever they run.
//!
//! The trigger log is the feed. While somebody watches, one task a process reads what was added
//! to it, twice a second or as soon as an executor of this process hints, and tells all who
//! watch. Rows of other processes arrive by the same way, only later.
//!
//! Numbers of the log are given before the commit, so a smaller one may appear after a greater
//! one. The reader therefore looks back [`LOOK_BACK`] numbers each time and remembers which of
//! them it has told. A row that commits later than that many after it is not told; the log itself
//! always has it. This is a tail, not a queue: who is slow misses something, and nobody waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::App;
use crate::domain::access::Scope;
use crate::domain::delivery::Delivery;
use crate::domain::id::{ApplicationId, LineOaId};
use crate::domain::trigger::Occurrence;
use crate::domain::trigger_log::TriggerLog;
use crate::error::Result;
use crate::store::log::{self, Entry};
use crate::store::{Store, application, delivery, line, trigger, trigger_log};

/// How many numbers before the last one may still appear.
const LOOK_BACK: i64 = 500;
/// How many rows one look reads.
const ROWS: u64 = 2_500;
/// How long a look waits for a hint.
const EVERY: Duration = Duration::from_millis(500);
/// How close two looks may follow each other, however many hints there are.
const GAP: Duration = Duration::from_millis(20);
/// How many looks a slow watcher may lag behind.
const BACKLOG: usize = 256;

type Batch = Arc<[Entry]>;

/// The tail of this process. A clone is the same tail.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

struct Shared {
    store: Store,
    hint: Notify,
    sender: broadcast::Sender<Batch>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

impl Live {
    /// A tail of `store`'s log. Reads nothing until somebody watches.
    pub fn new(store: Store) -> Self {
        let (sender, _) = broadcast::channel(BACKLOG);
        let shared = Shared { store, hint: Notify::new(), sender, reader: Mutex::default() };
        Self(Arc::new(shared))
    }

    /// The log of this database has grown. Costs nothing; call it after the commit.
    pub fn hint(&self) {
        self.0.hint.notify_one();
    }

    /// How many watch in this process.
    pub fn watchers(&self) -> usize {
        self.0.sender.receiver_count()
    }

    async fn subscribe(&self) -> Result<broadcast::Receiver<Batch>> {
        let mut reader = self.0.reader.lock().await;
        let receiver = self.0.sender.subscribe();
        if reader.as_ref().is_none_or(JoinHandle::is_finished) {
            let tail = Tail::begin(&self.0.store).await?;
            *reader = Some(tokio::spawn(read(Arc::clone(&self.0), tail)));
        }
        Ok(receiver)
    }
}

/// Reads until nobody watches any more.
async fn read(shared: Arc<Shared>, mut tail: Tail) {
    let (mut every, mut gap) = (interval(EVERY), interval(GAP));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    gap.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = shared.hint.notified() => {}
        }
        gap.tick().await;
        if shared.sender.receiver_count() == 0 {
            // Whoever begins to watch holds the lock, so nobody is left without a reader.
            let mut reader = shared.reader.lock().await;
            if shared.sender.receiver_count() == 0 {
                *reader = None;
                return;
            }
        }
        match tail.look(&shared).await {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!(%error, "the live tail can't read the log"),
            Err(error) => {
                failing = true;
                tracing::warn!(?error, "the live tail can't read the log; it goes on trying");
            }
        }
    }
}

/// How far the log was read.
struct Tail {
    last: i64,
    told: HashSet<i64>,
}

impl Tail {
    /// A tail that tells what is added from now on.
    async fn begin(store: &Store) -> Result<Self> {
        let last = log::last(store.read()).await?;
        let rows = log::above(store.read(), last - LOOK_BACK, ROWS).await?;
        let told = rows.iter().map(|row| row.id).collect();
        Ok(Self { last: rows.last().map_or(last, |row| row.id.max(last)), told })
    }

    async fn look(&mut self, shared: &Shared) -> Result<()> {
        loop {
            let rows = log::above(shared.store.read(), self.last - LOOK_BACK, ROWS).await?;
            let full = rows.len() as u64 >= ROWS;
            let fresh = self.fresh(rows);
            if !fresh.is_empty() {
                // Fails when nobody watches, which is as good.
                let _ = shared.sender.send(fresh.into());
            }
            if !full {
                return Ok(());
            }
        }
    }

    fn fresh(&mut self, rows: Vec<Entry>) -> Vec<Entry> {
        self.last = rows.last().map_or(self.last, |row| row.id.max(self.last));
        let fresh = rows.into_iter().filter(|row| self.told.insert(row.id)).collect();
        let oldest = self.last - LOOK_BACK;
        self.told.retain(|id| *id > oldest);
        fresh
    }
}

/// What can be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The occurrences of an application, and their deliveries.
    Application(ApplicationId),
    /// What the rules of a LINE OA, and workflow services for its users, caused.
    LineOa(LineOaId),
}

impl Watched {
    fn concerns(self, row: &Entry) -> bool {
        match self {
            Self::Application(id) => row.occurrence_id.is_some() && row.application_id == Some(id),
            Self::LineOa(id) => row.line_oa_id == Some(id),
        }
    }
}

/// What happens from now on in what is watched.
pub struct Watch {
    receiver: broadcast::Receiver<Batch>,
    watched: Watched,
}

impl Watch {
    /// What was recorded since the last call, waiting for something to be. Never empty. None once the
    /// tail is gone, which it is not while the application lives: who watches is stopped otherwise. What
    /// a slow caller missed is left out. May be dropped at any time.
    pub async fn next(&mut self) -> Option<Vec<Entry>> {
        loop {
            match self.receiver.recv().await {
                Ok(batch) => {
                    let own = batch.iter().filter(|row| self.watched.concerns(row));
                    let own: Vec<_> = own.copied().collect();
                    if !own.is_empty() {
                        return Some(own);
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl App {
    /// Watches something in `scope`. What is recorded after the call returns is told.
    pub async fn watch(&self, scope: Scope, watched: Watched) -> Result<Watch> {
        self.may_watch(scope, watched).await?;
        Ok(Watch { receiver: self.live.subscribe().await?, watched })
    }

    /// Checks that it is in `scope`: `NOT_FOUND` otherwise. Machine users see no LINE OA.
    pub async fn may_watch(&self, scope: Scope, watched: Watched) -> Result<()> {
        let db = self.store.read();
        match watched {
            Watched::Application(id) => application::find(db, scope, id).await.map(|_| ()),
            Watched::LineOa(id) => line::shown(db, scope, id).await.map(|_| ()),
        }
    }

    /// The occurrences of `entries` that `scope` lets see, each once, in the entries' order.
    pub async fn watched_occurrences(
        &self,
        scope: Scope,
        entries: &[Entry],
    ) -> Result<Vec<Occurrence>> {
        let ids = distinct(entries.iter().filter_map(|entry| entry.occurrence_id));
        let mut rows = trigger::occurrences_by_ids(self.store.read(), scope, &ids).await?;
        let places = places(&ids);
        rows.sort_by_key(|row| places.get(&row.id));
        Ok(rows)
    }

    /// The deliveries of `entries` that `scope` lets see, each once, in the entries' order.
    pub async fn watched_deliveries(
        &self,
        scope: Scope,
        entries: &[Entry],
    ) -> Result<Vec<Delivery>> {
        let ids = distinct(entries.iter().filter_map(|entry| entry.action_id));
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = delivery::by_ids(self.store.read(), scope, &ids).await?;
        let places = places(&ids);
        rows.sort_by_key(|row| places.get(&row.id));
        Ok(rows)
    }

    /// The rows of the log that `entries` tell of and `scope` lets see, in their order.
    pub async fn watched_logs(&self, scope: Scope, entries: &[Entry]) -> Result<Vec<TriggerLog>> {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        let mut rows = trigger_log::find_all(self.store.read(), scope, &ids).await?;
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }
}

fn distinct<T: Copy + Eq + std::hash::Hash>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}

/// Where each stands in the list.
fn places<T: Copy + Eq + std::hash::Hash>(all: &[T]) -> HashMap<T, usize> {
    all.iter().enumerate().map(|(place, one)| (*one, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::OccurrenceId;

    fn rows(ids: &[i64]) -> Vec<Entry> {
        let row = |id: &i64| Entry {
            id: *id,
            application_id: Some(ApplicationId::new()),
            line_oa_id: None,
            occurrence_id: Some(OccurrenceId::new()),
            action_id: None,
        };
        ids.iter().map(row).collect()
    }

    fn numbers(entries: &[Entry]) -> Vec<i64> {
        entries.iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn a_row_is_told_once_also_when_it_appears_late() {
        let mut tail = Tail { last: 10, told: HashSet::from([9, 10]) };
        assert_eq!(numbers(&tail.fresh(rows(&[9, 10, 13]))), [13]);
        assert_eq!(numbers(&tail.fresh(rows(&[9, 10, 11, 12, 13]))), [11, 12]);
        assert!(tail.fresh(rows(&[9, 10, 11, 12, 13])).is_empty());
        assert_eq!(tail.last, 13);
    }

    #[test]
    fn who_watches_is_told_of_the_own_application_or_line_oa_only() {
        let (application, line_oa) = (ApplicationId::new(), LineOaId::new());
        let mut of_rule = rows(&[1]).remove(0);
        (of_rule.application_id, of_rule.line_oa_id) = (Some(application), Some(line_oa));
        of_rule.occurrence_id = None;
        let of_trigger = Entry { application_id: Some(application), ..rows(&[2]).remove(0) };
        let (by_application, by_line_oa) =
            (Watched::Application(application), Watched::LineOa(line_oa));
        assert_eq!(
            (by_application.concerns(&of_rule), by_line_oa.concerns(&of_rule)),
            (false, true)
        );
        assert!(by_application.concerns(&of_trigger) && !by_line_oa.concerns(&of_trigger));
        assert!(!Watched::LineOa(LineOaId::new()).concerns(&of_rule));
        assert!(!Watched::Application(ApplicationId::new()).concerns(&of_trigger));
    }

    #[test]
    fn what_lies_too_far_back_is_forgotten() {
        let mut tail = Tail { last: 0, told: HashSet::new() };
        tail.fresh(rows(&[1, 2, 600]));
        assert_eq!(tail.told, HashSet::from([600]));
    }
}
