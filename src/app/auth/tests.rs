use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::Duration;
use secrecy::SecretString;

use super::*;
use crate::app::test_app::{PASSWORD, TestApp, bearer};
use crate::domain::application::{Application, MachineUser};
use crate::domain::id::{ApplicationId, MachineUserId, ProjectId};
use crate::domain::people::{PersonalAccessToken, Project};
use crate::secrets::{Password, generate_token};
use crate::store::application::MachineCredentials;

async fn token_of(app: &TestApp, user: &User, lifetime: Option<Duration>) -> SecretString {
    let (token, now) = (generate_token(TokenKind::Personal), app.now());
    store_token(app, user, &token.hash.to_string(), lifetime.map(|span| now + span)).await;
    token.secret
}

async fn store_token(app: &TestApp, user: &User, hash: &str, expires_at: Option<DateTime<Utc>>) {
    let row = PersonalAccessToken {
        id: PersonalAccessTokenId::new(),
        user_id: user.id,
        name: "ci".to_owned(),
        token_prefix: String::new(),
        expires_at,
        last_used_at: None,
        created_at: app.now(),
    };
    let tx = app.store.begin().await.unwrap();
    people::insert_token(&*tx, &row, hash).await.unwrap();
    tx.commit_unaudited().await.unwrap();
}

async fn disable(app: &TestApp, user: &User) {
    let disabled = User { disabled_at: Some(app.now()), ..user.clone() };
    let tx = app.store.begin().await.unwrap();
    people::update_user(&*tx, &disabled, None).await.unwrap();
    tx.commit_unaudited().await.unwrap();
}

/// A machine user `reports` with [`PASSWORD`], its project's id, and its token.
async fn machine_user(app: &TestApp) -> (MachineUser, ProjectId, SecretString) {
    let (token, now) = (generate_token(TokenKind::MachineUser), app.now());
    let project = Project {
        id: ProjectId::new(),
        slug: "shop".to_owned(),
        name: "Shop".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let application = Application {
        id: ApplicationId::new(),
        project_id: project.id,
        slug: "reports".to_owned(),
        name: "Reports".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let machine_user = MachineUser {
        id: MachineUserId::new(),
        application_id: application.id,
        name: "Reports".to_owned(),
        environment: "production".to_owned(),
        username: "reports".to_owned(),
        token_prefix: token.prefix,
        created_at: now,
        updated_at: now,
    };
    let credentials = MachineCredentials {
        password_hash: Some(hash(PASSWORD)),
        token_hash: token.hash.to_string(),
    };
    let tx = app.store.begin().await.unwrap();
    people::insert_project(&*tx, &project).await.unwrap();
    application::insert(&*tx, &application).await.unwrap();
    application::insert_machine_user(&*tx, &machine_user, &credentials).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    (machine_user, project.id, token.secret)
}

fn hash(password: &str) -> String {
    Password::parse(password).unwrap().hash().unwrap()
}

fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

async fn refused(app: &App, header: &str) {
    let error = app.authenticate(Some(header)).await.unwrap_err();
    assert_eq!(error.code(), "UNAUTHENTICATED", "{header}");
    assert_eq!(error.to_string(), invalid().to_string(), "{header}");
}

pub(super) async fn sign_in(app: &App, email: &str, password: &str) -> Result<SignedIn> {
    let client = Some("192.0.2.1".parse().unwrap());
    app.sign_in(email, SecretString::from(password), client, Some("r-1".to_owned())).await
}

#[tokio::test]
async fn no_credentials_and_wrong_ones_get_one_sentence_each() {
    let app = TestApp::new().await;
    let error = app.authenticate(None).await.unwrap_err();
    assert_eq!(error.to_string(), missing().to_string());
    let error = app.authenticate(Some("pfy_unknown")).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        ("UNAUTHENTICATED", without_scheme().to_string())
    );
    for header in [
        "",
        "unknown",
        "Bearer",
        "Bearer ",
        "Bearer pfy_unknown",
        "Bearer muser_unknown",
        "Bearer cb_unknown",
        "Bearer a.b.c",
        "Bearer unknown",
        "Digest x",
        "Basic",
        "Basic !",
        "Basic bm9jb2xvbg==",
        &basic("nobody", PASSWORD),
        &basic("\0", PASSWORD),
    ] {
        refused(&app, header).await;
    }
}

#[tokio::test]
async fn a_personal_access_token_is_its_user_until_it_expires() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", true).await;
    let holder = actor_until(&user, Some(app.now() + Duration::hours(1)));
    let header = bearer(&token_of(&app, &user, Some(Duration::hours(1))).await);
    assert_eq!(app.authenticate(Some(&header)).await.unwrap(), holder);
    let lower = header.replace("Bearer", "bearer ");
    assert_eq!(app.authenticate(Some(&lower)).await.unwrap(), holder);
    app.clock.advance(Duration::hours(1) - Duration::milliseconds(1));
    assert!(app.authenticate(Some(&header)).await.is_ok());
    app.clock.advance(Duration::milliseconds(1));
    refused(&app, &header).await;
}

