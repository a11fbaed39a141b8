//! What people may do to people, projects and what belongs to them.

use base64::Engine;
use chrono::Duration;
use secrecy::{ExposeSecret, SecretString};

use super::test_app::{PASSWORD, TestApp, bearer, caller_of, code};
use super::*;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::application::Application;
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, MachineUserId, ProjectId, UserId};
use crate::domain::page::PageRequest;
use crate::domain::people::{Project, ProjectMember, User};
use crate::domain::trigger::CatchUp;

const NEW_PASSWORD: &str = "a new and long password";

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

async fn project(app: &TestApp, owner: &Caller, slug: &str) -> Project {
    let new = CreateProject { slug: slug.to_owned(), name: "Shop".to_owned() };
    app.create_project(owner, new).await.unwrap()
}

async fn application(app: &TestApp, caller: &Caller, project_id: ProjectId) -> Application {
    let new =
        CreateApplication { project_id, slug: "reports".to_owned(), name: "Reports".to_owned() };
    app.create_application(caller, new).await.unwrap()
}

async fn member(app: &TestApp, owner: &Caller, id: ProjectId, email: &str, role: Role) -> Caller {
    let (user, caller) = app.person(email, false).await;
    let new = AddProjectMember { project_id: id, user: UserRef::Id(user.id), role };
    app.add_project_member(owner, new).await.unwrap();
    caller
}

async fn members(app: &TestApp, project: ProjectId) -> Vec<ProjectMember> {
    let page = app.project_members(Scope::Everything, project, &PageRequest::default()).await;
    page.unwrap().rows.into_iter().map(|(_, member)| member).collect()
}

fn machine(application_id: ApplicationId) -> CreateMachineUser {
    CreateMachineUser {
        application_id,
        name: "Reports".to_owned(),
        environment: "production".to_owned(),
        username: "reports".to_owned(),
        password: Some(secret(PASSWORD)),
    }
}

#[tokio::test]
async fn only_administrators_manage_users() {
    let app = TestApp::new().await;
    let (_, stranger) = app.person("ada@example.com", false).await;
    let new = CreateUser {
        email: "Bob@Example.com".to_owned(),
        name: "Bob".to_owned(),
        password: Some(secret(PASSWORD)),
        administrator: false,
    };
    assert_eq!(code(app.create_user(&stranger, new.clone()).await), "FORBIDDEN");
    let missing = UserId::new();
    let update = UpdateUser::default();
    assert_eq!(code(app.update_user(&stranger, missing, update).await), "FORBIDDEN");
    assert_eq!(code(app.delete_user(&stranger, missing).await), "FORBIDDEN");
    assert_eq!(code(app.users(&stranger.actor, &PageRequest::default()).await), "FORBIDDEN");

    let (admin, caller) = app.person("root@example.com", true).await;
    let bob = app.create_user(&caller, new.clone()).await.unwrap();
    assert_eq!(bob.email, "bob@example.com");
    assert_eq!(code(app.create_user(&caller, new).await), "CONFLICT");
    assert_eq!(code(app.user(&stranger.actor, admin.id).await), "NOT_FOUND");
    assert_eq!(app.user(&caller_of(&bob).actor, bob.id).await.unwrap(), bob);
    let signed_in = app.sign_in("bob@example.com", secret(PASSWORD), None, None).await;
    assert!(signed_in.is_ok());
}

