//! What a caller may not see does not exist.

use std::future::Future;
use std::pin::Pin;

use trigger_manager::domain::access::{Role, Scope};
use trigger_manager::domain::application::{Backend, MachineUser, Tenant};
use trigger_manager::domain::audit::{Caller, Change};
use trigger_manager::domain::delivery::Delivery;
use trigger_manager::domain::people::ProjectMember;
use trigger_manager::domain::trigger::{Occurrence, Trigger};
use trigger_manager::error::{Error, Result};
use trigger_manager::store::{Hold, Store, application, audit, delivery, people, trigger};

use super::world::{World, at, first, member, user, within};
use crate::harness::TestStore;

/// An application with one of everything.
struct Full {
    world: World,
    member: ProjectMember,
    tenant: Tenant,
    machine_user: MachineUser,
    backend: Backend,
    trigger: Trigger,
    occurrence: Occurrence,
    delivery: Delivery,
}

async fn fill(world: World, email: &str) -> Full {
    let store = world.store.clone();
    let ada = user(&store, email).await;
    let member = member(&store, world.project.id, ada.id, Role::Member).await;
    let backend = world.backend("backend").await;
    let trigger = world.trigger("trigger", None).await;
    let (occurrence, deliveries) = world.occurrence_of(&trigger, at(0), &[backend.id]).await;
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
    Full {
        member,
        tenant: world.tenant("tenant").await,
        machine_user: world.machine_user(email).await,
        backend,
        trigger,
        occurrence,
        delivery: deliveries[0].clone(),
        world,
    }
}

/// How many rows of `of` a finder shows to `scope`.
type Finder = for<'a> fn(&'a Store, Scope, &'a Full) -> Pin<Box<dyn Future<Output = usize> + 'a>>;

/// One that is found, or none that is not; anything else is a failure.
fn one<T>(found: Result<T>) -> usize {
    match found {
        Ok(_) => 1,
        Err(Error::NotFound { .. }) => 0,
        Err(error) => panic!("{error:?}"),
    }
}

macro_rules! finder {
    ($name:literal, |$store:ident, $scope:ident, $of:ident| $body:expr) => {
        ($name, (|$store, $scope, $of| Box::pin(async move { $body })) as Finder)
    };
}

/// Finders of an application.
fn of_application() -> Vec<(&'static str, Finder)> {
    vec![
        finder!("application::find", |s, scope, of| one(application::find(
            s.read(),
            scope,
            of.world.application.id
        )
        .await)),
        finder!("application::find_held", |s, scope, of| {
            let tx = s.begin().await.unwrap();
            let id = of.world.application.id;
            let found = one(application::find_held(&tx, scope, id, Hold::Change).await);
            tx.commit_unaudited().await.unwrap();
            found
        }),
        finder!("application::find_by_slug", |s, scope, of| {
            let (project, slug) = (of.world.project.id, &of.world.application.slug);
            one(application::find_by_slug(s.read(), scope, project, slug).await)
        }),
        finder!("application::find_all", |s, scope, of| {
            let ids = [of.world.application.id];
            application::find_all(s.read(), scope, &ids).await.unwrap().len()
        }),
        finder!("application::list", |s, scope, of| {
            let page = application::list(s.read(), scope, None, &first(50)).await.unwrap();
            page.rows.iter().filter(|(_, row)| row.id == of.world.application.id).count()
        }),
    ]
}

/// Finders of what belongs to an application and is not due at any time.
fn of_its_parts() -> Vec<(&'static str, Finder)> {
    vec![
        finder!("application::tenant", |s, scope, of| one(application::tenant(
            s.read(),
            scope,
            of.tenant.id
        )
        .await)),
        finder!("application::tenants", |s, scope, of| {
            let id = of.world.application.id;
            let page = application::tenants(s.read(), scope, id, None, &first(50)).await;
            page.unwrap().rows.len()
        }),
        finder!("application::machine_user", |s, scope, of| one(application::machine_user(
            s.read(),
            scope,
            of.machine_user.id
        )
        .await)),
        finder!("application::machine_users", |s, scope, of| {
            let id = of.world.application.id;
            application::machine_users(s.read(), scope, id, &first(50)).await.unwrap().rows.len()
        }),
        finder!("application::backend", |s, scope, of| one(application::backend(
            s.read(),
            scope,
            of.backend.id
        )
        .await)),
        finder!("application::backends_by_ids", |s, scope, of| {
            let ids = [of.backend.id];
            application::backends_by_ids(s.read(), scope, &ids).await.unwrap().len()
        }),
        finder!("application::backends", |s, scope, of| {
            let page = application::backends(s.read(), scope, None, None, &first(50)).await;
            page.unwrap().rows.iter().filter(|(_, row)| row.id == of.backend.id).count()
        }),
        finder!("application::backends of one", |s, scope, of| {
            let id = Some(of.world.application.id);
            let page = application::backends(s.read(), scope, id, None, &first(50)).await;
            page.unwrap().rows.len()
        }),
    ]
}

