//! The log, the depth of the queue, what executors tell, and what processes agree on.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::json;
use trigger_manager::domain::delivery::{ActionStatus, Attempt};
use trigger_manager::domain::executor::ExecutorInstance;
use trigger_manager::domain::id::{ExecutorId, ScheduledActionId};
use trigger_manager::store::executor;
use trigger_manager::store::log::{self, NewAttempt, NewLog};
use trigger_manager::store::{delivery, setting};
use uuid::Uuid;

use super::world::{World, at, number, query, race, within};
use crate::harness::TestStore;

#[tokio::test]
async fn of_many_attempts_the_newest_are_read_of_each_delivery() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backends = [world.backend("one").await.id, world.backend("other").await.id];
    let (_, deliveries) = world.occurrence(&backends).await;
    let attempts = |id: Uuid, count: i32| -> Vec<_> {
        (1..=count)
            .map(|attempt| NewAttempt {
                scheduled_action_id: id,
                status: "error",
                error_message: None,
                attempt,
                response_status: None,
                duration_ms: None,
                reason: None,
                platform_request_id: None,
                created_date: at(attempt.into()),
            })
            .collect()
    };
    let (many, few) = (deliveries[0].id, deliveries[1].id);
    within!(store, |tx| log::log_attempts(&*tx, &attempts(many.0, 1100)));
    within!(store, |tx| log::log_attempts(&*tx, &attempts(few.0, 3)));
    let read = async |ids: &[_], of| -> Vec<_> {
        let all = delivery::attempts(store.read(), ids).await.unwrap().into_iter();
        all.filter(|one| one.delivery_id == of).map(|one| one.number).collect()
    };
    assert_eq!(read(&[many], many).await, (101..=1100).collect::<Vec<_>>());
    assert_eq!(read(&[many, few], many).await, (601..=1100).collect::<Vec<_>>());
    assert_eq!(read(&[many, few], few).await, [1, 2, 3]);
    let crowd: Vec<_> = (0..18).map(|_| ScheduledActionId::new()).chain([many, few]).collect();
    assert_eq!(read(&crowd, many).await, (1001..=1100).collect::<Vec<_>>());
    assert_eq!(read(&crowd, few).await, [1, 2, 3]);
    let asked = [(many, 1), (many, 1100), (few, 4), (few, 3)];
    let logged = delivery::logged(store.read(), &asked).await.unwrap();
    let expected = [(many, 1, at(1)), (many, 1100, at(1100)), (few, 3, at(3))];
    assert_eq!(logged, expected.into_iter().collect());
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "rows, as they are written and as they are read")]
async fn attempts_are_logged_in_a_batch_and_read_oldest_first() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let (_, deliveries) = world.occurrence(&[backend.id]).await;
    let full = NewAttempt {
        scheduled_action_id: deliveries[0].id.0,
        status: "error",
        error_message: Some("the backend answered 503"),
        attempt: 1,
        response_status: Some(503),
        duration_ms: Some(1234),
        reason: Some("status"),
        platform_request_id: Some("request"),
        created_date: at(1000),
    };
    let bare = NewAttempt {
        status: "success",
        error_message: None,
        attempt: 2,
        response_status: None,
        duration_ms: None,
        reason: None,
        platform_request_id: None,
        created_date: at(2001),
        ..full.clone()
    };
    let config = json!({"run_key": "it's \"this\"", "list": [1, null, "ü"]});
    let skipped = NewLog {
        trigger_on: "trigger",
        action_config: Some(Cow::Borrowed(&config)),
        status: "skipped",
        trigger_id: Some(deliveries[0].trigger_id.0),
        created_date: at(3000),
        ..NewLog::default()
    };
    let unknown = NewLog { action_config: None, ..skipped.clone() };
    within!(store, |tx| log::log_attempts(&*tx, &[full, bare]));
    within!(store, |tx| log::insert_logs(&*tx, &[skipped, unknown]));
    within!(store, |tx| log::insert_logs(&*tx, &[]));
    let attempts = delivery::attempts(store.read(), &[deliveries[0].id]).await.unwrap();
    let expected = [
        Attempt {
            id: attempts[0].id,
            delivery_id: deliveries[0].id,
            number: 1,
            status: "error".to_owned(),
            response_status: Some(503),
            duration_ms: Some(1234),
            reason: Some("status".to_owned()),
            error_message: Some("the backend answered 503".to_owned()),
            created_at: at(1000),
        },
        Attempt {
            id: attempts[1].id,
            delivery_id: deliveries[0].id,
            number: 2,
            status: "success".to_owned(),
            response_status: None,
            duration_ms: None,
            reason: None,
            error_message: None,
            created_at: at(2001),
        },
    ];
    assert_eq!(attempts, expected);
    assert!(attempts[0].id < attempts[1].id);
    let nulls = "SELECT count(*) FROM trigger_log WHERE action_config IS NULL";
    assert_eq!(number(&store, nulls).await, 3, "nothing is stored as SQL's null");
    let rows = query(&store, "SELECT action_config FROM trigger_log ORDER BY id", vec![]).await;
    let stored = |row: usize| rows[row].try_get::<serde_json::Value>("", "action_config").unwrap();
    assert_eq!(stored(2), config);
}

