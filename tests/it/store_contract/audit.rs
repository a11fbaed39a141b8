//! A change and its record are written together or not at all.

use serde_json::json;
use trigger_manager::domain::access::{Actor, Scope};
use trigger_manager::domain::audit::{Caller, Change};
use trigger_manager::domain::id::{ApplicationId, MachineUserId, UserId};
use trigger_manager::store::audit::{Filter, list};
use trigger_manager::store::trigger;
use uuid::Uuid;

use super::world::{World, at, execute, first, number, on_postgres, query};
use crate::harness::TestStore;

fn change(world: &World, entity: Uuid) -> Change {
    Change {
        action: "trigger.update",
        entity_type: "trigger",
        entity_id: entity,
        project_id: Some(world.project.id),
        application_id: Some(world.application.id),
        before: Some(json!({"name": "it's \"old\"", "n": 1.5})),
        after: Some(json!({"name": "ü 🦀", "list": [null, true]})),
    }
}

fn ada() -> Caller {
    let actor = Actor::User {
        id: UserId::new(),
        email: "ada@example.com".into(),
        administrator: true,
        ends: None,
    };
    Caller { actor, request_id: Some("request-1".to_owned()) }
}

#[tokio::test]
async fn a_commit_writes_the_change_and_its_records() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.new_trigger("trigger", None);
    let caller = ada();
    let tx = store.begin().await.unwrap();
    trigger::insert(&*tx, &trigger).await.unwrap();
    let changes = [change(&world, trigger.id.0), change(&world, Uuid::now_v7())];
    tx.commit(&caller, at(1234), &changes).await.unwrap();

    assert!(trigger::find(store.read(), Scope::Everything, trigger.id).await.is_ok());
    let rows = list(store.read(), Scope::Everything, &Filter::default(), &first(10)).await.unwrap();
    assert_eq!(rows.rows.len(), 2);
    let row = &rows.rows[1].1;
    assert_eq!(row.at, at(1234));
    assert_eq!((row.actor_type.as_str(), row.actor_name.as_str()), ("user", "ada@example.com"));
    assert_eq!(row.actor_id, caller.actor.id());
    assert_eq!((row.action.as_str(), row.entity_type.as_str()), ("trigger.update", "trigger"));
    assert_eq!(row.entity_id, trigger.id.0);
    assert_eq!(row.project_id, Some(world.project.id));
    assert_eq!(row.application_id, Some(world.application.id));
    assert_eq!((&row.before, &row.after), (&changes[0].before, &changes[0].after));
    assert_eq!(row.request_id.as_deref(), Some("request-1"));
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.new_trigger("trigger", None);
    let tx = store.begin().await.unwrap();
    trigger::insert(&*tx, &trigger).await.unwrap();
    drop(tx);
    assert_eq!(number(&store, "SELECT count(*) FROM \"trigger\"").await, 0);
    world.trigger("another one can write", None).await;
    assert_eq!(number(&store, "SELECT count(*) FROM \"trigger\"").await, 1);
}

#[tokio::test]
async fn a_record_that_cannot_be_written_takes_the_change_with_it() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.new_trigger("trigger", None);
    super::world::execute(&store, "DROP TABLE audit_log").await;
    let tx = store.begin().await.unwrap();
    trigger::insert(&*tx, &trigger).await.unwrap();
    let refused = tx.commit(&ada(), at(0), &[change(&world, trigger.id.0)]).await.unwrap_err();
    assert_eq!(refused.code(), "INTERNAL");
    assert_eq!(number(&store, "SELECT count(*) FROM \"trigger\"").await, 0);
}

#[tokio::test]
async fn a_change_without_records_is_written_too() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let tx = store.begin().await.unwrap();
    trigger::insert(&*tx, &world.new_trigger("trigger", None)).await.unwrap();
    tx.commit(&Caller::system(), at(0), &[]).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM \"trigger\"").await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM audit_log").await, 0);
}

