//! One attempt: what is sent, and what came of it.

use bytes::Bytes;
use chrono::{DateTime, Duration, Utc};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::Executor;
use super::lanes::{Held, Work};
use super::target::{Callback, Target};
use super::verdict::{self, Attempted};
use crate::domain::delivery::Delivery;
use crate::domain::id::BackendId;
use crate::egress::{Outgoing, sign};
use crate::store::executor::{Claimed, Finished};

/// Work that has ended, to be recorded.
pub(super) struct Done {
    pub claimed: Claimed,
    pub finished: Finished,
    /// The attempt, unless none was made.
    pub attempt: Option<Attempted>,
    /// When its attempt began.
    pub began: DateTime<Utc>,
    pub at: DateTime<Utc>,
}

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const ATTEMPT: HeaderName = HeaderName::from_static("x-trigger-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

impl Executor {
    /// Performs what a lane gave out and frees its slot: an attempt, or, when none may start,
    /// what is to be recorded instead.
    pub(super) async fn perform(&self, work: Work) -> Done {
        let began = self.clock().now();
        let Work { claimed, target, start_before } = work;
        let delivery = &claimed.delivery;
        let target = self.target(delivery.backend_id, target, began).await;
        let number = delivery.retry_count.saturating_add(1);
        let (attempt, finished) = match self.without_attempt(&claimed, &target, start_before) {
            Some(finished) => (None, finished),
            None => {
                let attempt = match &target {
                    Target::Ready(callback) => self.send(delivery, callback, began).await,
                    Target::Unusable(reason) => unsent(number, "refused", reason.to_string()),
                    Target::Inactive | Target::Gone => unsent(number, "unsendable", String::new()),
                };
                let (at, policy) = (self.clock().now(), (&self.policy(), self.jitter()));
                let finished = verdict::after_attempt(&claimed, &attempt, at, policy);
                (Some(attempt), finished)
            }
        };
        let answered = attempt.as_ref().map(|attempt| attempt.answered);
        self.lanes.done(delivery.backend_id, delivery.application_id, answered);
        Done { claimed, finished, attempt, began, at: self.clock().now() }
    }

    /// Where the delivery goes now: what was held for a while may have another address by now.
    async fn target(&self, backend: BackendId, held: Held, now: DateTime<Utc>) -> Target {
        if now - held.known_at < Duration::seconds(1) {
            return held.target;
        }
        match self.targets.fresh(&self.app, backend, now).await {
            Ok(target) => {
                if !target.is_same_place(&held.target) {
                    self.lanes.moved(backend);
                }
                target
            }
            // The database is away. What was true a moment ago is the best there is.
            Err(_) => held.target,
        }
    }

    /// What is to be recorded when no attempt may start.
    fn without_attempt(
        &self,
        claimed: &Claimed,
        target: &Target,
        start_before: DateTime<Utc>,
    ) -> Option<Finished> {
        let (now, policy) = (self.clock().now(), self.policy());
        let delivery = &claimed.delivery;
        if let Target::Gone = target {
            return Some(verdict::cancelled(claimed, now));
        }
        if verdict::attempts_are_used_up(delivery, delivery.retry_count, &policy)
            || verdict::is_over(delivery, now)
        {
            return Some(verdict::given_up(claimed, now));
        }
        if start_before <= now {
            return Some(verdict::given_back(claimed));
        }
        let reason = "the backend is inactive; it is called when it is back";
        matches!(target, Target::Inactive)
            .then(|| verdict::postponed(claimed, reason, now, (&policy, self.jitter())))
    }

    async fn send(
        &self,
        delivery: &Delivery,
        callback: &Callback,
        now: DateTime<Utc>,
    ) -> Attempted {
        let number = delivery.retry_count.saturating_add(1);
        if number == 1 {
            self.app.metrics.late(now - delivery.execute_at);
        }
        let body = match serde_json::to_vec(&delivery.payload) {
            Ok(body) => Bytes::from(body),
            Err(error) => return unsent(number, "unsendable", error.to_string()),
        };
        let headers = match headers(delivery, callback, (number, now), &body) {
            Ok(headers) => headers,
            Err(error) => return unsent(number, "unsendable", error.to_string()),
        };
        let url = callback.url.clone();
        let sent = self
            .app
            .egress
            .send(Outgoing { method: Method::POST, url, headers, body, timeout: None })
            .await;
        Attempted::of(number, &sent, self.clock().now())
    }
}

/// An attempt that ended before anything was sent: the address is refused by now, the secrets
/// can't be read, or the request can't be made.
fn unsent(number: i32, reason: &'static str, error: String) -> Attempted {
    Attempted {
        number,
        success: false,
        response_status: None,
        duration: std::time::Duration::ZERO,
        reason: Some(reason),
        error: Some(error),
        retry_after: None,
        gone: false,
        answered: true,
    }
}

/// The headers of an attempt: the registration's token, Standard Webhooks 1.0.0, the attempt's
/// number, and a W3C trace context. Only number, time, signature and trace differ between
/// attempts.
fn headers(
    delivery: &Delivery,
    callback: &Callback,
    (number, now): (i32, DateTime<Utc>),
    body: &[u8],
) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
    let id = delivery.id.to_string();
    let timestamp = now.timestamp();
    let signature = sign(&callback.secret, &id, timestamp, body);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, callback.authorization.clone());
    headers.insert(WEBHOOK_ID, HeaderValue::from_str(&id)?);
    headers.insert(WEBHOOK_TIMESTAMP, timestamp.into());
    headers.insert(WEBHOOK_SIGNATURE, HeaderValue::from_str(&signature)?);
    headers.insert(ATTEMPT, number.into());
    headers.insert(TRACEPARENT, HeaderValue::from_str(&traceparent(delivery))?);
    Ok(headers)
}

/// A trace a delivery, a span an attempt.
fn traceparent(delivery: &Delivery) -> String {
    let span: u64 = rand::random_range(1..=u64::MAX);
    format!("00-{}-{span:016x}-01", delivery.id.0.simple())
}
