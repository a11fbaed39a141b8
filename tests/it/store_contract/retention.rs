//! What is deleted when its time is up, and what stays.

use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::{Caller, Change};
use trigger_manager::domain::cycle::{Cycle, CycleStatus};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::event::{Event, EventOrigin, EventStatus};
use trigger_manager::domain::id::{AudienceId, CycleId, EventId, ScheduledActionId, TriggerRuleId};
use trigger_manager::domain::line::LineOa;
use trigger_manager::domain::scheduled_action::{ActionConfig, Cause, Concern, ScheduledAction};
use trigger_manager::domain::trigger::OccurrenceStatus;
use trigger_manager::store::event::Processed;
use trigger_manager::store::executor;
use trigger_manager::store::log::{self, NewLog};
use trigger_manager::store::retention::{Kept, Logs, Swept, Table, delete_logs, sweep};
use trigger_manager::store::{cycle, event, scheduled_action};
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
        let mut delivery = super::world::new_delivery(&occurrence, backend.id);
        if ended.is_some() {
            delivery.status = ActionStatus::Completed;
        }
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
            status: "skipped",
            trigger_id: Some(Uuid::now_v7()),
            created_date: at(time),
            ..NewLog::default()
        })
        .into();
    within!(store, |tx| log::insert_logs(&*tx, &logs));
    for expected in [2, 1, 0] {
        let deleted = within!(store, |tx| delete_logs(&tx, Logs::Others, at(1000), 2));
        assert_eq!(deleted, expected);
    }
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_log").await, 1);
}

#[tokio::test]
async fn rows_about_what_was_held_back_have_a_time_of_their_own() {
    let store = TestStore::new().await;
    let log = |status, time| NewLog {
        trigger_on: "form_submitted",
        status,
        created_date: at(time),
        ..NewLog::default()
    };
    let logs = [log("held_back", 0), log("queued", 0), log("held_back", 1), log("held_back", 9)];
    within!(store, |tx| log::insert_logs(&*tx, &logs));
    let left = "SELECT count(*) FROM trigger_log WHERE status = 'queued'";
    for expected in [1, 1, 0] {
        let deleted = within!(store, |tx| delete_logs(&tx, Logs::HeldBack, at(9), 1));
        assert_eq!((deleted, number(&store, left).await), (expected, 1));
    }
    assert_eq!(within!(store, |tx| delete_logs(&tx, Logs::Others, at(9), 100)), 1);
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_log").await, 1);
}

/// Sweeps a table in steps of two rows. Answers how many rows went.
async fn sweep_all(store: &TestStore, table: Table, kept: Kept) -> u64 {
    let (mut after, mut deleted) = (Uuid::nil(), 0);
    loop {
        let swept: Swept = within!(store, |tx| sweep(&tx, table, kept, (after, 2)));
        deleted += swept.deleted;
        match swept.last {
            Some(last) => after = last,
            None => return deleted,
        }
    }
}

#[tokio::test]
async fn ended_work_of_rules_goes_when_its_time_is_up_and_work_that_waits_never() {
    use ActionStatus::{Cancelled, Completed, Expired, Failed, Pending};
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await.id;
    // A delivery of a trigger goes with its occurrence only.
    world.queued(backend, 1).await;
    world.work_off(at(0), Completed).await;
    let account = world.line_oa("1").await;
    for (status, ended, stays) in [
        (Completed, 999, false),
        (Completed, 1000, true),
        (Failed, 499, false),
        (Failed, 999, true),
        (Expired, 499, false),
        (Expired, 500, true),
        (Cancelled, 499, false),
        (Cancelled, 500, true),
    ] {
        let action = action_of(&account);
        let id = action.id;
        within!(store, |tx| scheduled_action::insert(&*tx, &[(action, None)]));
        let claimed = world.claim(at(1)).await;
        assert_eq!(claimed[0].action.id, id);
        let finished = super::world::ending(&claimed[0], status, at(ended));
        within!(store, |tx| executor::finish(&*tx, &[finished], at(ended)));
        let found =
            async || scheduled_action::find(store.read(), Scope::Everything, id).await.is_ok();
        assert!(found().await);
        let kept = Kept { well: Some(at(1000)), badly: Some(at(500)) };
        sweep_all(&store, Table::Actions, kept).await;
        assert_eq!(found().await, stays, "{status:?} {ended}");
    }
    let waiting = action_of(&account);
    assert_eq!(waiting.status, Pending);
    within!(store, |tx| scheduled_action::insert(&*tx, &[(waiting, None)]));
    assert_eq!(sweep_all(&store, Table::Actions, Kept::since(Some(at(9_999)))).await, 4);
    let left = "SELECT count(*) FROM scheduled_action WHERE status = ";
    assert_eq!(number(&store, &format!("{left}'pending'")).await, 1);
    assert_eq!(number(&store, &format!("{left}'completed'")).await, 1, "the trigger's delivery");
}