#[tokio::test]
async fn a_token_of_any_form_that_the_operator_chose_holds() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", true).await;
    let token = "chosen-by-the-operator";
    store_token(&app, &user, &hash_token(token).to_string(), None).await;
    assert!(app.authenticate(Some(&format!("Bearer {token}"))).await.is_ok());
}

#[tokio::test]
async fn the_use_of_a_token_is_not_noted_by_a_wrong_clock() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", false).await;
    let secret = token_of(&app, &user, None).await;
    app.skewed.store(true, std::sync::atomic::Ordering::Relaxed);
    app.authenticate(Some(&bearer(&secret))).await.unwrap();
    let page = people::tokens(app.store.read(), user.id, &Default::default()).await.unwrap();
    assert_eq!(page.rows[0].1.last_used_at, None);
}

#[tokio::test]
async fn the_use_of_a_token_is_noted_at_most_once_a_minute() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", false).await;
    let secret = token_of(&app, &user, None).await;
    let header = bearer(&secret);
    let used = async || {
        app.authenticate(Some(&header)).await.unwrap();
        let page = people::tokens(app.store.read(), user.id, &Default::default()).await.unwrap();
        page.rows[0].1.last_used_at.unwrap()
    };
    let first = used().await;
    assert_eq!(first, app.now());
    app.clock.advance(Duration::seconds(59));
    assert_eq!(used().await, first);
    app.clock.advance(Duration::seconds(1));
    assert_eq!(used().await, app.now());
    assert!(app.audited().await.is_empty());
}

