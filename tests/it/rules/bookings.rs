//! Reminders of bookings that change.

use chrono::{DateTime, Duration, Utc};
use serde_json::json;
use trigger_manager::app::{RuleToTest, SampleEvent};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::event::Event;
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::line::stand_in::Fault;

use super::place::{Place, text, user};

/// A day before the start, at most once an hour.
async fn reminding() -> Place {
    let p = Place::new().await;
    let rule = TriggerRule {
        source_type: "booking_event".into(),
        source_config: json!({"status": "confirmed", "offset": "-1d"}),
        action_config: text("Tomorrow: {{ event.payload.bookingId }}"),
        frequency: Frequency::OncePerHour,
        ..p.draft()
    };
    p.save(rule).await;
    p
}

fn booking(p: &Place, status: &str, starts_at: DateTime<Utc>, occurred_at: DateTime<Utc>) -> Event {
    let payload = json!({"bookingId": "b1", "status": status, "startsAt": starts_at});
    p.event_at("booking_event", Some(user(1)), payload, occurred_at)
}

async fn pending(p: &Place) -> Vec<DateTime<Utc>> {
    let actions = p.actions().await.into_iter();
    actions
        .filter(|action| action.status == ActionStatus::Pending)
        .map(|action| action.execute_at)
        .collect()
}

#[tokio::test]
async fn a_booking_that_moves_takes_its_reminder_along() {
    let p = reminding().await;
    let now = p.t.app.now();
    let (first, second) = (now + Duration::days(5), now + Duration::days(8));
    p.happens(&[booking(&p, "confirmed", first, now)]).await;
    p.t.run().await;
    assert_eq!(pending(&p).await, [first - Duration::days(1)]);
    p.t.advance(60);
    p.happens(&[booking(&p, "confirmed", second, p.t.app.now())]).await;
    p.t.run().await;
    assert_eq!(pending(&p).await, [second - Duration::days(1)], "within the same hour");
}

#[tokio::test]
async fn a_reminder_that_moves_lets_no_other_one_of_the_same_batch_beside_it() {
    let p = reminding().await;
    let now = p.t.app.now();
    p.happens(&[booking(&p, "confirmed", now + Duration::days(5), now)]).await;
    p.t.run().await;
    p.t.advance(2 * 3600);
    let now = p.t.app.now();
    let moved = booking(&p, "confirmed", now + Duration::days(8), now);
    let mut other = booking(&p, "confirmed", now + Duration::days(6), now);
    other.payload["bookingId"] = "b2".into();
    other.subject = Some("b2".into());
    p.happens(&[moved, other]).await;
    assert_eq!(p.t.executor.take_events(now).await.unwrap().events, 2);
    assert_eq!(pending(&p).await, [now + Duration::days(7)]);
    assert_eq!(p.said().await.pop().unwrap(), ("held_back", Some("waiting".to_owned())));
}

#[tokio::test]
async fn a_booking_that_is_cancelled_is_not_reminded_of() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = now + Duration::days(5);
    p.happens(&[booking(&p, "confirmed", starts, now)]).await;
    p.t.run().await;
    p.t.advance(60);
    p.happens(&[booking(&p, "cancelled", starts, p.t.app.now())]).await;
    p.t.run().await;
    assert!(pending(&p).await.is_empty());
    assert_eq!(p.actions().await[0].last_error.as_deref(), Some("superseded"));
}

#[tokio::test]
async fn both_states_in_one_batch_end_as_the_later_one() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = now + Duration::days(5);
    let later = now + Duration::milliseconds(1);
    p.happens(&[booking(&p, "confirmed", starts, now), booking(&p, "cancelled", starts, later)])
        .await;
    p.t.run().await;
    assert!(pending(&p).await.is_empty());
}