#[tokio::test]
async fn a_password_that_an_administrator_sets_ends_sessions_and_leaves_no_hash_in_the_log() {
    let app = TestApp::new().await;
    let (_, admin) = app.person("root@example.com", true).await;
    let (bob, _) = app.person("bob@example.com", false).await;
    let session = app.sign_in(&bob.email, secret(PASSWORD), None, None).await.unwrap();
    app.clock.advance(Duration::milliseconds(1));
    let update = UpdateUser { password: Some(secret(NEW_PASSWORD)), ..Default::default() };
    app.update_user(&admin, bob.id, update).await.unwrap();
    assert_eq!(code(app.authenticate(Some(&bearer(&session.token))).await), "UNAUTHENTICATED");
    assert!(app.sign_in(&bob.email, secret(NEW_PASSWORD), None, None).await.is_ok());
    let audited = app.audited().await;
    let row = audited.iter().find(|row| row.action == "user.update").unwrap();
    assert_eq!(row.after.as_ref().unwrap()["passwordChanged"], true);
    let all = format!("{audited:?}");
    assert!(!all.contains("argon2") && !all.contains(NEW_PASSWORD), "{all}");
}

#[tokio::test]
async fn one_changes_the_own_password_with_the_current_one() {
    let app = TestApp::with(&[("PFY_AUTH_SIGN_IN_ATTEMPTS_PER_MINUTE", "4")]).await;
    let (user, caller) = app.person("ada@example.com", false).await;
    let change = async |current, new| {
        let done = app.change_password(&caller, secret(current), secret(new)).await;
        done.map_err(|error| (error.code(), error.field().map(str::to_owned)))
    };
    let invalid = |field: &str| Err(("INVALID", Some(field.to_owned())));
    assert_eq!(change("wrong", NEW_PASSWORD).await, invalid("currentPassword"));
    assert_eq!(change(PASSWORD, "short").await, invalid("newPassword"));
    app.clock.advance(Duration::seconds(1));
    assert_eq!(change(PASSWORD, NEW_PASSWORD).await.unwrap().updated_at, app.now());
    assert_eq!(change(PASSWORD, NEW_PASSWORD).await, invalid("currentPassword"));
    assert_eq!(change(NEW_PASSWORD, PASSWORD).await, Err(("RATE_LIMITED", None)));
    app.clock.advance(Duration::minutes(1));
    assert!(app.sign_in(&user.email, secret(NEW_PASSWORD), None, None).await.is_ok());
    assert_eq!(app.actions().await, ["user.change_password", "user.sign_in"]);
}

#[tokio::test]
async fn the_last_administrator_stays() {
    let app = TestApp::new().await;
    let (first, caller) = app.person("root@example.com", true).await;
    let (second, _) = app.person("second@example.com", true).await;
    let disable = UpdateUser { disabled: Some(true), ..Default::default() };
    let demote = UpdateUser { administrator: Some(false), ..Default::default() };
    app.update_user(&caller, second.id, disable.clone()).await.unwrap();
    assert_eq!(code(app.update_user(&caller, first.id, disable).await), "CONFLICT");
    assert_eq!(code(app.update_user(&caller, first.id, demote.clone()).await), "CONFLICT");
    assert_eq!(code(app.delete_user(&caller, first.id).await), "CONFLICT");
    let enable = UpdateUser { disabled: Some(false), ..Default::default() };
    app.update_user(&caller, second.id, enable).await.unwrap();
    app.update_user(&caller, first.id, demote).await.unwrap();
    let demoted = User { administrator: false, ..first };
    app.delete_user(&caller, demoted.id).await.unwrap();
    assert_eq!(code(app.user(&caller.actor, demoted.id).await), "NOT_FOUND");
}

#[tokio::test]
async fn two_administrators_who_demote_each_other_at_once_are_not_both_heard() {
    let app = TestApp::new().await;
    let (first, by_first) = app.person("one@example.com", true).await;
    let (second, by_second) = app.person("two@example.com", true).await;
    let demote = UpdateUser { administrator: Some(false), ..Default::default() };
    let (a, b) = tokio::join!(
        app.update_user(&by_first, second.id, demote.clone()),
        app.update_user(&by_second, first.id, demote),
    );
    assert_eq!([a.is_ok(), b.is_ok()].iter().filter(|ok| **ok).count(), 1);
}

