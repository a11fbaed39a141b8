//! Where work leads: a backend's address, token and secret, or a LINE OA's access token, ready for
//! use.
//!
//! What it leads to is read with every batch that concerns it, so that a change counts from the
//! next batch on; what is costly to make from a row is kept while the row stays the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Duration, Utc};
use http::HeaderValue;
use secrecy::ExposeSecret;

use super::job::Place;
use crate::app::{App, secret_place};
use crate::domain::access::Scope;
use crate::domain::application::Backend;
use crate::domain::id::{ApplicationId, BackendId, LineOaId};
use crate::domain::line::LineOa;
use crate::egress::{AddressPolicy, CallbackUrl, Refusal, SigningSecret};
use crate::error::{Error, Result};
use crate::line::ChannelAccess;
use crate::store::application::{self, BackendSecrets};
use crate::store::line::{self, LineSecrets};

/// What is known of where work leads.
#[derive(Clone)]
pub(super) enum Target {
    /// The backend can be called.
    Ready(Arc<Callback>),
    /// The backends that a call goes to.
    Backends(Arc<[BackendId]>),
    /// The LINE platform can be called.
    Line(Arc<ChannelAccess>),
    /// It leads nowhere else.
    Here,
    /// The backend gets nothing for now.
    Inactive,
    /// The LINE OA sends nothing until then.
    Paused(DateTime<Utc>, Arc<str>),
    /// It is not done now, and given back for so long: it is being taken back, or whether it is could not
    /// be read.
    Withheld(Duration),
    /// It could not be read yet: the database was away.
    Unread,
    /// It was deleted.
    Gone,
    /// Its row can't be used: the address is refused by now, or its secrets can't be read.
    Unusable(Arc<str>),
}

impl Target {
    /// What is known of a place that could not be read.
    pub fn unread(place: Place) -> Self {
        if place == Place::Here { Self::Here } else { Self::Unread }
    }

    /// Whether both are calls of one address.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ready(a), Self::Ready(b)) => a.url == b.url,
            (Self::Ready(_), _) | (_, Self::Ready(_)) => false,
            _ => true,
        }
    }
}

/// How to call a backend.
pub(super) struct Callback {
    pub url: CallbackUrl,
    pub authorization: HeaderValue,
    pub secret: SigningSecret,
}

/// What is known of targets.
#[derive(Default)]
pub(super) struct Targets {
    /// Callbacks that were made before, by backend.
    made: Mutex<HashMap<BackendId, Kept>>,
    /// What the last reading of each place found.
    read: Mutex<HashMap<Place, Arc<LastRead>>>,
}

/// What a reading found, and when; no target: the database did not answer.
type LastRead = tokio::sync::Mutex<Option<(DateTime<Utc>, Option<Target>)>>;

struct Kept {
    callback_url: String,
    secrets: BackendSecrets,
    target: Target,
}

/// Whether what was read at `at` still holds at `now`. A clock that was set back makes it old.
pub(super) fn is_fresh(at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    (now - at).abs() < Duration::seconds(1)
}

/// How many callbacks are kept.
const KEPT: usize = 10_000;

