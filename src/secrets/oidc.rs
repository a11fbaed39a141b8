//! Tokens of an outside issuer (OpenID Connect Core 1.0, RFC 7519, RFC 8725).
//!
//! The issuer's keys are fetched when first needed, again after an hour, and once more
//! when a token names a key we do not know; never more often than every 30 s, so that
//! tokens with invented key ids cannot make us flood the issuer. While the issuer is
//! down the keys we have stay good for a day.
//!
//! This module fetches through a closure it is given: whoever builds it decides about
//! addresses, deadlines and sizes.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use url::Url;

use super::{
    jwks::{self, PublishedKey},
    refusal::TokenRefusal,
};
use crate::config::JwtConfig;

const REFRESH_AFTER: TimeDelta = TimeDelta::hours(1);
const USABLE_FOR: TimeDelta = TimeDelta::hours(24);
const MIN_GAP: TimeDelta = TimeDelta::seconds(30);
/// Clocks of issuer and server may differ by this much.
const LEEWAY_SECONDS: f64 = 30.0;
const MAX_SUBJECT_CHARS: usize = 255;

/// Why a document could not be fetched; for the log.
pub type FetchError = Box<dyn std::error::Error + Send + Sync>;

type Fetch = dyn Fn(Url) -> BoxFuture<'static, Result<Vec<u8>, FetchError>> + Send + Sync;

/// Whose tokens are accepted.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// The `iss` claim, compared to the letter; an absolute URL.
    pub issuer: String,
    /// What the `aud` claim must name.
    pub audience: String,
    /// Where the keys are; `None` asks `ISSUER/.well-known/openid-configuration`.
    pub jwks_url: Option<Url>,
    /// The claim with the roles: its name, or a path with dots into nested objects.
    pub role_claim: Option<String>,
}

impl OidcSettings {
    /// What the configuration says; `None` if no outside issuer is configured.
    pub fn from_config(config: &JwtConfig) -> Option<Self> {
        Some(Self {
            issuer: config.issuer.clone()?,
            audience: config.audience.clone()?,
            jwks_url: config.jwks_url.clone(),
            role_claim: config.role_claim.clone(),
        })
    }
}

/// Who the outside issuer says the caller is. Nothing here was checked against our users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideIdentity {
    /// The `sub` claim: stable and unique for this issuer, 1 to 255 characters.
    pub subject: String,
    /// The `email` claim.
    pub email: Option<String>,
    /// Whether the issuer says (`email_verified`) that the address is the caller's. An address
    /// that is not must not be used to find an account.
    pub email_verified: bool,
    /// The `name` claim.
    pub name: Option<String>,
    /// The role claim's text, or texts of its list; empty if there is none.
    pub roles: Vec<String>,
}

/// Checks tokens of one outside issuer.
pub struct OidcVerifier(Arc<Issuer>);

struct Issuer {
    settings: OidcSettings,
    fetch: Box<Fetch>,
    keys: RwLock<Arc<Keys>>,
    /// When a fetch was last begun. Held while fetching: one fetch at a time.
    begun: Arc<Mutex<Option<DateTime<Utc>>>>,
}

