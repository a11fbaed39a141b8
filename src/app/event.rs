//! How events come in: from the machine API and from the outbox of another database. (LINE's
//! webhook has a file of its own.)

mod check;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use sea_orm::ConnectionTrait;
use serde_json::json;

pub use self::check::{EventWords, NewEvent};
pub(super) use self::check::{
    Sender, event as checked_event, event_type, instant, payload as checked_payload, within_range,
};
use super::App;
use crate::domain::access::{Actor, Role};
use crate::domain::audit::{Caller, Change};
use crate::domain::event::{Event, EventOrigin};
use crate::domain::id::{EventId, LineOaId};
use crate::domain::line::LineOa;
use crate::error::{Error, Result};
use crate::store::{event, line};

/// The most events of one request.
pub const EVENTS_MAX: usize = 1000;

/// What became of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvents {
    /// How many were stored.
    pub accepted: usize,
    /// The sender's ids of those that were stored before, in the order given.
    pub duplicates: Vec<String>,
}

/// Why no event of a request was stored.
#[derive(Debug)]
pub struct RefusedEvents {
    /// Which one is the first that does not fit, counted from 0; none if it is about all of them.
    pub at: Option<usize>,
    /// Why, with a path below the event.
    pub error: Error,
}

impl From<Error> for RefusedEvents {
    fn from(error: Error) -> Self {
        Self { at: None, error }
    }
}

impl App {
    /// Stores 1 to [`EVENTS_MAX`] events, all or none, and the users that they name as known. When
    /// this answers, they are committed. An event whose id its LINE OA has already is a duplicate:
    /// nothing happens, and a request of nothing else leaves no audit row.
    ///
    /// A machine user may name the LINE OAs of its application's project; others need the
    /// maintainer role there.
    ///
    /// # Errors
    /// `NOT_FOUND` for a LINE OA that the caller may not name; `FORBIDDEN`; `UNKNOWN_EVENT_TYPE`;
    /// `INVALID` with a path in `words`, or on `events` for their number.
    pub async fn receive_events(
        &self,
        caller: &Caller,
        new: Vec<NewEvent>,
        words: &'static EventWords,
    ) -> Result<ReceivedEvents, RefusedEvents> {
        if new.is_empty() || new.len() > EVENTS_MAX {
            let reason = format!("events must be 1 to {EVENTS_MAX}, they are {}", new.len());
            return Err(Error::invalid("events", reason).into());
        }
        let sender = Sender { words, origin: EventOrigin::Api, now: self.now() };
        let mut line_oas = HashMap::new();
        let mut events = Vec::with_capacity(new.len());
        for (at, new) in new.into_iter().enumerate() {
            let refused = |error| RefusedEvents { at: Some(at), error };
            let named = self.named(&caller.actor, &new, &sender, &mut line_oas);
            let line_oa = named.await.map_err(refused)?;
            events.push(checked_event(new, line_oa, &sender).map_err(refused)?);
        }
        Ok(self.store_events(caller, events).await?)
    }