/// Work of the account that is due at once.
fn action_of(account: &LineOa) -> ScheduledAction {
    ScheduledAction {
        id: ScheduledActionId::new(),
        parent_id: None,
        action_type: "send_message".into(),
        config: ActionConfig::Rendered(serde_json::json!({})),
        cause: Cause::default(),
        concern: Concern {
            organization_id: Some(account.organization_id),
            line_oa_id: Some(account.id),
            ..Concern::default()
        },
        lane: account.id.0,
        status: ActionStatus::Pending,
        retry_count: 0,
        attempts_before: 0,
        execute_at: at(0),
        expires_at: None,
        executed_at: None,
        last_error: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

#[tokio::test]
async fn ended_cycles_go_when_their_time_is_up() {
    use CycleStatus::{Cancelled, Completed, Failed, Processing};
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = world.line_oa("1").await;
    let rule = TriggerRuleId::new();
    for (due, (status, ended)) in [
        (Completed, Some(999)),
        (Completed, Some(1000)),
        (Failed, Some(499)),
        (Failed, Some(500)),
        (Cancelled, Some(499)),
        (Processing, None),
    ]
    .into_iter()
    .enumerate()
    {
        let cycle = Cycle {
            id: CycleId::new(),
            trigger_rule_id: rule,
            line_oa_id: account.id,
            organization_id: account.organization_id,
            audience_id: AudienceId::new(),
            scheduled_at: at(i64::try_from(due).unwrap()),
            started_at: at(0),
            completed_at: ended.map(at),
            status,
            total_users: 0,
            processed_users: 0,
            failed_users: 0,
            cursor: None,
            error_message: None,
        };
        assert!(within!(store, |tx| cycle::insert(&*tx, &cycle)));
    }
    let kept = Kept { well: Some(at(1000)), badly: Some(at(500)) };
    assert_eq!(sweep_all(&store, Table::Cycles, kept).await, 3);
    assert_eq!(sweep_all(&store, Table::Cycles, kept).await, 0);
    let left = "SELECT count(*) FROM scheduled_trigger_execution";
    assert_eq!(number(&store, left).await, 3);
}

#[tokio::test]
async fn evaluated_events_go_when_their_time_is_up_and_their_ids_are_free_again() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = world.line_oa("1").await;
    let event = |event_id: &str| Event {
        id: EventId::new(),
        event_id: event_id.into(),
        event_type: "form_submitted".into(),
        line_oa_id: account.id,
        organization_id: account.organization_id,
        user_id: None,
        occurred_at: at(0),
        payload: serde_json::json!({}),
        subject: None,
        origin: EventOrigin::Api,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: at(0),
        processed_at: None,
    };
    let events = ["old", "failed", "young", "waiting"].map(event);
    within!(store, |tx| event::insert(&*tx, &events));
    for (event, error, time) in [(0, None, 999), (1, Some("no"), 999), (2, None, 1000)] {
        let (id, error) = (events[event].id, error.map(str::to_owned));
        let done = [Processed { id, matched: 0, error }];
        within!(store, |tx| event::processed(&*tx, &done, at(time)));
    }
    assert_eq!(sweep_all(&store, Table::Events, Kept::since(None)).await, 0);
    assert_eq!(sweep_all(&store, Table::Events, Kept::since(Some(at(1000)))).await, 2);
    let again = ["old", "young", "waiting"].map(event);
    let stored = within!(store, |tx| event::insert(&*tx, &again));
    assert_eq!(stored.into_iter().collect::<Vec<_>>(), [again[0].id]);
}