impl Targets {
    /// Reads the targets of `places`.
    pub async fn load(
        &self,
        app: &App,
        places: &HashSet<Place>,
        now: DateTime<Utc>,
    ) -> Result<HashMap<Place, Target>> {
        let mut targets: HashMap<_, _> =
            places.iter().map(|place| (*place, Target::Gone)).collect();
        let (mut backends, mut applications, mut line_oas) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            match place {
                Place::Backend(id) => backends.push(*id),
                Place::Application(id) => applications.push(*id),
                Place::LineOa(id) => line_oas.push(*id),
                Place::Here => drop(targets.insert(Place::Here, Target::Here)),
            }
        }
        targets.extend(self.backends(app, &backends, now).await?);
        targets.extend(addresses(app, &applications, now).await?);
        targets.extend(channels(app, &line_oas, now).await?);
        Ok(targets)
    }

    /// The target of one place as it was less than a second before `now`; none if the database is
    /// away. A backlog asks for the same place again and again: one asker reads, the others wait
    /// and take what it found, so that they leave the connections to those who record outcomes.
    pub async fn fresh(&self, app: &App, place: Place, now: DateTime<Utc>) -> Option<Target> {
        let last = self.last_read(place);
        let mut last = last.lock().await;
        if let Some((at, target)) = &*last
            && is_fresh(*at, now)
        {
            return target.clone();
        }
        let found = self.load(app, &HashSet::from([place]), now).await;
        let target = found.ok().map(|found| found.into_values().next().unwrap_or(Target::Gone));
        *last = Some((now, target.clone()));
        target
    }

    fn last_read(&self, place: Place) -> Arc<LastRead> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= KEPT {
            read.clear();
        }
        read.entry(place).or_default().clone()
    }

    async fn backends(
        &self,
        app: &App,
        ids: &[BackendId],
        now: DateTime<Utc>,
    ) -> Result<Vec<(Place, Target)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = application::backends_by_ids(app.store.read(), Scope::Everything, ids).await?;
        let targets = rows.into_iter().map(|(backend, secrets)| {
            (Place::Backend(backend.id), self.target(app, &backend, secrets, now))
        });
        Ok(targets.collect())
    }

    fn target(
        &self,
        app: &App,
        backend: &Backend,
        secrets: BackendSecrets,
        now: DateTime<Utc>,
    ) -> Target {
        if !backend.is_active(now, app.heartbeat_timeout()) {
            return Target::Inactive;
        }
        let mut kept = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = kept.get(&backend.id)
            && same.callback_url == backend.callback_url
            && same.secrets == secrets
        {
            return same.target.clone();
        }
        let target = match callback(app, backend, &secrets) {
            Ok(callback) => Target::Ready(Arc::new(callback)),
            Err(reason) => Target::Unusable(reason.into()),
        };
        if kept.len() >= KEPT {
            kept.clear();
        }
        let callback_url = backend.callback_url.clone();
        kept.insert(backend.id, Kept { callback_url, secrets, target: target.clone() });
        target
    }
}

/// The active backends of applications.
async fn addresses(
    app: &App,
    ids: &[ApplicationId],
    now: DateTime<Utc>,
) -> Result<Vec<(Place, Target)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let known = application::find_all(app.store.read(), Scope::Everything, ids).await?;
    let mut active: HashMap<_, Vec<_>> =
        known.into_iter().map(|application| (application.id, Vec::new())).collect();
    for backend in application::backends_of(app.store.read(), ids).await? {
        if backend.is_active(now, app.heartbeat_timeout())
            && let Some(backends) = active.get_mut(&backend.application_id)
        {
            backends.push(backend.id);
        }
    }
    let targets = active
        .into_iter()
        .map(|(id, backends)| (Place::Application(id), Target::Backends(backends.into())));
    Ok(targets.collect())
}

/// The access tokens of LINE OAs.
async fn channels(app: &App, ids: &[LineOaId], now: DateTime<Utc>) -> Result<Vec<(Place, Target)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = line::credentials(app.store.read(), ids).await?;
    let targets = rows.into_iter().map(|(line_oa, stored)| {
        let place = Place::LineOa(line_oa.id);
        (place, channel(app, &line_oa, &stored, now))
    });
    Ok(targets.collect())
}

fn channel(app: &App, line_oa: &LineOa, stored: &LineSecrets, now: DateTime<Utc>) -> Target {
    if let Some(until) = line_oa.paused_until.filter(|until| *until > now) {
        let reason = line_oa.paused_reason.as_deref().unwrap_or("paused");
        return Target::Paused(until, reason.into());
    }
    match app.open_line_secrets(line_oa.id, stored) {
        Ok(opened) => Target::Line(Arc::new(ChannelAccess {
            line_oa_id: line_oa.id,
            access_token: opened.channel_access_token,
        })),
        Err(error) => {
            tracing::error!(line_oa = %line_oa.id, %error, "a LINE OA's access token can't be read");
            Target::Unusable("the LINE OA's access token can't be read; set it anew".into())
        }
    }
}

fn callback(app: &App, backend: &Backend, secrets: &BackendSecrets) -> Result<Callback, String> {
    let policy = AddressPolicy::new(app.config.callbacks.allowed_networks.clone());
    let url = policy.parse_url(&backend.callback_url).map_err(|refusal: Refusal| refusal.reason)?;
    let read = |stored: &str, what| {
        app.cipher.decrypt(stored, &secret_place(backend.id, what)).map_err(|error| {
            tracing::error!(backend = %backend.id, %error, "a backend's {what} can't be read");
            format!("the backend's {what} can't be read; it must register again")
        })
    };
    let token = read(&secrets.token, "token")?;
    let secret = read(&secrets.signing_secret, "signing_secret")?;
    let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| "the backend's token is no header value".to_owned())?;
    authorization.set_sensitive(true);
    let secret = SigningSecret::parse(secret.expose_secret())
        .map_err(|error: Error| format!("the backend's signing secret is unusable: {error}"))?;
    Ok(Callback { url, authorization, secret })
}
