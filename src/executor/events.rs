//! The event pass: what happened meets the rules that could wait for it.
//!
//! One transaction takes a batch of stored events, evaluates them, takes the right to fire, queues
//! the work, writes the log and marks the events as processed. A crash undoes all of it, and the
//! events are evaluated again; nothing is queued twice.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::firing::{By, Candidate, Fate, SubjectState};
use super::{BATCH, Executor, whole};
use crate::domain::event::Event;
use crate::domain::id::{EventId, LineOaId};
use crate::domain::line::LineUser;
use crate::error::{Error, Result};
use crate::rules::{CompiledRule, Occasion, evaluate};
use crate::sources::{self, ParsedPayload};
use crate::store::event::{self, Processed};
use crate::store::supersede::{Subject, Superseded, supersede};
use crate::store::{Engine, Tx, line};

/// After so many failures in a row a batch of one has failed often enough.
const HOPELESS: u32 = 12;

/// How many full batches are evaluated beside each other on PostgreSQL. SQLite has one writer.
const BESIDE: usize = 2;

/// What an event pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventReport {
    /// Events evaluated.
    pub events: usize,
    /// Actions queued.
    pub queued: usize,
}

/// What a batch came to.
struct Evaluated {
    events: usize,
    /// The type of each event that a rule accepted.
    matched: Vec<String>,
    fates: Vec<Fate>,
}

impl Add for EventReport {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { events: self.events + other.events, queued: self.queued + other.queued }
    }
}

/// An event whose payload was read.
struct Met<'a> {
    event: &'a Event,
    payload: ParsedPayload,
}

type Found = Vec<Arc<CompiledRule>>;

impl Executor {
    /// Evaluates stored events, one batch of them, oldest first; on PostgreSQL, where one waits for
    /// the database most of the time, two batches beside each other as long as they are full.
    ///
    /// After each failure in a row the batch is half as large, so that one event that can't be
    /// evaluated, for whatever reason, ends up alone; it is then recorded as failed, and the others
    /// go on.
    pub async fn take_events(&self, now: DateTime<Utc>) -> Result<EventReport> {
        // Counted before, since a step that takes too long is dropped.
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let limit = BATCH.checked_shr(failures).unwrap_or_default().max(1);
        let one = || self.evaluate_some(now, limit, failures >= HOPELESS);
        let report = if failures == 0 && self.events_wait.load(Ordering::Relaxed) {
            let all = (0..BESIDE).map(|_| one());
            let all = join_all(all).await.into_iter().collect::<Result<Vec<_>>>()?;
            all.into_iter().fold(EventReport::default(), EventReport::add)
        } else {
            one().await?
        };
        self.failures.store(0, Ordering::Relaxed);
        let full = report.events as u64 >= BATCH && self.app.store.engine() == Engine::Postgres;
        self.events_wait.store(full, Ordering::Relaxed);
        Ok(report)
    }

