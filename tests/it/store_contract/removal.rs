//! Deleting: everything that belongs to a thing goes with it, and nothing else.

use std::collections::BTreeMap;

use sea_orm::ConnectionTrait;
use trigger_manager::domain::access::{Role, Scope};
use trigger_manager::domain::audit::{Caller, Change};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::id::PersonalAccessTokenId;
use trigger_manager::domain::people::PersonalAccessToken;
use trigger_manager::store::{Hold, Store, application, executor, log, people, trigger};

use super::world::{
    World, at, execute, member, number, on_postgres, patiently, race, user, within,
};
use crate::harness::{TestStore, until_another_waits_for};

const TABLES: [&str; 14] = [
    "\"user\"",
    "personal_access_token",
    "project",
    "project_member",
    "application",
    "tenant",
    "machine_user",
    "backend_registration",
    "\"trigger\"",
    "trigger_occurrence",
    "scheduled_action",
    "trigger_log",
    "audit_log",
    "setting",
];

async fn counts(store: &Store) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    for table in TABLES {
        counts.insert(table, number(store, &format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

/// One of everything in an application, work of each state and its records included.
async fn fill(world: &World) {
    let store = &world.store;
    world.tenant("tenant").await;
    world.machine_user(&format!("robot of {}", world.application.slug)).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", Some(at(0))).await;
    world.occurrence_of(&trigger, at(0), &[backend.id]).await;
    world.work_off(at(0), ActionStatus::Completed).await;
    let (_, deliveries) = world.occurrence_of(&trigger, at(1), &[backend.id]).await;
    super::world::claim(store, at(1), 1, 1).await;
    let log = log::NewAttempt {
        scheduled_action_id: deliveries[0].id.0,
        status: "success",
        error_message: None,
        attempt: 1,
        response_status: Some(200),
        duration_ms: Some(1),
        reason: None,
        platform_request_id: None,
        created_date: at(1),
    };
    within!(store, |tx| log::log_attempts(&*tx, &[log]));
    let change = Change {
        action: "trigger.create",
        entity_type: "trigger",
        entity_id: trigger.id.0,
        project_id: Some(world.project.id),
        application_id: Some(world.application.id),
        before: None,
        after: None,
    };
    let tx = store.begin().await.unwrap();
    tx.commit(&Caller::system(), at(0), &[change]).await.unwrap();
}

/// `all` without what belongs to applications, of which there were `before` and are `after`.
fn shrunk(
    all: &BTreeMap<&'static str, i64>,
    before: i64,
    after: i64,
) -> BTreeMap<&'static str, i64> {
    let kept = ["\"user\"", "personal_access_token", "project", "project_member"];
    let records = ["trigger_log", "audit_log", "setting"];
    let same = |table: &str| kept.contains(&table) || records.contains(&table);
    all.iter()
        .map(|(table, n)| (*table, if same(table) { *n } else { n * after / before }))
        .collect()
}

#[tokio::test]
async fn an_application_goes_with_all_that_is_its_own_and_nothing_else() {
    let store = TestStore::new().await;
    let one = World::named(&store, "one").await;
    let neighbour = World::within_project(&store, one.project.clone(), "neighbour").await;
    fill(&one).await;
    fill(&neighbour).await;
    let all = counts(&store).await;
    assert_eq!(all["scheduled_action"], 4);
    within!(store, |tx| application::delete(&tx, one.application.id));
    assert_eq!(counts(&store).await, shrunk(&all, 2, 1), "records stay until their time is up");
    let of_others = "SELECT count(*) FROM scheduled_action WHERE application_id NOT IN \
        (SELECT id FROM application)";
    assert_eq!(number(&store, of_others).await, 0);
    within!(store, |tx| application::delete(&tx, one.application.id));
}

#[tokio::test]
async fn calls_go_with_their_application_also_when_they_have_ended() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    world.occurrence(&[backend.id]).await;
    world.work_off(at(1000), ActionStatus::Completed).await;
    let into_a_call = "UPDATE scheduled_action SET trigger_id = NULL, trigger_occurrence_id = NULL";
    execute(&store, into_a_call).await;
    within!(store, |tx| application::delete(&tx, world.application.id));
    assert_eq!(number(&store, "SELECT count(*) FROM scheduled_action").await, 0);
}

#[tokio::test]
async fn a_project_goes_with_its_applications_and_members_and_nothing_else() {
    let store = TestStore::new().await;
    let one = World::named(&store, "one").await;
    let neighbour = World::within_project(&store, one.project.clone(), "neighbour").await;
    let other = World::named(&store, "other").await;
    for world in [&one, &neighbour, &other] {
        fill(world).await;
    }
    let ada = user(&store, "ada@example.com").await;
    member(&store, one.project.id, ada.id, Role::Owner).await;
    member(&store, other.project.id, ada.id, Role::Owner).await;
    let all = counts(&store).await;
    within!(store, |tx| people::delete_project(&*tx, one.project.id));
    let mut expected = shrunk(&all, 3, 1);
    expected.insert("project", 1);
    expected.insert("project_member", 1);
    assert_eq!(counts(&store).await, expected);
}

#[tokio::test]
async fn a_user_goes_with_tokens_and_memberships() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for email in ["ada@example.com", "bob@example.com"] {
        let user = user(&store, email).await;
        member(&store, world.project.id, user.id, Role::Owner).await;
        let token = PersonalAccessToken {
            id: PersonalAccessTokenId::new(),
            user_id: user.id,
            name: "token".to_owned(),
            token_prefix: "pat_".to_owned(),
            expires_at: None,
            last_used_at: None,
            created_at: at(0),
        };
        within!(store, |tx| people::insert_token(&*tx, &token, email));
        if email.starts_with("bob") {
            within!(store, |tx| people::delete_user(&*tx, user.id));
        }
    }
    let counts = counts(&store).await;
    for table in ["\"user\"", "personal_access_token", "project_member", "project"] {
        assert_eq!(counts[table], 1, "{table}");
    }
}

