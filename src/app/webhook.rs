//! What LINE's webhook tells: who became a friend, who is one no more, and who is there.

use std::collections::HashSet;

use chrono::{DateTime, Duration, Utc};
use serde_json::json;

use super::App;
use super::event::{EventWords, NewEvent, Sender, checked_event};
use crate::domain::audit::{Caller, Change};
use crate::domain::event::{EVENT_ID_MAX, Event, EventOrigin};
use crate::domain::id::LineOaId;
use crate::domain::line::LineOa;
use crate::domain::rule::misfit::text;
use crate::error::{Error, Result};
use crate::line::webhook::{EventKind, Mode, WebhookEvent};
use crate::line::{signature, webhook};
use crate::store::line::{Standing, follow, seen, unfollow, users_by_ids};
use crate::store::{Tx, event};

/// Whatever is wrong: the same words, so that nobody learns which LINE OAs there are.
const REFUSED: &str =
    "x-line-signature must be the signature of this body, made with the LINE OA's channel secret";

/// A webhook as it came.
#[derive(Debug, Clone)]
pub struct IncomingWebhook<'a> {
    /// The LINE OA's id, as the path has it.
    pub line_oa_id: &'a str,
    /// The signature, base64, as the header has it; empty if there is none.
    pub signature: &'a [u8],
    /// The body, byte for byte.
    pub body: &'a [u8],
    /// The request's id.
    pub request_id: Option<String>,
}

/// An event of a user that is ours to act on.
struct Told<'a> {
    event: &'a WebhookEvent,
    user: &'a str,
    at: DateTime<Utc>,
}

/// What a webhook changed.
#[derive(Default)]
struct Changed {
    followed: usize,
    unfollowed: usize,
    new_users: u64,
    events: usize,
}

impl App {
    /// Takes a webhook in one transaction. A friend who came is a `friend_track_event_inserted`
    /// event with the platform's id; the state of friends follows, however late and how often the
    /// platform tells; everyone else who did something becomes known. Told once more, it changes
    /// nothing; what changes nothing leaves no audit row.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` for a wrong signature and for a LINE OA that is not there, in the same
    /// words; it leaves no trace but a metric. `INVALID` on `body` for a genuine one that is no
    /// JSON object.
    pub async fn receive_line_webhook(&self, incoming: IncomingWebhook<'_>) -> Result<()> {
        let Some(line_oa) = self.genuine(&incoming).await? else { return Err(self.refuse()) };
        let told = webhook::parse(incoming.body)?;
        if told.unreadable > 0 {
            tracing::debug!(line_oa = %line_oa.id, count = told.unreadable, "a webhook held what is no event");
        }
        let now = self.now();
        let told = ours(&told.events, now);
        let caller = Caller { request_id: incoming.request_id, ..Caller::system() };
        match self.heed(&caller, &line_oa, &told).await {
            // It was deleted since.
            Err(Error::NotFound { .. } | Error::Conflict { .. }) => Err(self.refuse()),
            other => other,
        }
    }

    /// Refuses a webhook without looking at it.
    pub fn refuse_line_webhook(&self) -> Error {
        self.refuse()
    }

    fn refuse(&self) -> Error {
        self.metrics.webhook_refused();
        Error::Unauthenticated { reason: REFUSED }
    }

    /// The LINE OA whose secret signed the body. A wrong signature costs one look at its row and
    /// one hash of the body.
    async fn genuine(&self, incoming: &IncomingWebhook<'_>) -> Result<Option<LineOa>> {
        let Ok(id) = LineOaId::parse(incoming.line_oa_id) else { return Ok(None) };
        let found = self.line_credentials(&[id]).await?.into_iter().next();
        let signed = found.filter(|(_, credentials)| {
            signature::verify(&credentials.channel_secret, incoming.signature, incoming.body)
        });
        Ok(signed.map(|(line_oa, _)| line_oa))
    }

