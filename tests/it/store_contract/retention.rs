//! What is deleted when its time is up, and what stays.

use trigger_manager::domain::audit::{Caller, Change};
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::executor::{self, NewLog};
use trigger_manager::store::retention::{Kept, Swept, Table, delete_logs, sweep};
use uuid::Uuid;

use super::world::{World, at, number, within};
use crate::harness::TestStore;

#[tokio::test]
async fn ended_occurrences_go_when_their_time_is_up_with_their_deliveries() {
    use OccurrenceStatus::{Cancelled, Delivered, Failed, PartiallyDelivered, Pending, Skipped};
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let mut kept = Vec::new();
    for (number, (status, ended, stays)) in [
        (Delivered, Some(999), false),
        (Delivered, Some(1000), true),
        (Skipped, Some(999), false),
        (Cancelled, Some(499), false),
        (Failed, Some(499), false),
        (Failed, Some(500), true),
        (PartiallyDelivered, Some(499), false),
        (PartiallyDelivered, Some(999), true),
        (Pending, None, true),
    ]
    .into_iter()
    .enumerate()
    {
        let due = at(i64::try_from(number).unwrap());
        let mut occurrence = world.new_occurrence(&trigger, due);
        (occurrence.status, occurrence.finished_at) = (status, ended.map(at));
        let delivery = super::world::new_delivery(&occurrence, backend.id);
        within!(store, |tx| executor::insert_occurrences(&*tx, &[occurrence.clone()]));
        within!(store, |tx| executor::insert_deliveries(&*tx, &[(delivery, None)]));
        if stays {
            kept.push(occurrence.id);
        }
    }
    let limits = Kept { well: Some(at(1000)), badly: Some(at(500)) };
    let (mut after, mut deleted, mut steps) = (Uuid::nil(), 0, 0);
    loop {
        let swept: Swept = within!(store, |tx| sweep(&tx, Table::Occurrences, limits, (after, 2)));
        (deleted, steps) = (deleted + swept.deleted, steps + 1);
        match swept.last {
            Some(last) => after = last,
            None => break,
        }
    }
    assert_eq!((deleted, steps), (5, 5));
    let everything = trigger_manager::domain::access::Scope::Everything;
    let left =
        trigger_manager::store::trigger::occurrences_by_ids(store.read(), everything, &kept).await;
    assert_eq!(left.unwrap().len(), kept.len());
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_occurrence").await, 4);
    assert_eq!(number(&store, "SELECT count(*) FROM scheduled_action").await, 4);
}

#[tokio::test]
async fn what_is_kept_for_ever_is() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", None).await;
    for (due, status) in [(0, OccurrenceStatus::Delivered), (1, OccurrenceStatus::Failed)] {
        let mut occurrence = world.new_occurrence(&trigger, at(due));
        (occurrence.status, occurrence.finished_at) = (status, Some(at(2)));
        within!(store, |tx| executor::insert_occurrences(&*tx, &[occurrence]));
    }
    let never = Kept { well: None, badly: None };
    let swept = within!(store, |tx| sweep(&tx, Table::Occurrences, never, (Uuid::nil(), 10)));
    assert_eq!(swept, Swept { deleted: 0, last: None });
    let failures = Kept { well: Some(at(1_000_000)), badly: None };
    let swept = within!(store, |tx| sweep(&tx, Table::Occurrences, failures, (Uuid::nil(), 10)));
    assert_eq!(swept.deleted, 1);
    let left = "SELECT count(*) FROM trigger_occurrence WHERE status = 'failed'";
    assert_eq!(number(&store, left).await, 1);
}

#[tokio::test]
async fn audit_rows_go_when_their_time_is_up() {
    let store = TestStore::new().await;
    for time in [0, 999, 1000, 2000] {
        let change = Change {
            action: "trigger.create",
            entity_type: "trigger",
            entity_id: Uuid::now_v7(),
            project_id: None,
            application_id: None,
            before: None,
            after: None,
        };
        let tx = store.begin().await.unwrap();
        tx.commit(&Caller::system(), at(time), &[change]).await.unwrap();
    }
    let kept = Kept { well: Some(at(1000)), badly: Some(at(1000)) };
    let swept = within!(store, |tx| sweep(&tx, Table::Audit, kept, (Uuid::nil(), 100)));
    assert_eq!(swept, Swept { deleted: 2, last: None });
    assert_eq!(number(&store, "SELECT count(*) FROM audit_log").await, 2);
}

#[tokio::test]
async fn old_log_rows_go_oldest_first_and_no_more_than_asked_for() {
    let store = TestStore::new().await;
    let logs: Vec<_> = [0, 1, 2, 1000]
        .map(|time| NewLog {
            trigger_on: "trigger",
            action_type: None,
            action_config: None,
            status: "success",
            error_message: None,
            trigger_id: Uuid::now_v7(),
            trigger_occurrence_id: Uuid::now_v7(),
            backend_id: None,
            scheduled_action_id: None,
            application_id: Uuid::now_v7(),
            attempt: None,
            response_status: None,
            duration_ms: None,
            reason: None,
            created_date: at(time),
        })
        .into();
    within!(store, |tx| executor::insert_logs(&*tx, &logs));
    assert_eq!(within!(store, |tx| delete_logs(&tx, at(1000), 2)), 2);
    assert_eq!(within!(store, |tx| delete_logs(&tx, at(1000), 2)), 1);
    assert_eq!(within!(store, |tx| delete_logs(&tx, at(1000), 2)), 0);
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_log").await, 1);
}