#[tokio::test]
async fn a_deleted_trigger_leaves_its_history() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", None).await;
    let (occurrence, _) = world.occurrence_of(&trigger, at(0), &[]).await;
    within!(store, |tx| trigger::delete(&*tx, trigger.id));
    assert_eq!(world.reread_occurrence(&occurrence).await, occurrence);
}

#[tokio::test]
async fn a_deleted_machine_user_and_backend_leave_the_rest() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    fill(&world).await;
    let machine = world.machine_user("another robot").await;
    let backend = world.backend("another backend").await;
    let tenant = world.tenant("another-tenant").await;
    let all = counts(&store).await;
    within!(store, |tx| application::delete_machine_user(&*tx, machine.id));
    within!(store, |tx| application::delete_backend(&*tx, backend.id));
    within!(store, |tx| application::delete_tenant(&*tx, tenant.id));
    let mut expected = all;
    for table in ["machine_user", "backend_registration", "tenant"] {
        expected.insert(table, 1);
    }
    assert_eq!(counts(&store).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_application_that_is_deleted_while_passes_queue_work_leaves_no_orphan() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    for round in 0..8 {
        let world =
            World::within_project(&store, world.project.clone(), &format!("a{round}")).await;
        let backend = world.backend("backend").await.id;
        let trigger = world.trigger("trigger", None).await;
        race(|number| {
            let (world, trigger) = (world.clone(), trigger.clone());
            async move {
                let once = || async {
                    let tx = world.store.begin().await?;
                    if number == 7 {
                        application::delete(&tx, world.application.id).await?;
                        return tx.commit_unaudited().await;
                    }
                    let due = at(i64::try_from(number).unwrap());
                    let mut occurrence = world.new_occurrence(&trigger, due);
                    occurrence.deliveries = 1;
                    let delivery = super::world::new_delivery(&occurrence, backend);
                    let written = executor::insert_occurrences(&*tx, &[occurrence]).await;
                    match written {
                        // The application went first.
                        Err(error) if error.code() == "CONFLICT" => return Ok(()),
                        other => other?,
                    };
                    executor::insert_deliveries(&*tx, &[(delivery, None)]).await?;
                    tx.commit_unaudited().await
                };
                patiently(once).await
            }
        })
        .await;
        let orphans = "SELECT count(*) FROM scheduled_action WHERE application_id NOT IN \
            (SELECT id FROM application)";
        assert_eq!(number(&store, orphans).await, 0, "round {round}");
    }
}

/// A pass holds a trigger, somebody deletes the application, and the pass goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_and_whoever_deletes_its_application_do_not_wait_for_each_other() {
    let store = TestStore::new().await;
    if !on_postgres(&store) {
        return;
    }
    let world = World::new(&store).await;
    let trigger = world.trigger("trigger", Some(at(0))).await;
    let pass = store.begin().await.unwrap();
    assert_eq!(executor::due_triggers(&*pass, at(1), 10).await.unwrap().len(), 1);
    let deletes = store.begin().await.unwrap();
    let id = world.application.id;
    let deleting = tokio::spawn(async move {
        application::find_held(&deletes, Scope::Everything, id, Hold::Delete).await?;
        application::delete(&deletes, id).await?;
        deletes.commit_unaudited().await
    });
    until_another_waits_for(&pass).await;
    let occurrence = world.new_occurrence(&trigger, at(0));
    let written = executor::insert_occurrences(&*pass, &[occurrence]).await.unwrap();
    assert_eq!(written.len(), 1);
    pass.commit_unaudited().await.unwrap();
    deleting.await.unwrap().unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM trigger_occurrence").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_queued_while_a_project_is_deleted_goes_too() {
    let store = TestStore::new().await;
    if !on_postgres(&store) {
        return;
    }
    let (one, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    let backend = other.backend("backend").await;
    let queued = other.queued(backend.id, 5).await;
    super::world::claim(&store, at(1000), 2, 2).await;
    let late = store.begin().await.unwrap();
    late.execute_unprepared("SELECT 1 FROM project FOR KEY SHARE").await.unwrap();
    let deletes = store.begin().await.unwrap();
    let id = one.project.id;
    let deleting = tokio::spawn(async move {
        people::delete_project(&*deletes, id).await?;
        deletes.commit_unaudited().await
    });
    until_another_waits_for(&late).await;
    // Two that are being worked on, and two that wait.
    let owners = [("organization_id", one.project.id.0), ("application_id", one.application.id.0)];
    for (delivery, (column, owner)) in queued.iter().zip(owners.iter().cycle()).take(4) {
        let (id, change) = (delivery.id.0, format!("UPDATE scheduled_action SET {column}"));
        late.execute_unprepared(&format!("{change} = '{owner}' WHERE id = '{id}'")).await.unwrap();
    }
    late.commit_unaudited().await.unwrap();
    deleting.await.unwrap().unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM project").await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM scheduled_action").await, 1);
}