/// Finders of triggers and of what comes of them.
fn of_triggers() -> Vec<(&'static str, Finder)> {
    vec![
        finder!("trigger::find", |s, scope, of| one(
            trigger::find(s.read(), scope, of.trigger.id).await
        )),
        finder!("trigger::find_held", |s, scope, of| {
            let tx = s.begin().await.unwrap();
            let found = one(trigger::find_held(&tx, scope, of.trigger.id, Hold::Change).await);
            tx.commit_unaudited().await.unwrap();
            found
        }),
        finder!("trigger::find_all", |s, scope, of| {
            trigger::find_all(s.read(), scope, &[of.trigger.id]).await.unwrap().len()
        }),
        finder!("trigger::list", |s, scope, of| {
            let filter = trigger::Filter::default();
            let sort = Default::default();
            let page = trigger::list(s.read(), scope, &filter, sort, &first(50)).await.unwrap();
            page.rows.iter().filter(|(_, row)| row.id == of.trigger.id).count()
        }),
        finder!("trigger::occurrence", |s, scope, of| one(trigger::occurrence(
            s.read(),
            scope,
            of.occurrence.id
        )
        .await)),
        finder!("trigger::occurrences_by_ids", |s, scope, of| {
            let ids = [of.occurrence.id];
            trigger::occurrences_by_ids(s.read(), scope, &ids).await.unwrap().len()
        }),
        finder!("trigger::occurrences", |s, scope, of| {
            let filter = trigger::OccurrenceFilter::default();
            let way = Default::default();
            let page = trigger::occurrences(s.read(), scope, &filter, way, &first(50)).await;
            page.unwrap().rows.iter().filter(|(_, row)| row.id == of.occurrence.id).count()
        }),
        finder!("delivery::find", |s, scope, of| one(delivery::find(
            s.read(),
            scope,
            of.delivery.id
        )
        .await)),
        finder!("delivery::list", |s, scope, of| {
            let filter = delivery::Filter::default();
            let way = Default::default();
            let page = delivery::list(s.read(), scope, &filter, way, &first(50)).await.unwrap();
            page.rows.iter().filter(|(_, row)| row.id == of.delivery.id).count()
        }),
        finder!("audit::list", |s, scope, of| {
            let filter = audit::Filter::default();
            let page = audit::list(s.read(), scope, &filter, &first(50)).await.unwrap();
            page.rows.iter().filter(|(_, row)| row.entity_id == of.trigger.id.0).count()
        }),
    ]
}

/// Finders of projects and members.
fn of_project() -> Vec<(&'static str, Finder)> {
    vec![
        finder!("people::project", |s, scope, of| one(people::project(
            s.read(),
            scope,
            of.world.project.id
        )
        .await)),
        finder!("people::project_held", |s, scope, of| {
            let tx = s.begin().await.unwrap();
            let id = of.world.project.id;
            let found = one(people::project_held(&tx, scope, id, Hold::Delete).await);
            tx.commit_unaudited().await.unwrap();
            found
        }),
        finder!("people::project_by_slug", |s, scope, of| one(people::project_by_slug(
            s.read(),
            scope,
            &of.world.project.slug
        )
        .await)),
        finder!("people::projects_by_ids", |s, scope, of| {
            let ids = [of.world.project.id];
            people::projects_by_ids(s.read(), scope, &ids).await.unwrap().len()
        }),
        finder!("people::projects", |s, scope, of| {
            let page = people::projects(s.read(), scope, &first(50)).await.unwrap();
            page.rows.iter().filter(|(_, row)| row.id == of.world.project.id).count()
        }),
        finder!("people::member", |s, scope, of| one(people::member(
            s.read(),
            scope,
            of.member.id
        )
        .await)),
        finder!("people::members", |s, scope, of| {
            let page = people::members(s.read(), scope, of.world.project.id, &first(50)).await;
            page.unwrap().rows.iter().filter(|(_, row)| row.id == of.member.id).count()
        }),
    ]
}