    async fn heed(&self, caller: &Caller, line_oa: &LineOa, told: &[Told<'_>]) -> Result<()> {
        let now = self.now();
        let mut names = HashSet::new();
        let users = told.iter().map(|told| (line_oa.id, told.user));
        let users: Vec<_> = users.filter(|(_, user)| names.insert(*user)).collect();
        // Most webhooks are messages of people who are known.
        if !told.iter().any(Told::is_of_friendship)
            && users_by_ids(self.store.read(), &users).await?.len() == users.len()
        {
            return Ok(());
        }
        let sender = Sender { words: &EventWords::OURS, origin: EventOrigin::LineWebhook, now };
        let tx = self.store.begin().await?;
        let new_users = seen(&*tx, &users, now).await?;
        let mut changed = Changed { new_users, ..Changed::default() };
        let mut events = Vec::new();
        for told in told {
            if let Some(event) = take(&tx, line_oa, told, &sender, &mut changed).await? {
                events.push(event);
            }
        }
        let stored = event::insert(&*tx, &events).await?;
        changed.events = stored.len();
        if !changed.is_nothing() {
            tx.commit(caller, now, &[changed.change(line_oa)]).await?;
        }
        if !stored.is_empty() {
            self.wake.hint();
        }
        self.count_received(&events, &stored, 0);
        Ok(())
    }
}

/// The events to act on, those of one user together, since users are held in their order.
fn ours(events: &[WebhookEvent], now: DateTime<Utc>) -> Vec<Told<'_>> {
    let active = events.iter().filter(|event| event.mode == Mode::Active);
    let mut told: Vec<_> = active
        .filter_map(|event| {
            Some(Told { event, user: event.user_id.as_deref()?, at: at(event, now) })
        })
        .collect();
    told.sort_by_key(|told| told.user);
    told
}

/// When it happened. A time that can't be right is none: it would outdo all that comes later.
fn at(event: &WebhookEvent, now: DateTime<Utc>) -> DateTime<Utc> {
    let possible = DateTime::UNIX_EPOCH..=now + Duration::hours(24);
    event.occurred_at.filter(|at| possible.contains(at)).unwrap_or(now)
}

impl Told<'_> {
    fn is_of_friendship(&self) -> bool {
        matches!(self.event.kind, EventKind::Follow { .. } | EventKind::Unfollow)
    }

    /// The platform's id. Without one, what tells a new friend apart from the same one told again.
    fn event_id(&self) -> String {
        let id = self.event.id.clone().filter(|id| text("", id, EVENT_ID_MAX).is_ok());
        id.unwrap_or_else(|| format!("follow:{}:{}", self.user, self.at.timestamp_millis()))
    }
}

/// Writes what one event says of a friend; the rest has been said by the user being known.
async fn take(
    tx: &Tx,
    line_oa: &LineOa,
    told: &Told<'_>,
    sender: &Sender,
    changed: &mut Changed,
) -> Result<Option<Event>> {
    let user = (line_oa.id, told.user);
    match &told.event.kind {
        EventKind::Follow { is_unblocked } => {
            let standing = follow(tx, user, told.at, sender.now).await?;
            changed.followed += usize::from(standing.news);
            friend(line_oa, told, *is_unblocked, standing, sender).map(Some)
        }
        EventKind::Unfollow => {
            let standing = unfollow(tx, user, told.at, sender.now).await?;
            changed.unfollowed += usize::from(standing.news);
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// The event of a new friend. The platform knows who had blocked the account; we know who was a
/// friend before, unless the news comes late: then what is known may have happened after it.
fn friend(
    line_oa: &LineOa,
    told: &Told<'_>,
    is_unblocked: bool,
    standing: Standing,
    sender: &Sender,
) -> Result<Event> {
    let came_back = is_unblocked || (standing.news && standing.had_followed);
    let new = NewEvent {
        event_id: Some(told.event_id()),
        event_type: Some("friend_track_event_inserted".to_owned()),
        line_oa_id: None,
        user_id: Some(told.user.to_owned()),
        occurred_at: Some(told.at.to_rfc3339()),
        payload: Some(json!({
            "isUnblocked": is_unblocked,
            "isFirst": !came_back,
            "source": "line_webhook",
        })),
    };
    checked_event(new, line_oa, sender).map_err(|error| Error::internal(error.to_string()))
}

impl Changed {
    fn is_nothing(&self) -> bool {
        self.followed == 0 && self.unfollowed == 0 && self.new_users == 0 && self.events == 0
    }

    fn change(&self, line_oa: &LineOa) -> Change {
        Change {
            action: "line_webhook.receive",
            entity_type: "line_oa",
            entity_id: line_oa.id.0,
            project_id: Some(line_oa.organization_id),
            application_id: None,
            before: None,
            after: Some(json!({
                "followed": self.followed,
                "unfollowed": self.unfollowed,
                "newUsers": self.new_users,
                "events": self.events,
            })),
        }
    }
}