#[tokio::test]
async fn nothing_of_a_disabled_user_holds() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", true).await;
    let token = bearer(&token_of(&app, &user, None).await);
    let session = bearer(&sign_in(&app, &user.email, PASSWORD).await.unwrap().token);
    disable(&app, &user).await;
    refused(&app, &token).await;
    refused(&app, &session).await;
    let error = sign_in(&app, &user.email, PASSWORD).await.unwrap_err();
    assert_eq!(error.code(), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_machine_user_comes_by_token_or_by_password() {
    let app = TestApp::new().await;
    let (user, project_id, token) = machine_user(&app).await;
    let expected = Actor::Machine {
        id: user.id,
        username: "reports".to_owned(),
        application_id: user.application_id,
        project_id,
        environment: "production".to_owned(),
    };
    assert_eq!(app.authenticate(Some(&bearer(&token))).await.unwrap(), expected);
    let header = basic("reports", PASSWORD);
    assert_eq!(app.authenticate(Some(&header)).await.unwrap(), expected);
    refused(&app, &basic("reports", "a wrong password")).await;
    refused(&app, &basic("reports", "")).await;
}

#[tokio::test]
async fn a_password_is_hashed_once_however_often_a_backend_sends_it() {
    let app = TestApp::with(&[("PFY_AUTH_SIGN_IN_ATTEMPTS_PER_MINUTE", "2")]).await;
    machine_user(&app).await;
    let header = basic("reports", PASSWORD);
    let calls = (0..20).map(|_| app.authenticate(Some(&header)));
    let answers = futures::future::join_all(calls).await;
    // More than two attempts would be refused: that all hold means that one was made.
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(app.auth.known_pairs.count().await, 1);
    let wrong = basic("reports", "a wrong password");
    for _ in 0..5 {
        refused(&app, &wrong).await;
    }
    let third = app.authenticate(Some(&basic("reports", "another"))).await.unwrap_err();
    assert_eq!(third.code(), "RATE_LIMITED");
    assert!(app.authenticate(Some(&header)).await.is_ok());
}

#[tokio::test]
async fn a_changed_password_is_not_remembered_as_right() {
    let app = TestApp::new().await;
    let (user, _, _) = machine_user(&app).await;
    let (old, new) = (basic("reports", PASSWORD), basic("reports", "another long password"));
    app.authenticate(Some(&old)).await.unwrap();
    refused(&app, &new).await;
    let (_, credentials) =
        application::machine_user(app.store.read(), Actor::System.scope(), user.id).await.unwrap();
    let credentials =
        MachineCredentials { password_hash: Some(hash("another long password")), ..credentials };
    let tx = app.store.begin().await.unwrap();
    application::update_machine_user(&*tx, &user, &credentials).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    refused(&app, &old).await;
    assert!(app.authenticate(Some(&new)).await.is_ok());
}

#[tokio::test]
async fn a_session_holds_for_its_time_and_is_audited() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", false).await;
    let signed_in = sign_in(&app, " Ada@Example.com", PASSWORD).await.unwrap();
    assert_eq!(signed_in.user, user);
    assert_eq!(signed_in.expires_at, app.now() + Duration::hours(12));
    let header = bearer(&signed_in.token);
    assert_eq!(app.authenticate(Some(&header)).await.unwrap(), actor(&user));
    let audited = app.audited().await;
    let [row] = &audited[..] else { panic!("{audited:?}") };
    assert_eq!((row.action.as_str(), row.actor_id), ("user.sign_in", Some(user.id.0)));
    assert_eq!(row.request_id.as_deref(), Some("r-1"));
    app.clock.set(signed_in.expires_at);
    refused(&app, &header).await;
}

#[tokio::test]
async fn a_session_ends_with_a_new_password_and_with_the_user() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", false).await;
    let first = bearer(&sign_in(&app, &user.email, PASSWORD).await.unwrap().token);
    app.clock.advance(Duration::milliseconds(1));
    let password = people::NewPassword { hash: hash(PASSWORD), sessions_valid_from: app.now() };
    let tx = app.store.begin().await.unwrap();
    people::update_user(&*tx, &user, Some(password)).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    refused(&app, &first).await;
    let second = bearer(&sign_in(&app, &user.email, PASSWORD).await.unwrap().token);
    assert!(app.authenticate(Some(&second)).await.is_ok());
    let tx = app.store.begin().await.unwrap();
    people::delete_user(&*tx, user.id).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    refused(&app, &second).await;
}

#[tokio::test]
async fn a_sign_in_never_tells_what_was_wrong() {
    let app = TestApp::new().await;
    let (user, _) = app.person("ada@example.com", false).await;
    let pairs = [(user.email.as_str(), "wrong"), ("nobody@example.com", PASSWORD), ("\0", "")];
    let mut sentences = Vec::new();
    for (email, password) in pairs {
        let error = sign_in(&app, email, password).await.unwrap_err();
        sentences.push((error.code(), error.to_string()));
    }
    assert!(sentences.iter().all(|said| *said == sentences[0]), "{sentences:?}");
    assert_eq!(sentences[0].0, "UNAUTHENTICATED");
    assert!(app.audited().await.is_empty());
}