    /// Stores what the outbox of another database holds: rows by their number there. That database
    /// is trusted by configuration with every LINE OA. Answers which rows can't be events and why;
    /// all others are stored, now or before, when this answers. It is bookkeeping of the system:
    /// there are no audit rows.
    ///
    /// # Errors
    /// Only what may pass: no row was stored, and all are to be handed in again.
    pub async fn receive_outbox(&self, rows: Vec<(i64, NewEvent)>) -> Result<Vec<(i64, String)>> {
        let now = self.now();
        let sender = Sender { words: &EventWords::OUTBOX, origin: EventOrigin::Postgres, now };
        let (mut line_oas, mut events) = (HashMap::new(), Vec::with_capacity(rows.len()));
        let mut refused = Vec::new();
        for (row, new) in rows {
            let named = self.named(&Actor::System, &new, &sender, &mut line_oas).await;
            match named.and_then(|line_oa| checked_event(new, line_oa, &sender)) {
                Ok(event) => events.push(event),
                Err(error @ (Error::Invalid { .. } | Error::NotFound { .. })) => {
                    refused.push((row, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        let events = first_of_each(events).0;
        let tx = self.store.begin().await?;
        let stored = event::insert(&*tx, &events).await?;
        if !stored.is_empty() {
            line::seen(&*tx, &users(&events, &stored), now).await?;
            tx.commit_unaudited().await?;
            self.wake.hint();
        }
        self.count_received(&events, &stored, 0);
        Ok(refused)
    }

    /// The LINE OA that an event names, if `actor` may send it events; looked up once.
    async fn named<'a>(
        &self,
        actor: &Actor,
        new: &NewEvent,
        sender: &Sender,
        known: &'a mut HashMap<LineOaId, LineOa>,
    ) -> Result<&'a LineOa> {
        let id = check::given(sender.words.line_oa_id, new.line_oa_id.clone())?;
        let id = LineOaId::parse(&id)?;
        match known.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let db = self.store.read();
                let line_oa = line::find(db, actor.scope(), id).await?;
                self.may_send_events(db, actor, &line_oa).await?;
                Ok(unknown.insert(line_oa))
            }
        }
    }

    /// Its project's machine users and maintainers may. The LINE OA was found in the actor's scope.
    async fn may_send_events(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        line_oa: &LineOa,
    ) -> Result<()> {
        match actor {
            Actor::Machine { project_id, .. } if *project_id == line_oa.organization_id => Ok(()),
            _ => self.require(db, actor, line_oa.organization_id, Role::Maintainer).await,
        }
    }

    /// A LINE OA that is deleted meanwhile leaves its events without rules; they go when their time is
    /// up.
    async fn store_events(&self, caller: &Caller, events: Vec<Event>) -> Result<ReceivedEvents> {
        let now = self.now();
        let ids: Vec<_> = events.iter().map(|event| (event.id, event.event_id.clone())).collect();
        let (events, repeated) = first_of_each(events);
        let tx = self.store.begin().await?;
        let stored = event::insert(&*tx, &events).await?;
        if !stored.is_empty() {
            line::seen(&*tx, &users(&events, &stored), now).await?;
            let received = received(&caller.actor, &events, &stored, ids.len());
            tx.commit(caller, now, &[received]).await?;
            self.wake.hint();
        }
        self.count_received(&events, &stored, repeated);
        let duplicates = ids.into_iter().filter(|(id, _)| !stored.contains(id));
        let duplicates = duplicates.map(|(_, event_id)| event_id).collect();
        Ok(ReceivedEvents { accepted: stored.len(), duplicates })
    }

    /// Counts events once they are committed. `repeated` more were duplicates.
    pub(super) fn count_received(
        &self,
        events: &[Event],
        stored: &HashSet<EventId>,
        repeated: usize,
    ) {
        let Some(origin) = events.first().map(|event| event.origin.as_str()) else { return };
        for (kind, count) in types(events, stored) {
            self.metrics.events_received(kind, origin, count);
        }
        let duplicates = events.len() - stored.len() + repeated;
        self.metrics.events_duplicate(origin, duplicates as u64);
    }
}

/// Events without those that stand in the list once more, and how many these are.
fn first_of_each(events: Vec<Event>) -> (Vec<Event>, usize) {
    let mut seen = HashSet::new();
    let total = events.len();
    let mut events = events;
    events.retain(|event| seen.insert((event.line_oa_id, event.event_id.clone())));
    let repeated = total - events.len();
    (events, repeated)
}

/// The users whom stored events are about.
fn users<'a>(events: &'a [Event], stored: &HashSet<EventId>) -> Vec<(LineOaId, &'a str)> {
    let events = events.iter().filter(|event| stored.contains(&event.id));
    events.filter_map(|event| Some((event.line_oa_id, event.user_id.as_deref()?))).collect()
}

fn types<'a>(events: &'a [Event], stored: &HashSet<EventId>) -> BTreeMap<&'a str, u64> {
    let mut types = BTreeMap::new();
    for event in events.iter().filter(|event| stored.contains(&event.id)) {
        *types.entry(event.event_type.as_str()).or_default() += 1;
    }
    types
}

/// The audit row of a request: about the first event that was stored, of `sent` ones.
fn received(actor: &Actor, events: &[Event], stored: &HashSet<EventId>, sent: usize) -> Change {
    let first = events.iter().find(|event| stored.contains(&event.id));
    let application_id = match actor {
        Actor::Machine { application_id, .. } => Some(*application_id),
        _ => None,
    };
    Change {
        action: "event.receive",
        entity_type: "event",
        entity_id: first.map(|event| event.id.0).unwrap_or_default(),
        project_id: first.map(|event| event.organization_id),
        application_id,
        before: None,
        after: Some(json!({
            "lineOaId": first.map(|event| event.line_oa_id),
            "count": stored.len(),
            "duplicates": sent - stored.len(),
            "types": types(events, stored),
        })),
    }
}
