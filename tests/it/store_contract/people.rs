//! Users, tokens, members, machine users: written and read back.

use trigger_manager::domain::access::{Role, Scope};
use trigger_manager::domain::id::{PersonalAccessTokenId, ProjectId, UserId};
use trigger_manager::domain::people::{PersonalAccessToken, User};
use trigger_manager::store::application::{self, MachineCredentials};
use trigger_manager::store::ownership;
use trigger_manager::store::people::{self, NewPassword};

use super::world::{World, at, first, member, user, within};
use crate::harness::TestStore;

#[tokio::test]
async fn a_user_is_changed_and_keeps_the_password_unless_a_new_one_is_given() {
    let store = TestStore::new().await;
    let ada = User { id: UserId::new(), ..user(&store, "bob@example.com").await };
    let ada = User { email: "ada@example.com".to_owned(), administrator: true, ..ada };
    within!(store, |tx| people::insert_user(&*tx, &ada, Some("old hash".to_owned())));
    let changed = User { name: "Countess".to_owned(), updated_at: at(5), ..ada.clone() };
    within!(store, |tx| people::update_user(&*tx, &changed, None));
    let found = people::credentials(store.read(), ada.id).await.unwrap().unwrap();
    assert_eq!((&found.user, found.password_hash.as_deref()), (&changed, Some("old hash")));
    assert_eq!(found.sessions_valid_from, at(0));
    let password = NewPassword { hash: "new hash".to_owned(), sessions_valid_from: at(7) };
    within!(store, |tx| people::update_user(&*tx, &changed, Some(password)));
    let found = people::credentials_by_email(store.read(), "ada@example.com").await.unwrap();
    let found = found.unwrap();
    assert_eq!(
        (found.password_hash.as_deref(), found.sessions_valid_from),
        (Some("new hash"), at(7))
    );
    assert_eq!(people::user(store.read(), ada.id).await.unwrap(), changed);
    assert_eq!(people::count_users(store.read()).await.unwrap(), 2);
    let listed = people::users(store.read(), &first(10)).await.unwrap();
    assert_eq!(listed.rows.len(), 2);
    let administrators = within!(store, |tx| people::hold_administrators(&tx));
    assert_eq!(administrators, [ada.id]);
    let disabled = User { disabled_at: Some(at(9)), ..changed };
    within!(store, |tx| people::update_user(&*tx, &disabled, None));
    assert!(within!(store, |tx| people::hold_administrators(&tx)).is_empty());
    let found = people::users_by_ids(store.read(), &[ada.id, UserId::new()]).await.unwrap();
    assert_eq!(found, [disabled]);
}

#[tokio::test]
async fn a_token_is_its_owners_alone_and_found_by_its_hash() {
    let store = TestStore::new().await;
    let (ada, bob) = (user(&store, "ada@example.com").await, user(&store, "bob@example.com").await);
    let mut token = PersonalAccessToken {
        id: PersonalAccessTokenId::new(),
        user_id: ada.id,
        name: "laptop".to_owned(),
        token_prefix: "pat_1".to_owned(),
        expires_at: Some(at(9001)),
        last_used_at: None,
        created_at: at(0),
    };
    within!(store, |tx| people::insert_token(&*tx, &token, "hash"));
    assert!(people::token_by_hash(store.read(), "hash").await.unwrap().is_some());
    assert!(people::token_by_hash(store.read(), "other").await.unwrap().is_none());
    within!(store, |tx| people::touch_token(&*tx, token.id, at(1234)));
    token.last_used_at = Some(at(1234));
    assert_eq!(people::token(store.read(), ada.id, token.id).await.unwrap(), token);
    let foreign = people::token(store.read(), bob.id, token.id).await.unwrap_err();
    assert_eq!(foreign.code(), "NOT_FOUND");
    assert_eq!(people::tokens(store.read(), ada.id, &first(9)).await.unwrap().rows.len(), 1);
    assert_eq!(people::tokens(store.read(), bob.id, &first(9)).await.unwrap().rows.len(), 0);
    within!(store, |tx| people::delete_token(&*tx, token.id));
    assert!(people::token_by_hash(store.read(), "hash").await.unwrap().is_none());
}

#[tokio::test]
async fn a_role_is_what_the_membership_says_and_owners_are_counted() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let ada = user(&store, "ada@example.com").await;
    let project = world.project.id;
    assert_eq!(people::role(store.read(), ada.id, project).await.unwrap(), None);
    let mut membership = member(&store, project, ada.id, Role::Owner).await;
    for role in [Role::Owner, Role::Maintainer, Role::Member] {
        membership.role = role;
        within!(store, |tx| people::update_member(&*tx, &membership));
        assert_eq!(people::role(store.read(), ada.id, project).await.unwrap(), Some(role));
        let owners = ownership::count_owners(store.read(), project).await.unwrap();
        assert_eq!(owners, u64::from(role == Role::Owner));
        let found = people::member(store.read(), Scope::Everything, membership.id).await.unwrap();
        assert_eq!(found, membership);
    }
    assert_eq!(people::role(store.read(), ada.id, ProjectId::new()).await.unwrap(), None);
}

#[tokio::test]
async fn a_machine_user_is_found_by_token_and_by_name_with_its_project() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let mut machine = world.machine_user("robot").await;
    machine.name = "renamed".to_owned();
    let changed = MachineCredentials {
        password_hash: Some("password hash".to_owned()),
        token_hash: "token hash".to_owned(),
    };
    within!(store, |tx| application::update_machine_user(&*tx, &machine, &changed));
    let by_token = application::machine_by_token(store.read(), "token hash").await.unwrap();
    let by_name = application::machine_by_username(store.read(), "robot").await.unwrap();
    for found in [by_token.unwrap(), by_name.unwrap()] {
        assert_eq!(found.machine_user, machine);
        assert_eq!(found.project_id, world.project.id);
        assert_eq!(found.credentials.password_hash.as_deref(), Some("password hash"));
    }
    assert!(application::machine_by_token(store.read(), "other").await.unwrap().is_none());
    assert!(application::machine_by_username(store.read(), "Robot").await.unwrap().is_none());
}
