//! Backends: registered, heard from, listed.

use trigger_manager::domain::access::Scope;
use trigger_manager::domain::application::Backend;
use trigger_manager::domain::id::{BackendId, MachineUserId};
use trigger_manager::store::application::{self, Activity, BackendSecrets};

use super::world::{World, at, first, secrets, within};
use crate::harness::TestStore;

#[tokio::test]
async fn registering_again_renews_everything_but_id_application_and_birth() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let backend = world.backend("backend").await;
    let again = Backend {
        machine_user_id: Some(MachineUserId::new()),
        name: "renamed".to_owned(),
        description: "new".to_owned(),
        callback_url: "https://elsewhere.example/".to_owned(),
        version: Some("2".to_owned()),
        registered_at: at(1),
        last_heartbeat_at: at(2),
        deactivated_at: Some(at(3)),
        deactivated_reason: Some("gone".to_owned()),
        created_at: at(4),
        updated_at: at(5),
        ..backend.clone()
    };
    let renewed = BackendSecrets { token: "t".to_owned(), signing_secret: "s".to_owned() };
    within!(store, |tx| application::upsert_backend(&*tx, &again, &renewed));
    let found = application::backend(store.read(), Scope::Everything, backend.id).await.unwrap();
    assert_eq!(found, (Backend { created_at: backend.created_at, ..again }, renewed));
    let app = world.application.id;
    let by_name = application::backend_by_name(store.read(), app, "renamed").await.unwrap();
    assert_eq!(by_name, Some(found));
    assert_eq!(application::backend_by_name(store.read(), app, "backend").await.unwrap(), None);
}

#[tokio::test]
async fn a_heartbeat_reaches_the_given_backends_and_changes_nothing_else() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut backends = Vec::new();
    for name in ["a", "b", "c"] {
        backends.push(world.backend(name).await);
    }
    let ids = [backends[0].id, backends[1].id, BackendId::new()];
    within!(store, |tx| application::touch_backends(&*tx, &ids, at(1234)));
    backends[0].last_heartbeat_at = at(1234);
    backends[1].last_heartbeat_at = at(1234);
    let found =
        application::backends(store.read(), Scope::Everything, None, None, &first(10)).await;
    let found: Vec<_> = found.unwrap().rows.into_iter().map(|(_, row)| row).collect();
    assert_eq!(found, backends);
}

#[tokio::test]
async fn backends_are_active_or_not_as_their_heartbeats_say() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    for (name, heartbeat, deactivated) in [
        ("active", 1000, None),
        ("stale", 999, None),
        ("deactivated", 2000, Some(at(0))),
        ("both", 0, Some(at(0))),
    ] {
        let mut backend = world.new_backend(name);
        (backend.last_heartbeat_at, backend.deactivated_at) = (at(heartbeat), deactivated);
        within!(store, |tx| application::upsert_backend(&*tx, &backend, &secrets()));
    }
    for (active, expected) in
        [(true, vec!["active"]), (false, vec!["both", "deactivated", "stale"])]
    {
        let activity = Some(Activity { active, heartbeat_since: at(1000) });
        let page =
            application::backends(store.read(), Scope::Everything, None, activity, &first(9)).await;
        let names: Vec<_> =
            page.unwrap().rows.into_iter().map(|(_, backend)| backend.name).collect();
        assert_eq!(names, expected);
    }
    let of = application::backends_of(store.read(), &[world.application.id]).await.unwrap();
    assert_eq!(of.len(), 4);
}
