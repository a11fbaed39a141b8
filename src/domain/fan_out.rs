//! From an occurrence to its deliveries, and how long each is tried.

use chrono::{DateTime, Duration, Utc};

use super::delivery::{ActionStatus, Delivery};
use super::id::{BackendId, ScheduledActionId};
use super::trigger::{Occurrence, OccurrenceStatus};

/// The reason of an occurrence that waits for a backend, and of one that none ever took.
pub const NO_BACKEND: &str = "no_active_backend";

/// How often and how long something is tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The first pause.
    pub initial: Duration,
    /// The longest pause.
    pub max: Duration,
    /// How much longer each pause is than the one before.
    pub multiplier: f64,
    /// The most attempts.
    pub max_attempts: i32,
    /// From this age on, no attempt starts.
    pub max_age: Duration,
}

impl RetryPolicy {
    /// The pause after the attempt with number `attempt` (from 1): it grows by the multiplier up
    /// to the longest one, and `jitter`, from 0 to 1, takes up to half of it away, so that what
    /// failed together does not come back together.
    pub fn pause(&self, attempt: i32, jitter: f64) -> Duration {
        let grown = self.multiplier.max(1.0).powi(attempt.saturating_sub(1).clamp(0, 1000));
        let longest = as_milliseconds(self.max);
        let full = (as_milliseconds(self.initial) * grown).min(longest);
        let pause = full * (1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the longest pause")]
        Duration::milliseconds(pause as i64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "pauses are far below 2^52 milliseconds")]
fn as_milliseconds(duration: Duration) -> f64 {
    duration.num_milliseconds() as f64
}

/// Makes one delivery a backend, due since the occurrence is. Without a backend the occurrence waits for its
/// next attempt, or ends as failed when its age has reached the policy's.
pub fn fan_out(
    occurrence: &mut Occurrence,
    backends: &[BackendId],
    now: DateTime<Utc>,
    (policy, jitter): (&RetryPolicy, f64),
) -> Vec<Delivery> {
    if backends.is_empty() {
        wait(occurrence, now, policy, jitter);
        return Vec::new();
    }
    occurrence.deliveries = i32::try_from(backends.len()).unwrap_or(i32::MAX);
    occurrence.next_attempt_at = None;
    backends.iter().map(|backend| delivery(occurrence, *backend, now, policy)).collect()
}

/// Why an occurrence is not delivered, as a code: while it waits for a backend, that; else what it
/// was ended with.
pub fn reason(occurrence: &Occurrence) -> Option<&str> {
    let waits = occurrence.next_attempt_at.is_some();
    occurrence.reason.as_deref().or(waits.then_some(NO_BACKEND))
}

fn wait(occurrence: &mut Occurrence, now: DateTime<Utc>, policy: &RetryPolicy, jitter: f64) {
    let ends_at = occurrence.created_at + policy.max_age;
    if now >= ends_at {
        occurrence.status = OccurrenceStatus::Failed;
        occurrence.reason = Some(NO_BACKEND.to_owned());
        occurrence.next_attempt_at = None;
        occurrence.finished_at = Some(now);
        return;
    }
    occurrence.fan_out_attempts += 1;
    let next = now + policy.pause(occurrence.fan_out_attempts, jitter);
    occurrence.next_attempt_at = Some(next.min(ends_at));
}

fn delivery(
    occurrence: &Occurrence,
    backend_id: BackendId,
    now: DateTime<Utc>,
    policy: &RetryPolicy,
) -> Delivery {
    Delivery {
        id: ScheduledActionId::new(),
        trigger_id: occurrence.trigger_id,
        occurrence_id: occurrence.id,
        application_id: occurrence.application_id,
        backend_id,
        status: ActionStatus::Pending,
        payload: occurrence.payload.clone(),
        retry_count: 0,
        attempts_before: 0,
        execute_at: occurrence.scheduled_at.min(now),
        expires_at: Some(now + policy.max_age),
        executed_at: None,
        last_error: None,
        created_at: now,
        updated_at: now,
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;
    use crate::domain::id::{ApplicationId, OccurrenceId, TriggerId};
    use crate::domain::trigger::{Origin, Payload};

    const POLICY: RetryPolicy = RetryPolicy {
        initial: Duration::seconds(5),
        max: Duration::hours(1),
        multiplier: 2.0,
        max_attempts: 30,
        max_age: Duration::hours(24),
    };

    #[test]
    fn pauses_double_up_to_the_longest_one() {
        let pauses: Vec<_> =
            [1, 2, 3, 10, 11, 1000, i32::MAX].map(|n| POLICY.pause(n, 0.0).num_seconds()).into();
        assert_eq!(pauses, [5, 10, 20, 2560, 3600, 3600, 3600]);
    }

    #[test]
    fn jitter_takes_at_most_half_of_a_pause_away() {
        assert_eq!(POLICY.pause(2, 1.0), Duration::seconds(5));
        assert_eq!(POLICY.pause(2, 0.5), Duration::milliseconds(7500));
        assert_eq!(POLICY.pause(2, 7.0), Duration::seconds(5));
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap() + Duration::seconds(seconds)
    }

    /// Due and made at the beginning.
    fn occurrence() -> Occurrence {
        let trigger_id = TriggerId::new();
        Occurrence {
            id: OccurrenceId::new(),
            trigger_id,
            application_id: ApplicationId::new(),
            scheduled_at: at(0),
            until_at: None,
            occurrences: 1,
            origin: Origin::Schedule,
            status: OccurrenceStatus::Pending,
            reason: None,
            payload: Payload {
                trigger_id,
                trigger_name: "n".into(),
                cron_expression: "@daily".into(),
                run_key: "k".into(),
                executed_at: "2026-03-01T12:00:00Z".into(),
            },
            deliveries: 0,
            delivered: 0,
            failed: 0,
            fan_out_attempts: 0,
            next_attempt_at: Some(at(0)),
            created_at: at(0),
            finished_at: None,
        }
    }

    #[test]
    fn each_backend_gets_a_delivery_that_is_due_since_its_occurrence_is() {
        let (mut occurrence, backends) = (occurrence(), [BackendId::new(), BackendId::new()]);
        let deliveries = fan_out(&mut occurrence, &backends, at(7), (&POLICY, 0.0));
        assert_eq!((occurrence.deliveries, occurrence.next_attempt_at), (2, None));
        assert_eq!(occurrence.status, OccurrenceStatus::Pending);
        for (delivery, backend) in deliveries.iter().zip(backends) {
            assert_eq!((delivery.backend_id, delivery.occurrence_id), (backend, occurrence.id));
            assert_eq!(delivery.status, ActionStatus::Pending);
            assert_eq!((delivery.execute_at, delivery.created_at), (at(0), at(7)));
            assert_eq!(delivery.expires_at, Some(at(7) + POLICY.max_age));
            assert_eq!((delivery.retry_count, delivery.attempts_before), (0, 0));
        }
        assert_eq!(deliveries.len(), 2);
        let mut ahead = Occurrence { scheduled_at: at(60), ..occurrence };
        let early = fan_out(&mut ahead, &backends, at(7), (&POLICY, 0.0));
        assert_eq!(early[0].execute_at, at(7), "what is run by hand does not wait");
    }

    #[test]
    fn an_occurrence_without_a_backend_waits_ever_longer_and_ends_with_its_age() {
        let mut waiting = occurrence();
        for (now, count, next) in [(0, 1, 5), (5, 2, 15), (15, 3, 35)] {
            assert!(fan_out(&mut waiting, &[], at(now), (&POLICY, 0.0)).is_empty());
            assert_eq!(waiting.fan_out_attempts, count);
            assert_eq!(waiting.next_attempt_at, Some(at(next)));
            assert_eq!(reason(&waiting), Some(NO_BACKEND));
        }
        let end = 24 * 3600;
        fan_out(&mut waiting, &[], at(end - 1), (&POLICY, 0.0));
        assert_eq!(waiting.next_attempt_at, Some(at(end)), "no later than its end");
        assert_eq!((waiting.status, waiting.finished_at), (OccurrenceStatus::Pending, None));
        fan_out(&mut waiting, &[], at(end), (&POLICY, 0.0));
        assert_eq!((waiting.status, waiting.next_attempt_at), (OccurrenceStatus::Failed, None));
        assert_eq!(waiting.reason.as_deref(), Some(NO_BACKEND));
        assert_eq!((waiting.finished_at, waiting.fan_out_attempts), (Some(at(end)), 4));
    }
}