#[tokio::test]
async fn whoever_makes_a_project_owns_it_and_others_do_not_see_it() {
    let app = TestApp::new().await;
    let (ada, owner) = app.person("ada@example.com", false).await;
    let (_, stranger) = app.person("bob@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let [member] = &members(&app, shop.id).await[..] else { panic!("one member") };
    assert_eq!((member.user_id, member.role), (ada.id, Role::Owner));
    let scope = stranger.actor.scope();
    assert_eq!(code(app.project(scope, shop.id).await), "NOT_FOUND");
    assert_eq!(code(app.project_by_slug(scope, "shop").await), "NOT_FOUND");
    assert_eq!(code(app.project_by_slug(Scope::Everything, "\0").await), "NOT_FOUND");
    let unseen = app.delete_project(&stranger, shop.id).await.unwrap_err();
    let missing = app.delete_project(&stranger, ProjectId::new()).await.unwrap_err();
    assert_eq!(unseen.to_string(), missing.to_string());
    let taken = CreateProject { slug: "shop".to_owned(), name: "Shop".to_owned() };
    assert_eq!(code(app.create_project(&stranger, taken).await), "CONFLICT");
}

#[tokio::test]
async fn members_read_maintainers_write_and_owners_decide() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let maintainer = member(&app, &owner, shop.id, "mia@example.com", Role::Maintainer).await;
    let reader = member(&app, &owner, shop.id, "ron@example.com", Role::Member).await;
    assert_eq!(app.project(reader.actor.scope(), shop.id).await.unwrap(), shop);
    let rename = || UpdateProject { name: Some("New".to_owned()), ..Default::default() };
    assert_eq!(code(app.update_project(&reader, shop.id, rename()).await), "FORBIDDEN");
    assert_eq!(app.update_project(&maintainer, shop.id, rename()).await.unwrap().name, "New");
    let reports = application(&app, &maintainer, shop.id).await;
    let change = UpdateApplication { slug: Some("daily".to_owned()), ..Default::default() };
    let refused = app.update_application(&reader, reports.id, change.clone()).await;
    assert_eq!(code(refused), "FORBIDDEN");
    let changed = app.update_application(&maintainer, reports.id, change).await.unwrap();
    assert_eq!(changed.slug, "daily");
    let by_slug = app.application_by_slug(reader.actor.scope(), shop.id, "daily").await.unwrap();
    assert_eq!(by_slug, changed);
    let (user, _) = app.person("new@example.com", false).await;
    let add = || AddProjectMember {
        project_id: shop.id,
        user: UserRef::Email("New@example.com".to_owned()),
        role: Role::Member,
    };
    assert_eq!(code(app.add_project_member(&maintainer, add()).await), "FORBIDDEN");
    assert_eq!(app.add_project_member(&owner, add()).await.unwrap().user_id, user.id);
    assert_eq!(code(app.add_project_member(&owner, add()).await), "CONFLICT");
    let nobody = AddProjectMember { user: UserRef::Email("no@example.com".to_owned()), ..add() };
    assert_eq!(app.add_project_member(&owner, nobody).await.unwrap_err().field(), Some("email"));
    assert_eq!(code(app.delete_project(&maintainer, shop.id).await), "FORBIDDEN");
}

#[tokio::test]
async fn the_last_owner_stays_unless_an_administrator_decides() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let (_, admin) = app.person("root@example.com", true).await;
    let shop = project(&app, &owner, "shop").await;
    let own = members(&app, shop.id).await[0].clone();
    let demote = app.update_project_member(&owner, own.id, Role::Maintainer).await;
    assert_eq!(code(demote), "CONFLICT");
    assert_eq!(code(app.remove_project_member(&owner, own.id).await), "CONFLICT");
    member(&app, &owner, shop.id, "bob@example.com", Role::Owner).await;
    app.update_project_member(&owner, own.id, Role::Maintainer).await.unwrap();
    assert_eq!(code(app.remove_project_member(&owner, own.id).await), "FORBIDDEN");
    let last = members(&app, shop.id).await[1].clone();
    app.remove_project_member(&admin, last.id).await.unwrap();
    assert_eq!(members(&app, shop.id).await.len(), 1);
}

