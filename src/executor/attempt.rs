//! One attempt: what is sent or done, and what came of it.

use std::time::Duration as Span;

use bytes::Bytes;
use chrono::{DateTime, Duration, Utc};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::effect::Effect;
use super::job::{Job, Place};
use super::lanes::{Held, Work};
use super::target::{Callback, Target, is_fresh};
use super::verdict::{self, Attempted};
use super::{Executor, whole};
use crate::actions;
use crate::app::span;
use crate::domain::id::AudienceId;
use crate::domain::line::LineCall;
use crate::domain::scheduled_action::ScheduledAction;
use crate::egress::{Outgoing, sign};
use crate::error::Error;
use crate::line::{ChannelAccess, Outcome};
use crate::store::executor::{Claimed, Finished};

/// Work that has ended, to be recorded.
pub(super) struct Done {
    pub claimed: Claimed,
    pub finished: Finished,
    /// The attempt, unless none was made.
    pub attempt: Option<Attempted>,
    /// What it changes in our own database.
    pub effect: Option<Effect>,
    /// When its attempt began.
    pub began: DateTime<Utc>,
    pub at: DateTime<Utc>,
}

impl Done {
    /// The audience to which it adds, if it adds to one.
    pub fn adds_to(&self) -> Option<AudienceId> {
        match &self.effect {
            Some(Effect::Action(actions::Effect::AddToAudience { audience_id, .. })) => {
                Some(*audience_id)
            }
            _ => None,
        }
    }
}

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const ATTEMPT: HeaderName = HeaderName::from_static("x-trigger-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What an attempt showed, and what it changes.
type Ended = (Option<Attempted>, Finished, Option<Effect>);

impl Executor {
    /// Performs what a lane gave out and frees its slot: an attempt, or, when none may start,
    /// what is to be recorded instead.
    pub(super) async fn perform(&self, work: Work) -> Done {
        let began = self.clock().now();
        let Work { claimed, job, target, start_before } = work;
        let action = &claimed.action;
        let target = match start_before <= began {
            // It is given back: nobody needs to know more.
            true => target.target,
            false => self.target(action, job.place(), target, began).await,
        };
        let ended = async {
            if let Some(finished) = self.without_attempt(&claimed, &target, start_before) {
                return Ok((None, finished, None));
            }
            if let Some(finished) = self.put_off(&claimed, &target) {
                return Ok((None, finished, Some(Effect::PutOff(job.place()))));
            }
            Ok(self.attempt(&claimed, &job, &target, (began, start_before)).await)
        };
        let (attempt, finished, effect) =
            whole(ended).await.unwrap_or_else(|error| self.broken_off(&claimed, &error));
        let answered = attempt.as_ref().and_then(|attempt| attempt.answered);
        self.lanes.done(action.lane, action.group(), answered);
        Done { claimed, finished, attempt, effect, began, at: self.clock().now() }
    }

    /// What is recorded of an attempt that panicked.
    fn broken_off(&self, claimed: &Claimed, error: &Error) -> Ended {
        tracing::error!(action = %claimed.action.id, %error, "an attempt broke off");
        let number = claimed.action.retry_count.saturating_add(1);
        let reason = "the attempt broke off; whether it was done is not known".to_owned();
        let attempted = Attempted { answered: Some(false), ..unsent(number, "broken_off", reason) };
        let finished = self.verdict(claimed, &attempted);
        (Some(attempted), finished, None)
    }

    /// Where the work leads now: what was held for a while may have another address by now.
    async fn target(
        &self,
        action: &ScheduledAction,
        place: Place,
        held: Held,
        now: DateTime<Utc>,
    ) -> Target {
        let is_known = !matches!(held.target, Target::Unread) && is_fresh(held.known_at, now);
        if place == Place::Here || is_known || matches!(held.target, Target::Withheld(_)) {
            return held.target;
        }
        match self.targets.fresh(&self.app, place, now).await {
            Some(target) => {
                if !target.is_same_place(&held.target) {
                    self.lanes.moved(action.lane);
                }
                target
            }
            // The database is away. What was true a moment ago is the best there is.
            None => held.target,
        }
    }

    /// What is to be recorded when no attempt may start.
    fn without_attempt(
        &self,
        claimed: &Claimed,
        target: &Target,
        start_before: DateTime<Utc>,
    ) -> Option<Finished> {
        let now = self.clock().now();
        let action = &claimed.action;
        if let Target::Withheld(pause) = target {
            return Some(verdict::given_back_for(claimed, now + *pause));
        }
        if let Target::Gone = target {
            return Some(verdict::gone(claimed, now));
        }
        if verdict::attempts_are_used_up(action, action.retry_count, &self.policy())
            || verdict::is_over(action, now)
        {
            return Some(verdict::given_up(claimed, now));
        }
        if start_before <= now {
            return Some(verdict::given_back(claimed));
        }
        if let Target::Unread = target {
            return Some(verdict::given_back_for(claimed, now + Duration::seconds(1)));
        }
        None
    }

    /// What is to be recorded when there is nobody to ask for now.
    fn put_off(&self, claimed: &Claimed, target: &Target) -> Option<Finished> {
        let (now, policy) = (self.clock().now(), self.policy());
        let (reason, not_before) = match target {
            Target::Inactive => ("the backend is inactive; it is called when it is back", now),
            Target::Backends(backends) if backends.is_empty() => {
                ("the application has no active backend", now)
            }
            Target::Paused(until, reason) => (&**reason, *until),
            _ => return None,
        };
        let policy = (&policy, self.jitter());
        Some(verdict::postponed(claimed, (reason, not_before), now, policy))
    }

    async fn attempt(
        &self,
        claimed: &Claimed,
        job: &Job,
        target: &Target,
        (began, start_before): (DateTime<Utc>, DateTime<Utc>),
    ) -> Ended {
        let action = &claimed.action;
        let number = action.retry_count.saturating_add(1);
        if number == 1 {
            self.app.metrics.late(began - action.execute_at);
        }
        let attempted = match (job, target) {
            (Job::Address(_), Target::Backends(backends)) => {
                let effect = Effect::Address(backends.to_vec());
                return (None, verdict::given_back(claimed), Some(effect));
            }
            (Job::Store(effect), _) => {
                let finished = verdict::done(claimed, number, began);
                return (
                    Some(succeeded_here(number)),
                    finished,
                    Some(Effect::Action(effect.clone())),
                );
            }
            (Job::Call { body, .. }, Target::Ready(callback)) => {
                self.send(action, callback, body, began).await
            }
            (Job::Line { call, .. }, Target::Line(channel)) => {
                return self.call_line(claimed, (channel, call), (number, start_before)).await;
            }
            (_, Target::Unusable(reason)) => unsent(number, "refused", reason.to_string()),
            (Job::Broken(reason), _) => {
                let reason = format!("the action can't be read: {reason}");
                Attempted { hopeless: true, ..unsent(number, "unreadable", reason) }
            }
            _ => unsent(number, "unsendable", String::new()),
        };
        let finished = self.verdict(claimed, &attempted);
        (Some(attempted), finished, None)
    }

    fn verdict(&self, claimed: &Claimed, attempted: &Attempted) -> Finished {
        let (at, policy) = (self.clock().now(), (&self.policy(), self.jitter()));
        verdict::after_attempt(claimed, attempted, at, policy)
    }

    /// A call of the LINE platform. Its retry key is the action's id, on every attempt. An answer
    /// that concerns the whole channel pauses it.
    async fn call_line(
        &self,
        claimed: &Claimed,
        (channel, call): (&ChannelAccess, &LineCall),
        (number, start_before): (i32, DateTime<Utc>),
    ) -> Ended {
        let line = &self.app.config.line;
        // What waits for its turn may not start any later than what does not.
        let end = claimed.action.expires_at.map_or(start_before, |end| end.min(start_before));
        let within = (end - self.clock().now()).to_std().unwrap_or_default();
        let answer = self.app.line.call(channel, call, claimed.action.id.0, within).await;
        let (pause, reason) = match answer.outcome {
            Outcome::MonthlyLimit => (Some(span(line.monthly_limit_pause)), "monthly_limit"),
            Outcome::Unauthorized => (Some(span(line.unauthorized_pause)), "unauthorized"),
            _ => (None, ""),
        };
        let attempted = Attempted::of_line(number, answer, pause);
        let finished = self.verdict(claimed, &attempted);
        let effect = pause.map(|pause| {
            let until = self.clock().now() + pause;
            Effect::Pause { line_oa: channel.line_oa_id, until, reason }
        });
        (Some(attempted), finished, effect)
    }

    async fn send(
        &self,
        action: &ScheduledAction,
        callback: &Callback,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Attempted {
        let number = action.retry_count.saturating_add(1);
        let headers = match headers(action, callback, (number, now), body) {
            Ok(headers) => headers,
            Err(error) => return unsent(number, "unsendable", error.to_string()),
        };
        let (url, body) = (callback.url.clone(), body.clone());
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
    Attempted { success: false, reason: Some(reason), error: Some(error), ..succeeded_here(number) }
}

/// An attempt that asked nobody.
fn succeeded_here(number: i32) -> Attempted {
    Attempted {
        number,
        success: true,
        response_status: None,
        duration: Span::ZERO,
        reason: None,
        error: None,
        retry_after: None,
        gone: false,
        hopeless: false,
        answered: None,
        platform_request_id: None,
    }
}

/// The headers of an attempt: the registration's token, Standard Webhooks 1.0.0, the attempt's
/// number, and a W3C trace context. Only number, time, signature and trace differ between
/// attempts.
fn headers(
    action: &ScheduledAction,
    callback: &Callback,
    (number, now): (i32, DateTime<Utc>),
    body: &[u8],
) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
    let id = action.id.to_string();
    let timestamp = now.timestamp();
    let signature = sign(&callback.secret, &id, timestamp, body);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, callback.authorization.clone());
    headers.insert(WEBHOOK_ID, HeaderValue::from_str(&id)?);
    headers.insert(WEBHOOK_TIMESTAMP, timestamp.into());
    headers.insert(WEBHOOK_SIGNATURE, HeaderValue::from_str(&signature)?);
    headers.insert(ATTEMPT, number.into());
    headers.insert(TRACEPARENT, HeaderValue::from_str(&traceparent(action))?);
    Ok(headers)
}

/// A trace a piece of work, a span an attempt.
fn traceparent(action: &ScheduledAction) -> String {
    let span: u64 = rand::random_range(1..=u64::MAX);
    format!("00-{}-{span:016x}-01", action.id.0.simple())
}