fn below_an_application() -> Vec<(&'static str, Finder)> {
    [of_application(), of_its_parts(), of_triggers()].concat()
}

fn all() -> Vec<(&'static str, Finder)> {
    [below_an_application(), of_project()].concat()
}

/// Two applications of one project, and one of another.
async fn three(store: &TestStore) -> (Full, Full, Full) {
    let (one, other) = (World::named(store, "one").await, World::named(store, "other").await);
    let neighbour = World::within_project(store, one.project.clone(), "neighbour").await;
    (
        fill(one, "ada@example.com").await,
        fill(neighbour, "bob@example.com").await,
        fill(other, "eve@example.com").await,
    )
}

#[tokio::test]
async fn a_member_sees_all_of_the_own_projects_and_nothing_of_others() {
    let store = TestStore::new().await;
    let (mine, neighbour, foreign) = three(&store).await;
    let scope = Scope::ProjectsOf(mine.member.user_id);
    for (name, find) in all() {
        assert_eq!(find(&store, scope, &mine).await, 1, "{name}: one's own");
        assert_eq!(find(&store, scope, &foreign).await, 0, "{name}: another project's");
        assert!(find(&store, scope, &neighbour).await >= 1, "{name}: the own project's");
    }
}

#[tokio::test]
async fn whoever_is_no_member_of_anything_sees_nothing() {
    let store = TestStore::new().await;
    let (mine, ..) = three(&store).await;
    let stranger = user(&store, "stranger@example.com").await;
    for (name, find) in all() {
        let scope = Scope::ProjectsOf(stranger.id);
        assert_eq!(find(&store, scope, &mine).await, 0, "{name}");
        assert!(find(&store, Scope::Everything, &mine).await >= 1, "{name}: an administrator");
    }
}

#[tokio::test]
async fn a_machine_sees_its_own_application_and_nothing_of_its_neighbours() {
    let store = TestStore::new().await;
    let (mine, neighbour, foreign) = three(&store).await;
    let scope = Scope::Application(mine.world.application.id);
    for (name, find) in below_an_application() {
        assert_eq!(find(&store, scope, &mine).await, 1, "{name}: its own");
        assert_eq!(find(&store, scope, &neighbour).await, 0, "{name}: a neighbour's");
        assert_eq!(find(&store, scope, &foreign).await, 0, "{name}: another project's");
    }
    for (name, find) in of_project() {
        assert_eq!(find(&store, scope, &foreign).await, 0, "{name}: another project's");
        // It knows its project, and not the project's people.
        let seen = find(&store, scope, &mine).await;
        assert_eq!(seen, usize::from(!name.contains("member")), "{name}");
    }
}

#[tokio::test]
async fn a_membership_that_ends_takes_the_view_with_it() {
    let store = TestStore::new().await;
    let (mine, ..) = three(&store).await;
    let scope = Scope::ProjectsOf(mine.member.user_id);
    within!(store, |tx| people::delete_member(&*tx, mine.member.id));
    for (name, find) in all() {
        assert_eq!(find(&store, scope, &mine).await, 0, "{name}");
    }
}

#[tokio::test]
async fn what_may_not_be_seen_reads_as_what_is_not_there() {
    let store = TestStore::new().await;
    let (mine, _, foreign) = three(&store).await;
    let scope = Scope::ProjectsOf(mine.member.user_id);
    let hidden = trigger::find(store.read(), scope, foreign.trigger.id).await.unwrap_err();
    let missing =
        trigger::find(store.read(), scope, uuid::Uuid::now_v7().into()).await.unwrap_err();
    assert_eq!(format!("{hidden:?}"), format!("{missing:?}"));
}