#[tokio::test]
async fn many_states_of_one_booking_keep_nobody_waiting() {
    let p = reminding().await;
    p.save(p.draft()).await;
    let now = p.t.app.now();
    let starts = now + Duration::days(5);
    let at = |ms| now + Duration::milliseconds(ms);
    let mut events: Vec<_> = (0..50).map(|ms| booking(&p, "confirmed", starts, at(ms))).collect();
    events.push(p.form(2));
    p.happens(&events).await;
    assert_eq!(p.t.executor.take_events(now).await.unwrap().events, 51);
    assert_eq!(p.actions().await.len(), 2);
    let of_the_last = p.events().await[49].id;
    let reminder = p.actions().await.into_iter().find(|action| action.execute_at > now).unwrap();
    assert_eq!(reminder.cause.event_id, Some(of_the_last));
    let held = p.said().await.into_iter().filter(|said| said.1.as_deref() == Some("superseded"));
    assert_eq!(held.count(), 49);
}

#[tokio::test]
async fn of_states_of_one_instant_the_last_stored_counts_and_they_keep_nobody_waiting() {
    let p = reminding().await;
    p.save(p.draft()).await;
    let now = p.t.app.now();
    let starts = |days| now + Duration::days(days);
    let mut events: Vec<_> = (3..13).map(|d| booking(&p, "confirmed", starts(d), now)).collect();
    events.push(p.form(2));
    p.happens(&events).await;
    assert_eq!(p.t.executor.take_events(now).await.unwrap().events, 11);
    assert_eq!(pending(&p).await, [starts(11), now], "the reminder, and the form's message");
}

/// The later state is in the next batch.
#[tokio::test]
async fn a_state_that_was_overtaken_takes_no_reminder_back_which_the_later_one_would_move() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = |days| now + Duration::days(days);
    p.happens(&[booking(&p, "confirmed", starts(5), now)]).await;
    p.t.run().await;
    p.t.advance(60);
    let at = |ms| p.t.app.now() + Duration::milliseconds(ms);
    let mut events = vec![booking(&p, "confirmed", starts(6), at(0))];
    events.extend((0..500).map(|_| p.form(2)));
    events.push(booking(&p, "confirmed", starts(7), at(1)));
    p.happens(&events).await;
    assert_eq!(p.t.executor.take_events(p.t.app.now()).await.unwrap().events, 500);
    assert_eq!(pending(&p).await, [starts(4)]);
    p.t.run().await;
    assert_eq!(pending(&p).await, [starts(6)], "within the same hour");
}

#[tokio::test]
async fn a_state_that_comes_late_does_not_bring_the_reminder_back() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = now + Duration::days(5);
    p.happens(&[booking(&p, "cancelled", starts, now)]).await;
    p.t.run().await;
    p.happens(&[booking(&p, "confirmed", starts, now - Duration::seconds(5))]).await;
    p.t.run().await;
    assert!(pending(&p).await.is_empty());
    assert_eq!(p.said().await.pop().unwrap(), ("held_back", Some("superseded".to_owned())));
}

#[tokio::test]
async fn a_reminder_whose_moment_has_passed_is_held_back() {
    let p = reminding().await;
    let now = p.t.app.now();
    p.happens(&[booking(&p, "confirmed", now + Duration::hours(2), now)]).await;
    p.t.run().await;
    assert_eq!(p.said().await, [("held_back", Some("expired".to_owned()))]);
}

#[tokio::test]
async fn a_booking_that_moves_twice_at_once_keeps_its_reminder() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = |days| now + Duration::days(days);
    p.happens(&[booking(&p, "confirmed", starts(5), now)]).await;
    p.t.run().await;
    p.t.advance(60);
    let at = |ms| p.t.app.now() + Duration::milliseconds(ms);
    p.happens(&[
        booking(&p, "confirmed", starts(6), at(0)),
        booking(&p, "confirmed", starts(7), at(1)),
    ])
    .await;
    p.t.run().await;
    assert_eq!(pending(&p).await, [starts(6)]);
}

#[tokio::test]
async fn of_two_states_of_one_instant_one_reminds() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = |days| now + Duration::days(days);
    p.happens(&[booking(&p, "confirmed", starts(5), now)]).await;
    p.t.run().await;
    p.t.advance(60);
    let at = p.t.app.now();
    p.happens(&[booking(&p, "confirmed", starts(6), at), booking(&p, "confirmed", starts(7), at)])
        .await;
    p.t.run().await;
    assert_eq!(pending(&p).await.len(), 1);
}