#[tokio::test]
async fn two_owners_who_remove_each_other_at_once_are_not_both_heard() {
    let app = TestApp::new().await;
    let (_, ada) = app.person("ada@example.com", false).await;
    let shop = project(&app, &ada, "shop").await;
    let bob = member(&app, &ada, shop.id, "bob@example.com", Role::Owner).await;
    let [of_ada, of_bob] = &members(&app, shop.id).await[..] else { panic!("two members") };
    let (a, b) = tokio::join!(
        app.remove_project_member(&ada, of_bob.id),
        app.remove_project_member(&bob, of_ada.id),
    );
    assert_eq!([a.is_ok(), b.is_ok()].iter().filter(|ok| **ok).count(), 1);
    assert_eq!(members(&app, shop.id).await.len(), 1);
}

#[tokio::test]
async fn a_deleted_project_takes_everything_with_it_and_the_audit_log_says_what() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let reports = application(&app, &owner, shop.id).await;
    app.create_machine_user(&owner, machine(reports.id)).await.unwrap();
    let trigger = CreateTrigger {
        application_id: reports.id,
        name: "Daily".to_owned(),
        description: String::new(),
        run_key: "daily".to_owned(),
        cron_expression: "0 0 9 * * *".to_owned(),
        time_zone: None,
        enabled: true,
        catch_up: CatchUp::All,
    };
    let trigger = app.create_trigger(&owner, trigger).await.unwrap();
    app.run_trigger(&owner, trigger.id).await.unwrap();
    app.delete_project(&owner, shop.id).await.unwrap();
    let row = app.audited().await.pop().unwrap();
    assert_eq!((row.action.as_str(), row.project_id), ("project.delete", Some(shop.id)));
    let before = row.before.unwrap();
    assert_eq!(before["slug"], "shop");
    assert_eq!(before["applications"][0]["slug"], "reports");
    assert_eq!(before["contents"]["machineUsers"], 1);
    assert_eq!(before["contents"]["triggers"], 1);
    assert_eq!(code(app.trigger(Scope::Everything, trigger.id).await), "NOT_FOUND");
    assert_eq!(code(app.application(Scope::Everything, reports.id).await), "NOT_FOUND");
}

#[tokio::test]
async fn tenants_have_a_slug_once_an_environment() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let reports = application(&app, &owner, shop.id).await;
    let new = |environment: &str| CreateTenant {
        application_id: reports.id,
        slug: "acme".to_owned(),
        name: "Acme".to_owned(),
        environment: environment.to_owned(),
    };
    let tenant = app.create_tenant(&owner, new("production")).await.unwrap();
    assert_eq!(code(app.create_tenant(&owner, new("production")).await), "CONFLICT");
    let other = app.create_tenant(&owner, new("staging")).await.unwrap();
    let collide = UpdateTenant { environment: Some("production".to_owned()), ..Default::default() };
    assert_eq!(code(app.update_tenant(&owner, other.id, collide).await), "CONFLICT");
    let listed = async |environment| {
        let (scope, all) = (owner.actor.scope(), PageRequest::default());
        app.tenants(scope, reports.id, environment, &all).await.unwrap().rows.len()
    };
    assert_eq!(listed(None).await, 2);
    assert_eq!(listed(Some("staging")).await, 1);
    assert_eq!(listed(Some("\0")).await, 0);
    app.delete_tenant(&owner, other.id).await.unwrap();
    assert_eq!(app.tenant(owner.actor.scope(), tenant.id).await.unwrap(), tenant);
    assert_eq!(listed(None).await, 1);
}

