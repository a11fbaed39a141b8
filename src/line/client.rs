//! Calls of the platform.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use super::answer::{LineAnswer, Outcome};
use super::pace::Pace;
use crate::config::LineConfig;
use crate::domain::id::LineOaId;
use crate::domain::line::LineCall;
use crate::egress::{CallbackUrl, Egress, Outgoing, Refusal};
use crate::error::{Error, Result};

const RETRY_KEY: HeaderName = HeaderName::from_static("x-line-retry-key");

/// What a call needs of a channel. Its `Debug` hides the token.
#[derive(Debug, Clone)]
pub struct ChannelAccess {
    /// The account, which the rate limit is for.
    pub line_oa_id: LineOaId,
    /// The channel's access token.
    pub access_token: SecretString,
}

/// The only caller of the platform. Share one for the process: it holds the rate limits.
pub struct LineClient {
    egress: Egress,
    base: Url,
    pace: Pace,
    timeout: Duration,
}

impl LineClient {
    /// A client that calls `config.api_base` through `egress`. The address policy of callbacks
    /// counts here too: a base in a private network must lie in `callbacks.allowed_networks`.
    ///
    /// # Errors
    /// `CALLBACK_URL_INVALID` or `CALLBACK_ADDRESS_REFUSED` on `line.api_base`. A name that only
    /// resolves to a refused address passes here, and its calls end as [`Outcome::Retry`].
    pub fn new(egress: Egress, config: &LineConfig) -> Result<Self> {
        egress.policy().parse_url(config.api_base.as_str()).map_err(|refusal: Refusal| {
            Error::invalid_code(refusal.code, "line.api_base", refusal.reason)
        })?;
        Ok(Self {
            egress,
            base: config.api_base.clone(),
            pace: Pace::new(config.rate_limit),
            timeout: config.timeout,
        })
    }

    /// Makes one call, once, and says what became of it. Ends within `line.timeout`: up to half of
    /// it, and no more than `within`, is spent on waiting for the channel's turn, after that the answer
    /// is [`Outcome::RateLimited`] without a request. Dropping the future drops the connection.
    ///
    /// `retry_key` is the id of the queued action: the same on each attempt, and of no other
    /// action. With it a push is sent twice and received once, in a crash too. The other calls
    /// need none and send none.
    pub async fn call(
        &self,
        channel: &ChannelAccess,
        call: &LineCall,
        retry_key: Uuid,
        within: Duration,
    ) -> LineAnswer {
        let started = Instant::now();
        let mut request = match self.request(channel, call, retry_key) {
            Ok(request) => request,
            Err(Unsendable { outcome, reason }) => {
                return LineAnswer::local(outcome, &reason, started.elapsed());
            }
        };
        if !self.pace.turn(channel.line_oa_id, within.min(self.timeout / 2)).await {
            let reason = "held back by line.rate_limit: the channel has more calls waiting";
            return LineAnswer::local(Outcome::RateLimited, reason, started.elapsed());
        }
        let waited = started.elapsed();
        request.timeout = Some(self.timeout.saturating_sub(waited));
        LineAnswer::of(call, self.egress.send(request).await, waited)
    }

    fn request(
        &self,
        channel: &ChannelAccess,
        call: &LineCall,
        retry_key: Uuid,
    ) -> Result<Outgoing, Unsendable> {
        let mut headers = HeaderMap::with_capacity(3);
        let bearer = authorization(&channel.access_token).map_err(|_| Unsendable {
            outcome: Outcome::Unauthorized,
            reason: "the channel's access token has characters that no token has".to_owned(),
        })?;
        headers.insert(AUTHORIZATION, bearer);
        let (method, url, body) = match call {
            LineCall::Push { to, messages } => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(RETRY_KEY, retry_key_value(retry_key)?);
                (Method::POST, self.url(&["message", "push"])?, push_body(to, messages)?)
            }
            LineCall::LinkRichMenu { user_id, rich_menu_id } => {
                let url = self.url(&["user", user_id, "richmenu", rich_menu_id])?;
                (Method::POST, url, Bytes::new())
            }
            LineCall::UnlinkRichMenu { user_id } => {
                (Method::DELETE, self.url(&["user", user_id, "richmenu"])?, Bytes::new())
            }
        };
        Ok(Outgoing { method, url, headers, body, timeout: None })
    }

    /// The base, `/v2/bot`, and the segments, each percent-encoded.
    fn url(&self, segments: &[&str]) -> Result<CallbackUrl, Unsendable> {
        // These would change the path's shape, encoded or not.
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(Unsendable::refused("a user id and a rich menu id must not be empty"));
        }
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) => path.pop_if_empty().extend(["v2", "bot"]).extend(segments),
            Err(()) => return Err(Unsendable::refused("line.api_base can't have a path")),
        };
        let parsed = self.egress.policy().parse_url(url.as_str());
        parsed.map_err(|refusal| Unsendable::refused(refusal.reason))
    }
}

/// Why there is no request.
struct Unsendable {
    outcome: Outcome,
    reason: String,
}

impl Unsendable {
    fn refused(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { outcome: Outcome::Refused { reason: reason.clone() }, reason }
    }
}

fn authorization(token: &SecretString) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn retry_key_value(key: Uuid) -> Result<HeaderValue, Unsendable> {
    HeaderValue::from_str(&key.to_string()).map_err(|error| Unsendable::refused(error.to_string()))
}

#[derive(Serialize)]
struct Push<'a> {
    to: &'a str,
    messages: &'a [Value],
}

/// The same bytes for the same call, in whatever order the keys of its objects were put in.
fn push_body(to: &str, messages: &[Value]) -> Result<Bytes, Unsendable> {
    let mut messages = messages.to_vec();
    messages.iter_mut().for_each(Value::sort_all_objects);
    match serde_json::to_vec(&Push { to, messages: &messages }) {
        Ok(body) => Ok(body.into()),
        Err(error) => Err(Unsendable::refused(error.to_string())),
    }
}