    /// Evaluates up to `limit` events, all or none; those of a hopeless batch are recorded as
    /// failed when it fails once more, unless the database is what fails.
    async fn evaluate_some(
        &self,
        now: DateTime<Utc>,
        limit: u64,
        hopeless: bool,
    ) -> Result<EventReport> {
        let tx = self.app.store.begin().await?;
        let events = event::pending(&*tx, limit).await?;
        if events.is_empty() {
            return Ok(EventReport::default());
        }
        let now = self.since(now);
        if hopeless {
            tx.set_savepoint().await?;
        }
        match whole(self.evaluate_all(&tx, &events, now)).await {
            Ok(evaluated) => {
                tx.commit_unaudited().await?;
                Ok(self.count_events(&evaluated))
            }
            Err(error) if hopeless && !matches!(error, Error::Busy) => {
                tx.back_to_savepoint().await?;
                give_up(tx, &events, &error, now).await
            }
            Err(error) => {
                // Waited for, so that the next batch begins with the same events. If it fails, so
                // does the connection, and then its transaction has ended.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    async fn evaluate_all(
        &self,
        tx: &Tx,
        events: &[Event],
        now: DateTime<Utc>,
    ) -> Result<Evaluated> {
        let (met, mut processed) = read(events);
        let candidates = self.meet(tx, &met, now).await?;
        let fates = self.fire(tx, &candidates, now).await?;
        let mut matched = HashMap::<EventId, i32>::new();
        for (candidate, fate) in candidates.iter().zip(&fates) {
            if let (Some(event), Fate::Queued) = (candidate.by.event_id(), fate) {
                *matched.entry(event).or_default() += 1;
            }
        }
        processed.extend(met.iter().map(|met| Processed {
            id: met.event.id,
            matched: matched.get(&met.event.id).copied().unwrap_or_default(),
            error: None,
        }));
        event::processed(&**tx, &processed, now).await?;
        let met = met.iter().filter(|met| matched.contains_key(&met.event.id));
        let matched = met.map(|met| met.event.event_type.clone()).collect();
        Ok(Evaluated { events: processed.len(), matched, fates })
    }

    /// Evaluates each event for each rule that could wait for it.
    async fn meet(&self, tx: &Tx, met: &[Met<'_>], now: DateTime<Utc>) -> Result<Vec<Candidate>> {
        let events: Vec<_> = met.iter().map(|met| met.event).collect();
        let about: Vec<_> =
            events.iter().copied().filter(|event| event.subject.is_some()).collect();
        event::hold_subjects(tx, &about).await?;
        let stale = event::stale(&**tx, &about).await?;
        // The later event takes back what waits because of any earlier one.
        let latest: Vec<_> = about.into_iter().filter(|event| !stale.contains(&event.id)).collect();
        let replaced = supersede(&**tx, &subjects(&latest), now).await?;
        // After the work: whoever changes rules takes them in this order.
        let line_oas: BTreeSet<_> = met.iter().map(|met| met.event.line_oa_id).collect();
        let rulebook = self.rulebook.read(tx, line_oas).await?;
        let found: Vec<Found> = met
            .iter()
            .map(|Met { event, payload }| match rulebook.get(&event.line_oa_id) {
                Some(rules) => rules.candidates(&event.event_type, &payload.keys),
                None => Vec::new(),
            })
            .map(|found| found.into_iter().cloned().collect())
            .collect();
        let users = users(tx, met, &found).await?;
        let mut candidates = Vec::new();
        for (Met { event, payload }, rules) in met.iter().zip(found) {
            let user = event.user_id.clone().map(|user| (event.line_oa_id, user));
            let user = user.and_then(|user| users.get(&user));
            let occasion = Occasion::new(event, payload, user, now, &self.app.zone);
            for rule in rules {
                let subject = match &event.subject {
                    Some(_) if stale.contains(&event.id) => SubjectState::Stale,
                    Some(subject) => {
                        let user_id = event.user_id.clone();
                        let one =
                            Superseded { rule_id: rule.rule.id, subject: subject.clone(), user_id };
                        match replaced.contains(&one) {
                            true => SubjectState::Replaces,
                            false => SubjectState::Free,
                        }
                    }
                    _ => SubjectState::Free,
                };
                candidates.push(Candidate {
                    outcome: evaluate(&rule, &occasion).outcome,
                    rule,
                    user_id: event.user_id.clone(),
                    by: By::Event(event.id),
                    subject,
                });
            }
        }
        Ok(candidates)
    }

    fn count_events(&self, evaluated: &Evaluated) -> EventReport {
        let Evaluated { events, matched, fates } = evaluated;
        for event_type in matched {
            self.app.metrics.events_matched(event_type, 1);
        }
        self.count_fates(fates);
        if !fates.is_empty() {
            self.app.live.hint();
        }
        let queued = fates.iter().filter(|fate| **fate == Fate::Queued).count();
        EventReport { events: *events, queued }
    }

    pub(super) fn count_fates(&self, fates: &[Fate]) {
        let kinds =
            [(Fate::Queued, "queued"), (Fate::HeldBack, "held_back"), (Fate::Failed, "failed")];
        for (kind, name) in kinds {
            let count = fates.iter().filter(|fate| **fate == kind).count() as u64;
            self.app.metrics.rules_evaluated(name, count);
        }
    }
}

/// Records that `events` can't be evaluated.
async fn give_up(
    tx: Tx,
    events: &[Event],
    error: &Error,
    now: DateTime<Utc>,
) -> Result<EventReport> {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "an event can't be evaluated, and is recorded as failed"
    );
    let why = "it could not be evaluated; the server's log says why";
    let failed: Vec<_> = events
        .iter()
        .map(|event| Processed { id: event.id, matched: 0, error: Some(why.to_owned()) })
        .collect();
    event::processed(&*tx, &failed, now).await?;
    tx.commit_unaudited().await?;
    Ok(EventReport { events: failed.len(), queued: 0 })
}

/// Reads the payloads. An event that can't be read has failed; a second event about a subject is
/// left for the next batch, so that it finds what the first one has queued.
fn read(events: &[Event]) -> (Vec<Met<'_>>, Vec<Processed>) {
    let (mut met, mut failed) = (Vec::new(), Vec::new());
    let mut subjects = HashSet::new();
    for event in events {
        if let Some(subject) = &event.subject
            && !subjects.insert((event.line_oa_id, subject))
        {
            continue;
        }
        let source = sources::find(&event.event_type).map_err(|error| error.to_string());
        let payload = source.and_then(|source| {
            source.parse_payload(&event.payload).map_err(|misfit| misfit.to_string())
        });
        match payload {
            Ok(payload) => met.push(Met { event, payload }),
            Err(error) => failed.push(Processed { id: event.id, matched: 0, error: Some(error) }),
        }
    }
    (met, failed)
}

fn subjects(events: &[&Event]) -> Vec<Subject> {
    let subjects = events.iter().filter_map(|event| {
        Some(Subject {
            line_oa_id: event.line_oa_id,
            subject: event.subject.clone()?,
            occurred_at: event.occurred_at,
        })
    });
    subjects.collect()
}

/// The users of events that meet a rule.
async fn users(
    tx: &Tx,
    met: &[Met<'_>],
    found: &[Found],
) -> Result<HashMap<(LineOaId, String), LineUser>> {
    let wanted: BTreeSet<_> = met
        .iter()
        .zip(found)
        .filter(|(_, rules)| !rules.is_empty())
        .filter_map(|(met, _)| Some((met.event.line_oa_id, met.event.user_id.clone()?)))
        .collect();
    let wanted: Vec<_> = wanted.into_iter().collect();
    let users = line::users_by_ids(&**tx, &wanted).await?;
    Ok(users.into_iter().map(|user| ((user.line_oa_id, user.user_id.clone()), user)).collect())
}