#[tokio::test]
async fn the_audit_log_is_read_latest_first_and_by_what_is_asked_for() {
    let store = TestStore::new().await;
    let (world, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    let (caller, entity) = (ada(), Uuid::now_v7());
    let commit = |caller: Caller, time: i64, change: Change| {
        let store = world.store.clone();
        async move {
            let tx = store.begin().await.unwrap();
            tx.commit(&caller, at(time), &[change]).await.unwrap();
        }
    };
    commit(caller.clone(), 1000, change(&world, entity)).await;
    let delete = Change { action: "trigger.delete", ..change(&world, entity) };
    commit(Caller::system(), 2000, delete).await;
    commit(caller.clone(), 3000, Change { entity_type: "backend", ..change(&other, entity) }).await;
    let times = |filter: Filter| {
        let store = world.store.clone();
        async move {
            let page = list(store.read(), Scope::Everything, &filter, &first(10)).await.unwrap();
            page.rows.iter().map(|(_, row)| (row.at - at(0)).num_milliseconds()).collect::<Vec<_>>()
        }
    };
    let all = Filter::default;
    for (filter, expected) in [
        (all(), vec![3000, 2000, 1000]),
        (Filter { project_id: Some(world.project.id), ..all() }, vec![2000, 1000]),
        (Filter { application_id: Some(other.application.id), ..all() }, vec![3000]),
        (Filter { entity_type: Some("trigger".into()), ..all() }, vec![2000, 1000]),
        (Filter { entity_id: Some(entity), ..all() }, vec![3000, 2000, 1000]),
        (Filter { entity_id: Some(Uuid::now_v7()), ..all() }, vec![]),
        (Filter { actor_id: caller.actor.id(), ..all() }, vec![3000, 1000]),
        (Filter { action: Some("trigger.delete".into()), ..all() }, vec![2000]),
        (Filter { since: Some(at(2000)), ..all() }, vec![3000, 2000]),
        (Filter { until: Some(at(2000)), ..all() }, vec![1000]),
    ] {
        assert_eq!(times(filter.clone()).await, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn a_machine_is_recorded_by_its_user_name() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let id = MachineUserId::new();
    let actor = Actor::Machine {
        id,
        username: "robot".into(),
        application_id: world.application.id,
        project_id: world.project.id,
        environment: "production".into(),
    };
    let tx = store.begin().await.unwrap();
    let caller = Caller { actor, request_id: None };
    tx.commit(&caller, at(0), &[change(&world, Uuid::now_v7())]).await.unwrap();
    let page = list(store.read(), Scope::Everything, &Filter::default(), &first(1)).await.unwrap();
    let row = &page.rows[0].1;
    assert_eq!((row.actor_type.as_str(), row.actor_name.as_str()), ("machine_user", "robot"));
    assert_eq!((row.actor_id, row.request_id.as_deref()), (Some(id.0), None));
}

#[tokio::test]
async fn the_audit_log_of_an_application_or_an_actor_is_found_by_an_index() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for (caller, many) in [(ada(), 1000), (ada(), 1000), (ada(), 1000), (ada(), 1000), (ada(), 3)] {
        let application = ApplicationId::new();
        let rows: Vec<_> = (0..many)
            .map(|_| Change { application_id: Some(application), ..change(&world, Uuid::now_v7()) })
            .collect();
        let tx = store.begin().await.unwrap();
        tx.commit(&caller, at(0), &rows).await.unwrap();
    }
    execute(&store, "ANALYZE audit_log").await;
    let (explain, column) = match on_postgres(&store) {
        true => ("EXPLAIN", "QUERY PLAN"),
        false => ("EXPLAIN QUERY PLAN", "detail"),
    };
    for by in ["application", "actor"] {
        let rarest = format!(
            "SELECT * FROM audit_log WHERE {by}_id = (SELECT {by}_id FROM audit_log
                GROUP BY {by}_id ORDER BY count(*) LIMIT 1)"
        );
        let one = query(&store, &rarest, vec![]).await;
        assert_eq!(one.len(), 3, "{by}");
        let id: Uuid = one[0].try_get("", &format!("{by}_id")).unwrap();
        let sql = format!(
            "{explain} SELECT * FROM audit_log WHERE {by}_id = $1 ORDER BY id DESC LIMIT 51"
        );
        let plan = query(&store, &sql, vec![id.into()]).await;
        let plan: Vec<_> =
            plan.iter().map(|row| row.try_get::<String>("", column).unwrap()).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(&format!("idx_audit_log_{by}")), "{by}:\n{plan}");
    }
}
