//! One attempt: what is sent, and what came of it.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::Executor;
use super::lanes::Work;
use super::target::{Callback, Target};
use super::verdict::{self, Attempted};
use crate::domain::delivery::Delivery;
use crate::egress::{Outgoing, sign};
use crate::store::executor::{Claimed, Finished};

/// Work that has ended, to be recorded.
pub(super) struct Done {
    pub claimed: Claimed,
    pub finished: Finished,
    /// The attempt, unless none was made.
    pub attempt: Option<Attempted>,
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
        let now = self.clock().now();
        let delivery = &work.claimed.delivery;
        let (backend, application) = (delivery.backend_id, delivery.application_id);
        let finished = self.without_attempt(&work, now);
        let (attempt, finished) = match (finished, &work.target) {
            (None, Target::Ready(callback)) => {
                let attempt = self.send(delivery, callback, now).await;
                let at = self.clock().now();
                let policy = (&self.policy(), self.jitter());
                let finished = verdict::after_attempt(&work.claimed, &attempt, at, policy);
                (Some(attempt), finished)
            }
            (finished, _) => (None, finished.unwrap_or_else(|| verdict::given_back(&work.claimed))),
        };
        let answered = attempt.as_ref().map(|attempt| attempt.answered);
        self.lanes.done(backend, application, answered);
        Done { claimed: work.claimed, finished, attempt, at: self.clock().now() }
    }

    /// What is to be recorded when no attempt may start.
    fn without_attempt(&self, work: &Work, now: DateTime<Utc>) -> Option<Finished> {
        let (claimed, policy) = (&work.claimed, self.policy());
        let delivery = &claimed.delivery;
        let over = verdict::attempts_are_used_up(delivery, delivery.retry_count, &policy)
            || verdict::is_over(delivery, now);
        if let Target::Gone = work.target {
            return Some(verdict::cancelled(claimed, now));
        }
        if over {
            return Some(verdict::given_up(claimed, now));
        }
        if work.start_before <= now {
            return Some(verdict::given_back(claimed));
        }
        let reason = match &work.target {
            Target::Inactive => "the backend is inactive; it is called when it is back",
            Target::Unusable(reason) => reason,
            Target::Ready(_) | Target::Gone => return None,
        };
        Some(verdict::postponed(claimed, reason, now, (&policy, self.jitter())))
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
            Err(error) => return unsendable(number, error.to_string()),
        };
        let headers = match headers(delivery, callback, (number, now), &body) {
            Ok(headers) => headers,
            Err(error) => return unsendable(number, error.to_string()),
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

/// A request that can't be made. None of ours is; if one were, it would be recorded.
fn unsendable(number: i32, error: String) -> Attempted {
    Attempted {
        number,
        success: false,
        response_status: None,
        duration: std::time::Duration::ZERO,
        reason: Some("unsendable"),
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
