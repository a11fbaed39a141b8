//! What exists once: a second one is a conflict that names the field.

use trigger_manager::domain::access::Role;
use trigger_manager::domain::id::*;
use trigger_manager::error::{Error, Result};
use trigger_manager::store::application::MachineCredentials;
use trigger_manager::store::{application, people};

use super::world::{World, member, race, secrets, user, within};
use crate::harness::TestStore;

fn assert_conflict(answer: Result<()>, field: &str) {
    let error = answer.expect_err(field);
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    assert_eq!((error.code(), error.field()), ("CONFLICT", Some(field)));
}

#[tokio::test]
async fn a_second_one_of_what_exists_once_is_a_conflict_that_names_the_field() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let other = World::named(&store, "other").await;
    let mut ada = user(&store, "ada@example.com").await;
    let membership = member(&store, world.project.id, ada.id, Role::Owner).await;
    let tenant = world.tenant("tenant").await;
    let machine = world.machine_user("robot").await;
    world.backend("backend").await;

    ada.id = UserId::new();
    let tx = store.begin().await.unwrap();
    assert_conflict(people::insert_user(&*tx, &ada, None).await, "email");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let project = people_project(&world, ProjectId::new());
    assert_conflict(people::insert_project(&*tx, &project).await, "slug");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let mut again = membership.clone();
    again.id = ProjectMemberId::new();
    assert_conflict(people::insert_member(&*tx, &again).await, "userId");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let mut again = world.application.clone();
    again.id = ApplicationId::new();
    assert_conflict(application::insert(&*tx, &again).await, "slug");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let mut again = tenant.clone();
    again.id = TenantId::new();
    assert_conflict(application::insert_tenant(&*tx, &again).await, "slug");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let mut again = machine.clone();
    (again.id, again.application_id) = (MachineUserId::new(), other.application.id);
    let fresh = MachineCredentials { password_hash: None, token_hash: "fresh".to_owned() };
    assert_conflict(application::insert_machine_user(&*tx, &again, &fresh).await, "username");
    drop(tx);
    let tx = store.begin().await.unwrap();
    let again = world.new_backend("backend");
    assert_conflict(application::upsert_backend(&*tx, &again, &secrets()).await, "name");
}

fn people_project(world: &World, id: ProjectId) -> trigger_manager::domain::people::Project {
    trigger_manager::domain::people::Project { id, ..world.project.clone() }
}

#[tokio::test]
async fn the_same_name_elsewhere_is_no_conflict() {
    let store = TestStore::new().await;
    let (one, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    for world in [&one, &other] {
        World::within_project(&store, world.project.clone(), "same").await;
        world.tenant("same").await;
        world.backend("same").await;
    }
    let mut staging = one.tenant("staged").await;
    (staging.id, staging.environment) = (TenantId::new(), "staging".to_owned());
    within!(store, |tx| application::insert_tenant(&*tx, &staging));
}

#[tokio::test]
async fn renaming_to_what_is_taken_is_a_conflict() {
    let store = TestStore::new().await;
    World::named(&store, "taken").await;
    let world = World::named(&store, "free").await;
    let mut renamed = world.project.clone();
    renamed.slug = "taken".to_owned();
    let tx = store.begin().await.unwrap();
    assert_conflict(people::update_project(&*tx, &renamed).await, "slug");
}

#[tokio::test]
async fn what_belongs_to_something_that_is_gone_is_a_conflict() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut orphan = world.new_backend("backend");
    orphan.application_id = ApplicationId::new();
    let tx = store.begin().await.unwrap();
    assert_conflict(application::upsert_backend(&*tx, &orphan, &secrets()).await, "id");
}

#[tokio::test]
async fn changing_what_was_deleted_meanwhile_is_a_conflict() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let trigger = world.new_trigger("never stored", None);
    let tx = store.begin().await.unwrap();
    assert_conflict(trigger_manager::store::trigger::update(&*tx, &trigger).await, "id");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_that_take_one_name_one_gets_it() {
    let store = TestStore::racing().await;
    let world = World::new(&store).await;
    let answers = race(|_| {
        let store = world.store.clone();
        let backend = world.new_backend("backend");
        async move {
            let tx = store.begin().await?;
            application::upsert_backend(&*tx, &backend, &secrets()).await?;
            tx.commit_unaudited().await
        }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 15));
    for answer in lost {
        assert_conflict(answer, "name");
    }
}