#[derive(Default)]
struct Keys {
    keys: Vec<PublishedKey>,
    fetched_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl OidcVerifier {
    /// A verifier that has no keys yet and gets them through `fetch`, which must answer with
    /// the body of a successful GET, and should have a deadline and a size limit.
    pub fn new<F, Answer>(settings: OidcSettings, fetch: F) -> Self
    where
        F: Fn(Url) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<Vec<u8>, FetchError>> + Send + 'static,
    {
        let fetch = Box::new(move |url| -> BoxFuture<'static, _> { Box::pin(fetch(url)) });
        Self(Arc::new(Issuer { settings, fetch, keys: RwLock::default(), begun: Arc::default() }))
    }

    /// Who the token's bearer is, if the token was signed by the issuer with RS256, ES256 or
    /// EdDSA, for our audience, and `now` lies within its time (30 s of leeway).
    ///
    /// May wait for the issuer's keys. Safe to cancel: a fetch that was begun goes on.
    ///
    /// # Errors
    /// [`TokenRefusal`]; `Unavailable` if the keys can't be had, and then the same token may
    /// be accepted later.
    pub async fn verify(
        &self,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<OutsideIdentity, TokenRefusal> {
        self.0.verify(token, now).await
    }
}

impl Issuer {
    async fn verify(
        self: &Arc<Self>,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<OutsideIdentity, TokenRefusal> {
        let header = decode_header(token)?;
        if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
            return Err(TokenRefusal::Algorithm);
        }
        let key = self.key(header.kid.as_deref(), header.alg, now).await?;
        let claims = decode::<Map<String, Value>>(token, &key.key, &self.validation(&key))?.claims;
        self.check_issuer_and_time(&claims, now)?;
        self.identity(&claims)
    }

    async fn key(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
        now: DateTime<Utc>,
    ) -> Result<PublishedKey, TokenRefusal> {
        let mut keys = self.current();
        if keys.age(now).is_none_or(|age| age >= REFRESH_AFTER) {
            keys = self.refresh(now).await;
        }
        if keys.find(id, algorithm).is_none() {
            keys = self.refresh(now).await;
        }
        if keys.age(now).is_none_or(|age| age >= USABLE_FOR) {
            return Err(TokenRefusal::Unavailable);
        }
        keys.find(id, algorithm).cloned().ok_or(TokenRefusal::UnknownKey)
    }

    fn current(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fresh keys if they can be had; otherwise those that are there. Who waited here while
    /// someone else fetched takes what was fetched: it is younger than the gap.
    async fn refresh(self: &Arc<Self>, now: DateTime<Utc>) -> Arc<Keys> {
        let mut begun = Arc::clone(&self.begun).lock_owned().await;
        if begun.is_some_and(|begun| (now - begun).abs() < MIN_GAP) {
            return self.current();
        }
        *begun = Some(now);
        // On a task of its own: a caller who goes away must not leave others without keys until
        // the gap has passed.
        let issuer = Arc::clone(self);
        let fetching = tokio::spawn(async move {
            issuer.replace_keys(now).await;
            drop(begun);
        });
        if let Err(error) = fetching.await {
            tracing::error!(%error, "fetching an issuer's keys ended early");
        }
        self.current()
    }

    async fn replace_keys(&self, now: DateTime<Utc>) {
        match self.fetch_keys().await {
            Ok(keys) => {
                let fresh = Arc::new(Keys { keys, fetched_at: Some(now) });
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = fresh;
            }
            Err(error) => {
                tracing::warn!(issuer = %self.settings.issuer, %error, "issuer's keys not fetched");
            }
        }
    }

    async fn fetch_keys(&self) -> Result<Vec<PublishedKey>, FetchError> {
        let url = match &self.settings.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let keys = jwks::parse(&(self.fetch)(url).await?)?;
        if keys.is_empty() {
            return Err("no key for RS256, ES256 or EdDSA is published".into());
        }
        Ok(keys)
    }

    /// OpenID Connect Discovery 1.0, section 4: the document must name the issuer it was
    /// fetched from, and we follow it only to an address as safe as the issuer's own.
    async fn discover(&self) -> Result<Url, FetchError> {
        let issuer = &self.settings.issuer;
        let base = issuer.strip_suffix('/').unwrap_or(issuer);
        let url = Url::parse(&format!("{base}/.well-known/openid-configuration"))?;
        let found: Discovery = serde_json::from_slice(&(self.fetch)(url.clone()).await?)?;
        if found.issuer != *issuer {
            return Err(format!("the discovery document is of the issuer {}", found.issuer).into());
        }
        let keys = Url::parse(&found.jwks_uri)?;
        if keys.scheme() != "https" && keys.origin() != url.origin() {
            return Err(format!("keys are not fetched from {keys}").into());
        }
        Ok(keys)
    }

    /// The library checks everything but the time, which it would take from the wall clock.
    fn validation(&self, key: &PublishedKey) -> Validation {
        let mut validation = Validation::new(key.algorithm);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.required_spec_claims =
            HashSet::from(["exp", "sub", "iss", "aud"].map(str::to_owned));
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation
    }

    fn check_issuer_and_time(
        &self,
        claims: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<(), TokenRefusal> {
        // The library also takes a list that contains the issuer; RFC 7519 knows one issuer.
        if claims.get("iss").and_then(Value::as_str) != Some(&self.settings.issuer) {
            return Err(TokenRefusal::Issuer);
        }
        let now = now.timestamp() as f64;
        let seconds = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_f64()
                .map(Some)
                .ok_or_else(|| TokenRefusal::Malformed(format!("{name} is no number of seconds"))),
        };
        match seconds("exp")? {
            Some(end) if now < end + LEEWAY_SECONDS => {}
            _ => return Err(TokenRefusal::Expired),
        }
        match seconds("nbf")? {
            Some(start) if now + LEEWAY_SECONDS < start => Err(TokenRefusal::NotYet),
            _ => Ok(()),
        }
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<OutsideIdentity, TokenRefusal> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let subject = text("sub")
            .filter(|sub| (1..=MAX_SUBJECT_CHARS).contains(&sub.chars().count()))
            .ok_or_else(|| TokenRefusal::Malformed("sub has not 1 to 255 characters".to_owned()))?;
        let role_claim = self.settings.role_claim.as_deref();
        Ok(OutsideIdentity {
            subject,
            email: text("email"),
            email_verified: claims.get("email_verified") == Some(&Value::Bool(true)),
            name: text("name"),
            roles: role_claim.and_then(|path| lookup(claims, path)).map(texts).unwrap_or_default(),
        })
    }
}

impl Keys {
    /// The keys' age; none if there are none. A clock that was set back makes them new.
    fn age(&self, now: DateTime<Utc>) -> Option<TimeDelta> {
        self.fetched_at.map(|fetched_at| now - fetched_at)
    }

    /// The key with that id. A token without an id is taken if only one key could be meant.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&PublishedKey> {
        let mut usable = self.keys.iter().filter(|key| key.algorithm == algorithm);
        match id {
            Some(id) => usable.find(|key| key.id.as_deref() == Some(id)),
            None => usable.next().filter(|_| usable.next().is_none()),
        }
    }
}

/// A claim of that very name (names may contain dots), else the path through objects.
fn lookup<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    lookup(claims.get(first)?.as_object()?, rest)
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

impl fmt::Debug for OidcVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcVerifier").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