#[tokio::test]
async fn invented_names_of_machine_users_are_limited_by_the_address_they_come_from() {
    let app = TestApp::with(&[("PFY_AUTH_SIGN_IN_ATTEMPTS_PER_MINUTE", "1")]).await;
    let try_in = async |name: &str, client: &str| {
        let header = basic(name, "wrong");
        let client = Some(client.parse().unwrap());
        app.authenticate_from(Some(&header), client).await.unwrap_err().code()
    };
    for number in 0..10 {
        assert_eq!(try_in(&format!("m{number}"), "192.0.2.1").await, "UNAUTHENTICATED");
    }
    assert_eq!(try_in("m10", "192.0.2.1").await, "RATE_LIMITED");
    assert_eq!(try_in("m11", "192.0.2.2").await, "UNAUTHENTICATED", "other addresses go on");
    assert_eq!(try_in("m0", "192.0.2.1").await, "UNAUTHENTICATED", "what is known costs nothing");
}

#[tokio::test]
async fn one_who_guesses_the_password_of_a_machine_user_does_not_lock_out_the_backend() {
    let app = TestApp::with(&[("PFY_AUTH_SIGN_IN_ATTEMPTS_PER_MINUTE", "2")]).await;
    let try_in = async |password: &str, client: &str| {
        let header = basic("reports", password);
        let client = Some(client.parse().unwrap());
        app.authenticate_from(Some(&header), client).await.unwrap_err().code()
    };
    assert_eq!(try_in("1", "192.0.2.1").await, "UNAUTHENTICATED");
    assert_eq!(try_in("2", "192.0.2.1").await, "UNAUTHENTICATED");
    assert_eq!(try_in("3", "192.0.2.1").await, "RATE_LIMITED");
    for client in 2..=10 {
        for password in ["a", "b"] {
            let told = try_in(&format!("{password}{client}"), &format!("192.0.2.{client}")).await;
            assert_eq!(told, "UNAUTHENTICATED");
        }
    }
    assert_eq!(try_in("c", "192.0.2.11").await, "RATE_LIMITED", "but many do");
}

#[tokio::test]
async fn attempts_are_limited_by_account_and_by_address_and_come_back_with_the_minute() {
    let app = TestApp::with(&[("PFY_AUTH_SIGN_IN_ATTEMPTS_PER_MINUTE", "2")]).await;
    app.person("ada@example.com", false).await;
    let try_in = async |email: &str, client: &str| {
        let client = Some(client.parse().unwrap());
        let wrong = SecretString::from("wrong");
        app.sign_in(email, wrong, client, None).await.unwrap_err().code()
    };
    assert_eq!(try_in("ada@example.com", "192.0.2.1").await, "UNAUTHENTICATED");
    assert_eq!(try_in("ADA@example.com", "192.0.2.1").await, "UNAUTHENTICATED");
    assert_eq!(try_in("ada@example.com", "192.0.2.1").await, "RATE_LIMITED");
    for client in 2..=10 {
        let client = format!("192.0.2.{client}");
        for _ in 0..2 {
            let told = try_in("ada@example.com", &client).await;
            assert_eq!(told, "UNAUTHENTICATED", "one who guesses does not lock out the person");
        }
    }
    assert_eq!(try_in("ada@example.com", "192.0.2.11").await, "RATE_LIMITED", "but many do");
    assert_eq!(try_in("a@example.com", "2001:db8::1").await, "UNAUTHENTICATED");
    assert_eq!(try_in("b@example.com", "2001:db8::2").await, "UNAUTHENTICATED");
    assert_eq!(try_in("c@example.com", "2001:db8::3").await, "RATE_LIMITED");
    assert_eq!(try_in("c@example.com", "2001:db8:0:1::3").await, "UNAUTHENTICATED");
    app.clock.advance(Duration::seconds(60));
    assert!(sign_in(&app, "ada@example.com", PASSWORD).await.is_ok());
}
