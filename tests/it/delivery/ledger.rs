//! Every due time of the calendar has its row.

use chrono::Duration;
use trigger_manager::app::UpdateTrigger;
use trigger_manager::domain::cron::{Schedule, Zone};
use trigger_manager::domain::trigger::{CatchUp, OccurrenceStatus};

use crate::app::{TestApp, start};

#[tokio::test]
async fn nothing_is_lost_between_passes_however_far_apart() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("*/7 * * * * *").await;
    for pause in [1, 30, 2, 59, 61, 7, 3] {
        t.advance(pause);
        t.heartbeat(&[backend.id]).await;
        t.run().await;
    }
    let schedule = Schedule::parse("*/7 * * * * *").unwrap();
    let due: Vec<_> =
        schedule.between(&Zone::utc(), start(), start() + Duration::seconds(163)).collect();
    let rows: Vec<_> = t.occurrences().await.iter().map(|o| o.scheduled_at).collect();
    assert_eq!(rows, due);
    assert_eq!(t.receiver.received().len(), due.len());
}

#[tokio::test]
async fn more_than_sixty_in_one_window_keeps_the_first_and_records_the_rest() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("* * * * * *").await;
    t.advance(100);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 60);
    let skipped = t.occurrences().await.pop().unwrap();
    assert_eq!(skipped.status, OccurrenceStatus::Skipped);
    assert_eq!(skipped.reason.as_deref(), Some("window_cap"));
    assert_eq!(skipped.occurrences, 40);
    assert_eq!(skipped.scheduled_at, start() + Duration::seconds(61));
    assert_eq!(skipped.until_at, Some(start() + Duration::seconds(100)));
    let line = "pfy_executor_occurrences_skipped_total{reason=\"window_cap\"} 40";
    assert!(t.app.metrics.encode().contains(line));
    t.live(1, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 61, "the cap is no stop");
}

#[tokio::test]
async fn what_was_missed_longer_ago_than_the_catch_up_window_is_recorded_only() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("0 */30 * * * *").await;
    t.advance(3 * 3600);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    assert_eq!(t.receiver.received().len(), 3, "those of the last hour");
    let skipped = t.occurrences().await.remove(0);
    assert_eq!(skipped.status, OccurrenceStatus::Skipped);
    assert_eq!((skipped.reason.as_deref(), skipped.occurrences), (Some("catch_up_window"), 3));
}

#[tokio::test]
async fn a_trigger_says_what_happens_to_what_was_missed() {
    for (policy, delivered) in [(CatchUp::All, 6), (CatchUp::Last, 1), (CatchUp::None, 0)] {
        let t = TestApp::new().await;
        let backend = t.register("a").await;
        t.trigger_with("0 */5 * * * *", policy).await;
        t.advance(30 * 60 + 200);
        t.heartbeat(&[backend.id]).await;
        t.run().await;
        assert_eq!(t.receiver.received().len(), delivered, "{policy:?}");
        let rows = t.occurrences().await;
        assert_eq!(rows.iter().map(|row| row.occurrences).sum::<i32>(), 6, "{policy:?}");
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_does_not_fire_again() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    t.trigger("*/10 * * * * *").await;
    t.live(30, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 3);
    t.advance(-25);
    t.live(25, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 3);
    t.live(10, &[backend.id]).await;
    assert_eq!(t.receiver.received().len(), 4);
}

#[tokio::test]
async fn an_edit_where_the_clock_is_behind_begins_no_window_again() {
    let t = TestApp::new().await;
    let backend = t.register("a").await;
    let trigger = t.trigger("* * * * * *").await;
    t.advance(3);
    t.heartbeat(&[backend.id]).await;
    t.run().await;
    t.advance(-3);
    let every_other =
        UpdateTrigger { cron_expression: Some("*/2 * * * * *".into()), ..UpdateTrigger::default() };
    let edited = t.update(trigger.id, every_other).await;
    assert_eq!(edited.evaluated_at, start() + Duration::seconds(3));
    assert_eq!(edited.next_fire_at, Some(start() + Duration::seconds(4)));
}

#[tokio::test]
async fn an_edit_after_the_clock_was_far_ahead_begins_its_window_soon() {
    let t = TestApp::new().await;
    let trigger = t.trigger("0 0 * * * *").await;
    t.advance(7200);
    t.run().await;
    t.advance(-7200);
    let every_second =
        UpdateTrigger { cron_expression: Some("* * * * * *".into()), ..UpdateTrigger::default() };
    let edited = t.update(trigger.id, every_second).await;
    assert_eq!(edited.next_fire_at, Some(start() + Duration::seconds(11)));
}
