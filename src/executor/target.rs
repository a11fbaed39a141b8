//! Where deliveries go: a backend's address, token and secret, ready for use.
//!
//! A backend is read with every batch that concerns it, so that a change counts from the next
//! batch on; what is costly to make from its row is kept while the row stays the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use http::HeaderValue;
use secrecy::ExposeSecret;

use crate::app::App;
use crate::domain::access::Scope;
use crate::domain::application::Backend;
use crate::domain::id::BackendId;
use crate::egress::{AddressPolicy, CallbackUrl, Refusal, SigningSecret};
use crate::error::{Error, Result};
use crate::store::application::{self, BackendSecrets};

/// What is known of where a delivery goes.
#[derive(Clone)]
pub(super) enum Target {
    /// It can be called.
    Ready(Arc<Callback>),
    /// It gets nothing for now.
    Inactive,
    /// It was deleted.
    Gone,
    /// Its row can't be used: the address is refused by now, or its secrets can't be read.
    Unusable(Arc<str>),
}

impl Target {
    /// Whether both are calls of one address.
    pub fn is_same_place(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Ready(a), Self::Ready(b)) if a.url == b.url)
    }
}

/// How to call a backend.
pub(super) struct Callback {
    pub url: CallbackUrl,
    pub authorization: HeaderValue,
    pub secret: SigningSecret,
}

/// Callbacks that were made before, by backend.
#[derive(Default)]
pub(super) struct Targets(Mutex<HashMap<BackendId, Kept>>);

struct Kept {
    callback_url: String,
    secrets: BackendSecrets,
    target: Target,
}

/// How many callbacks are kept.
const KEPT: usize = 10_000;

impl Targets {
    /// Reads the targets of `ids`.
    pub async fn load(
        &self,
        app: &App,
        ids: HashSet<BackendId>,
        now: DateTime<Utc>,
    ) -> Result<HashMap<BackendId, Target>> {
        let ids: Vec<_> = ids.into_iter().collect();
        let rows = application::backends_by_ids(app.store.read(), Scope::Everything, &ids).await?;
        let mut targets: HashMap<_, _> = ids.iter().map(|id| (*id, Target::Gone)).collect();
        for (backend, secrets) in rows {
            let target = self.target(app, &backend, secrets, now);
            targets.insert(backend.id, target);
        }
        Ok(targets)
    }

    /// Reads the target of one backend.
    pub async fn fresh(&self, app: &App, id: BackendId, now: DateTime<Utc>) -> Result<Target> {
        let targets = self.load(app, HashSet::from([id]), now).await?;
        Ok(targets.into_values().next().unwrap_or(Target::Gone))
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
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

fn callback(app: &App, backend: &Backend, secrets: &BackendSecrets) -> Result<Callback, String> {
    let policy = AddressPolicy::new(app.config.callbacks.allowed_networks.clone());
    let url = policy.parse_url(&backend.callback_url).map_err(|refusal: Refusal| refusal.reason)?;
    let place = |what| format!("backend_registration/{}/{what}", backend.id);
    let read = |stored: &str, what| {
        app.cipher.decrypt(stored, &place(what)).map_err(|error| {
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
