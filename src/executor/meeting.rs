//! Events meet the rules that could wait for them.
//!
//! Evaluating is pure and holds up a transaction, and with it all others: what one event may cost
//! is bounded, and so is what a transaction takes in.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Executor;
use super::firing::{By, Candidate, SubjectState};
use crate::domain::event::Event;
use crate::domain::id::{EventId, LineOaId};
use crate::domain::line::LineUser;
use crate::error::Result;
use crate::rules::{CompiledRule, Occasion, Outcome, evaluate};
use crate::sources::{self, ParsedPayload};
use crate::store::event::{self, Processed};
use crate::store::supersede::{Subject, Superseded, supersede};
use crate::store::{Tx, line};

/// What the rules that wait for one event may cost together: so many steps of an interpreter, which
/// does about 8 million of them a second. Rules that come after that have failed.
const EVENT_COST_MAX: usize = 20_000_000;
/// A transaction takes in no more once it has cost so much.
pub(super) const BATCH_COST_MAX: usize = 20_000_000;
/// Nor once so many evaluations have come of it, each of which may leave a row.
const BATCH_CANDIDATES_MAX: usize = 5_000;
/// After an evaluation that costs so much, others have their turn on the thread.
const TURN_COST: usize = 200_000;

/// An event whose payload was read.
pub(super) struct Met<'a> {
    pub event: &'a Event,
    payload: ParsedPayload,
    /// Its place in the batch.
    place: usize,
}

/// The events of a batch cost too much together, or meet too many rules; the first `fit` do not.
pub(super) struct TooCostly {
    pub fit: usize,
}

type Found = Vec<Arc<CompiledRule>>;
type Stale = HashSet<EventId>;

impl Executor {
    /// Evaluates each event for each rule that could wait for it.
    pub(super) async fn meet(
        &self,
        tx: &Tx,
        (met, stale): (&[Met<'_>], &Stale),
        now: DateTime<Utc>,
    ) -> Result<Result<Vec<Candidate>, TooCostly>> {
        // The later event takes back what waits because of any earlier one.
        let latest = met.iter().map(|met| met.event).filter(|event| !stale.contains(&event.id));
        let replaced = supersede(&**tx, &subjects(latest), now).await?;
        // After the work: whoever changes rules takes them in this order.
        let line_oas: BTreeSet<_> = met.iter().map(|met| met.event.line_oa_id).collect();
        let rulebook = self.rulebook.read(tx, line_oas).await?;
        let found: Vec<Found> = met
            .iter()
            .map(|Met { event, payload, .. }| match rulebook.get(&event.line_oa_id) {
                Some(rules) => rules.candidates(&event.event_type, &payload.keys),
                None => Vec::new(),
            })
            .map(|found| found.into_iter().cloned().collect())
            .collect();
        let users = users(tx, met, &found).await?;
        let (mut candidates, mut spent) = (Vec::new(), 0);
        for (one, rules) in met.iter().zip(found) {
            if spent > BATCH_COST_MAX || candidates.len() >= BATCH_CANDIDATES_MAX {
                return Ok(Err(TooCostly { fit: one.place }));
            }
            let event = one.event;
            let user = event.user_id.clone().map(|user| (event.line_oa_id, user));
            let user = user.and_then(|user| users.get(&user));
            let (outcomes, cost) = self.outcomes(one, user, &rules, now);
            for (rule, outcome) in rules.into_iter().zip(outcomes) {
                let subject = state(event, rule.rule.id, stale, &replaced);
                let (user_id, by) = (event.user_id.clone(), By::Event(event.id));
                candidates.push(Candidate { rule, user_id, by, subject, outcome });
            }
            spent += cost;
            take_turns(cost).await;
        }
        Ok(Ok(candidates))
    }

    /// What comes of an event for each of `rules`, and what it cost.
    fn outcomes(
        &self,
        met: &Met<'_>,
        user: Option<&LineUser>,
        rules: &Found,
        now: DateTime<Utc>,
    ) -> (Vec<Outcome>, usize) {
        let occasion = Occasion::new(met.event, &met.payload, user, now, &self.app.zone);
        let mut spent = 0;
        let outcomes = rules.iter().map(|rule| {
            if spent > EVENT_COST_MAX {
                return too_costly();
            }
            let evaluated = evaluate(rule, &occasion);
            spent += evaluated.cost;
            evaluated.outcome
        });
        (outcomes.collect(), spent)
    }
}

/// Lets others have the thread after what cost a lot.
pub(super) async fn take_turns(cost: usize) {
    if cost > TURN_COST {
        tokio::task::yield_now().await;
    }
}

fn too_costly() -> Outcome {
    let message = "the rules before it that wait for the same event cost all that an event may \
                   cost; make their conditions and templates simpler"
        .to_owned();
    Outcome::Failed { reason: "too_costly", message }
}

fn state(
    event: &Event,
    rule_id: crate::domain::id::TriggerRuleId,
    stale: &Stale,
    replaced: &HashSet<Superseded>,
) -> SubjectState {
    let Some(subject) = event.subject.clone() else { return SubjectState::Free };
    if stale.contains(&event.id) {
        return SubjectState::Stale;
    }
    match replaced.contains(&Superseded { rule_id, subject, user_id: event.user_id.clone() }) {
        true => SubjectState::Replaces,
        false => SubjectState::Free,
    }
}

/// Reads the payloads. An event that can't be read has failed.
pub(super) fn read(events: &[Event]) -> (Vec<Met<'_>>, Vec<Processed>) {
    let (mut met, mut failed) = (Vec::new(), Vec::new());
    for (place, event) in events.iter().enumerate() {
        let source = sources::find(&event.event_type).map_err(|error| error.to_string());
        let payload = source.and_then(|source| {
            source.parse_payload(&event.payload).map_err(|misfit| misfit.to_string())
        });
        match payload {
            Ok(payload) => met.push(Met { event, payload, place }),
            Err(error) => failed.push(Processed { id: event.id, matched: 0, error: Some(error) }),
        }
    }
    (met, failed)
}

/// Holds the subjects of `met` and answers which of the events are stale: a later one about the
/// subject is stored. A stale one queues nothing, so any number of them go together. Of the
/// others, a second one about a subject is left for the next batch, so that it finds what the
/// first one has queued.
pub(super) async fn one_of_a_subject<'a>(
    tx: &Tx,
    met: Vec<Met<'a>>,
) -> Result<(Vec<Met<'a>>, Stale)> {
    let about: Vec<_> =
        met.iter().map(|met| met.event).filter(|event| event.subject.is_some()).collect();
    event::hold_subjects(tx, &about).await?;
    let stale = event::stale(&**tx, &about).await?;
    let mut seen = HashSet::new();
    let mut is_first = |event: &'a Event| match &event.subject {
        Some(subject) => seen.insert((event.line_oa_id, subject)),
        None => true,
    };
    let mut met = met;
    met.retain(|met| stale.contains(&met.event.id) || is_first(met.event));
    Ok((met, stale))
}

fn subjects<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Subject> {
    let subjects = events.filter_map(|event| {
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