#[tokio::test]
async fn the_depth_of_the_queue_counts_what_is_pending_by_application() {
    let store = TestStore::new().await;
    assert_eq!(executor::queue_depth(store.read()).await.unwrap(), []);
    let (one, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    one.queued(one.backend("backend").await.id, 3).await;
    other.queued(other.backend("backend").await.id, 5).await;
    other.work_off(at(1), ActionStatus::Completed).await;
    let depth = executor::queue_depth(store.read()).await.unwrap();
    let depth: HashMap<_, _> = depth.into_iter().collect();
    assert_eq!(depth, HashMap::from([(one.application.id, 1), (other.application.id, 3)]));
}

#[tokio::test]
async fn an_executor_has_one_row_that_its_reports_renew() {
    let store = TestStore::new().await;
    let mut instance = ExecutorInstance {
        id: ExecutorId::new(),
        host: "host".to_owned(),
        process_id: 5_000_000_000,
        version: "1.0".to_owned(),
        started_at: at(0),
        last_pass_at: at(1),
        in_flight: 3,
        clock_skew_ms: -7,
        stopped_at: None,
    };
    within!(store, |tx| executor::report(&*tx, &instance));
    assert_eq!(executor::instances(store.read(), at(1)).await.unwrap(), [instance.clone()]);
    instance.last_pass_at = at(1001);
    (instance.in_flight, instance.clock_skew_ms) = (0, 12);
    instance.stopped_at = Some(at(1002));
    within!(store, |tx| executor::report(&*tx, &instance));
    assert_eq!(executor::instances(store.read(), at(1001)).await.unwrap(), [instance]);
    assert_eq!(executor::instances(store.read(), at(1002)).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_at_once_agree_on_one_value() {
    let store = TestStore::racing().await;
    let values = race(|number| {
        let store = (*store).clone();
        async move {
            let value = format!("value {number}");
            within!(store, |tx| setting::get_or_set(&*tx, "key", &value, at(0)))
        }
    })
    .await;
    let stands = setting::get(store.read(), "key").await.unwrap().unwrap();
    assert!(values.iter().all(|value| *value == stands), "{values:?}");
}

#[tokio::test]
async fn a_setting_is_kept_until_it_is_set_anew() {
    let store = TestStore::new().await;
    assert_eq!(setting::get(store.read(), "key").await.unwrap(), None);
    assert_eq!(within!(store, |tx| setting::get_or_set(&*tx, "key", "first", at(0))), "first");
    assert_eq!(within!(store, |tx| setting::get_or_set(&*tx, "key", "second", at(1))), "first");
    within!(store, |tx| setting::set(&*tx, "key", "third", at(2)));
    assert_eq!(setting::get(store.read(), "key").await.unwrap().as_deref(), Some("third"));
    within!(store, |tx| setting::set(&*tx, "other", "new", at(2)));
    assert_eq!(setting::get(store.read(), "other").await.unwrap().as_deref(), Some("new"));
}