#[tokio::test]
async fn a_reminder_whose_event_is_kept_no_more_is_still_taken_back() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = now + Duration::days(60);
    p.happens(&[booking(&p, "confirmed", starts, now)]).await;
    p.t.run().await;
    p.t.clock.advance(Duration::days(40));
    p.t.executor.retain(p.t.app.now()).await.unwrap();
    assert!(p.events().await.is_empty());
    p.happens(&[booking(&p, "cancelled", starts, p.t.app.now())]).await;
    p.t.run().await;
    assert!(pending(&p).await.is_empty());
}

#[tokio::test]
async fn a_reminder_that_is_claimed_already_is_taken_back_too() {
    let p = reminding().await;
    let now = p.t.app.now();
    let starts = now + Duration::days(5);
    p.happens(&[booking(&p, "confirmed", starts, now)]).await;
    p.t.run().await;
    p.t.clock.advance(Duration::days(4));
    p.happens(&[booking(&p, "cancelled", starts, p.t.app.now())]).await;
    let claiming = p.another_executor().await;
    let now = p.t.app.now();
    assert_eq!(claiming.claim(now, 10).await.unwrap(), 1);
    p.t.executor.take_events(now).await.unwrap();
    assert_eq!(p.actions().await[0].status, ActionStatus::Cancelled);
    p.t.advance(60);
    p.t.run().await;
    assert!(p.sent().is_empty());
}

#[tokio::test]
async fn a_start_that_no_database_can_hold_is_no_payload() {
    let p = reminding().await;
    for starts in ["+10000-01-01T00:00:00Z", "+262142-12-31T23:59:59Z", "1969-12-31T23:59:59Z"] {
        let payload = json!({"bookingId": "b", "status": "confirmed", "startsAt": starts});
        p.happens(&[p.event("booking_event", Some(user(1)), payload)]).await;
    }
    p.t.run().await;
    let events = p.events().await;
    assert!(events.iter().all(|event| event.error.as_deref().unwrap().contains("startsAt")));
}

/// Whether a dry run and then the event itself fire, when the booking moves after its reminder was
/// attempted and is tried again, by itself or by a person.
async fn fire_after_an_attempt(frequency: Frequency, by_a_person: bool) -> (bool, bool) {
    let p = Place::new().await;
    let rule = TriggerRule {
        source_type: "booking_event".into(),
        source_config: json!({"status": "confirmed", "offset": "-1d"}),
        frequency,
        ..p.draft()
    };
    let (rule, now) = (p.save(rule).await, p.t.app.now());
    p.happens(&[booking(&p, "confirmed", now + Duration::days(5), now)]).await;
    p.t.run().await;
    p.line.fail_next(1, Fault::ErrorBefore);
    p.t.advance(4 * 24 * 3600);
    p.t.run().await;
    let waiting = p.actions().await.remove(0);
    assert_eq!((waiting.status, waiting.retry_count), (ActionStatus::Pending, 1));
    if by_a_person {
        let (app, caller) = (&p.t.app, &p.t.caller);
        app.cancel_scheduled_action(caller, waiting.id).await.unwrap();
        let again = app.retry_scheduled_action(caller, waiting.id).await.unwrap();
        assert_eq!((again.retry_count, again.attempts_before), (1, 1));
    }
    let moved = booking(&p, "confirmed", now + Duration::days(8), p.t.app.now());
    let sample = SampleEvent {
        user_id: moved.user_id.clone(),
        payload: Some(moved.payload.clone()),
        ..SampleEvent::default()
    };
    let test = RuleToTest::Saved(rule.id);
    let told = p.t.app.test_trigger_rule(Scope::Everything, test, Some(sample)).await.unwrap();
    p.happens(&[moved]).await;
    p.t.run().await;
    (told.would_fire, pending(&p).await.len() == 1)
}

#[tokio::test]
async fn a_dry_run_counts_work_that_was_attempted_as_the_gates_do() {
    for by_a_person in [false, true] {
        let fire = |frequency| fire_after_an_attempt(frequency, by_a_person);
        assert_eq!(fire(Frequency::OncePerHour).await, (true, true));
        assert_eq!(fire(Frequency::OncePerMonth).await, (false, false));
    }
}