#[tokio::test]
async fn a_machine_users_secrets_are_shown_once_and_change() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let reports = application(&app, &owner, shop.id).await;
    let (made, token) = app.create_machine_user(&owner, machine(reports.id)).await.unwrap();
    assert!(app.authenticate(Some(&bearer(&token))).await.is_ok());
    assert_eq!(code(app.create_machine_user(&owner, machine(reports.id)).await), "CONFLICT");

    let (rotated, fresh) = app.rotate_machine_user_token(&owner, made.id).await.unwrap();
    assert_ne!(rotated.token_prefix, made.token_prefix);
    assert_eq!(code(app.authenticate(Some(&bearer(&token))).await), "UNAUTHENTICATED");
    assert!(app.authenticate(Some(&bearer(&fresh))).await.is_ok());

    let basic = |password: &str| {
        let pair = format!("reports:{password}");
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    };
    assert!(app.authenticate(Some(&basic(PASSWORD))).await.is_ok());
    let set = |password| UpdateMachineUser { password: Some(password), ..Default::default() };
    let new = set(Some(secret(NEW_PASSWORD)));
    app.update_machine_user(&owner, made.id, new).await.unwrap();
    assert!(app.authenticate(Some(&basic(PASSWORD))).await.is_err());
    assert!(app.authenticate(Some(&basic(NEW_PASSWORD))).await.is_ok());
    let rename = UpdateMachineUser { name: Some("New".to_owned()), ..Default::default() };
    app.update_machine_user(&owner, made.id, rename).await.unwrap();
    assert!(app.authenticate(Some(&basic(NEW_PASSWORD))).await.is_ok());
    app.update_machine_user(&owner, made.id, set(None)).await.unwrap();
    assert!(app.authenticate(Some(&basic(NEW_PASSWORD))).await.is_err());

    app.delete_machine_user(&owner, made.id).await.unwrap();
    assert_eq!(code(app.authenticate(Some(&bearer(&fresh))).await), "UNAUTHENTICATED");
    let all = format!("{:?}", app.audited().await);
    assert!(!all.contains("argon2") && !all.contains(fresh.expose_secret()), "{all}");
}

#[tokio::test]
async fn a_username_with_a_colon_could_not_sign_in_and_is_refused() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let reports = application(&app, &owner, shop.id).await;
    for username in ["a:b", "", "a\u{7}b", &"a".repeat(101)] {
        let new = CreateMachineUser { username: username.to_owned(), ..machine(reports.id) };
        let error = app.create_machine_user(&owner, new).await.unwrap_err();
        assert_eq!((error.code(), error.field()), ("INVALID", Some("username")), "{username:?}");
    }
}

#[tokio::test]
async fn a_machine_user_manages_nothing() {
    let app = TestApp::new().await;
    let (_, owner) = app.person("ada@example.com", false).await;
    let shop = project(&app, &owner, "shop").await;
    let reports = application(&app, &owner, shop.id).await;
    let (made, _) = app.create_machine_user(&owner, machine(reports.id)).await.unwrap();
    let actor = Actor::Machine {
        id: made.id,
        username: made.username.clone(),
        application_id: reports.id,
        project_id: shop.id,
        environment: made.environment.clone(),
    };
    let caller = Caller { actor, request_id: None };
    let audited = app.audited().await.len();
    let new = CreateProject { slug: "mine".to_owned(), name: "Mine".to_owned() };
    assert_eq!(code(app.create_project(&caller, new).await), "FORBIDDEN");
    assert_eq!(code(app.delete_project(&caller, shop.id).await), "FORBIDDEN");
    assert_eq!(code(app.delete_application(&caller, reports.id).await), "FORBIDDEN");
    assert_eq!(code(app.rotate_machine_user_token(&caller, made.id).await), "FORBIDDEN");
    assert_eq!(code(app.create_personal_access_token(&caller, "ci", None).await), "FORBIDDEN");
    assert_eq!(code(app.me(&caller.actor).await), "FORBIDDEN");
    let missing = MachineUserId::new();
    assert_eq!(code(app.delete_machine_user(&caller, missing).await), "NOT_FOUND");
    assert_eq!(app.audited().await.len(), audited);
}
