use secrecy::ExposeSecret;

use super::*;
use crate::app::test_app::{KEY, TestApp, bearer};
use crate::app::{CreateApplication, CreateProject, CreateTrigger};
use crate::domain::access::Actor;
use crate::domain::executor::ExecutorInstance;
use crate::domain::id::ExecutorId;
use crate::domain::trigger::CatchUp;

const TOKEN: &str = "pfy_0123456789012345678901234567890123456789012";

#[tokio::test]
async fn the_first_start_makes_an_administrator_with_a_token_and_the_second_changes_nothing() {
    let app = TestApp::new().await;
    let first = app.bootstrap().await.unwrap();
    let user = first.administrator.unwrap();
    assert_eq!((user.email.as_str(), user.administrator), ("admin@localhost", true));
    let actor = app.authenticate(Some(&bearer(&first.token.unwrap()))).await.unwrap();
    assert!(matches!(actor, Actor::User { id, administrator: true, .. } if id == user.id));
    let audited = app.audited().await;
    assert_eq!(app.actions().await, ["user.create", "personal_access_token.create"]);
    assert!(audited.iter().all(|row| row.actor_type == "system"));

    let second = app.bootstrap().await.unwrap();
    assert!(second.administrator.is_none() && second.token.is_none());
    assert_eq!(app.audited().await, audited);
}

#[tokio::test]
async fn a_configured_token_holds_is_not_shown_and_is_without_effect_later() {
    let app = TestApp::with(&[("PFY_AUTH_BOOTSTRAP_TOKEN", TOKEN)]).await;
    let first = app.bootstrap().await.unwrap();
    assert!(first.administrator.is_some() && first.token.is_none());
    let header = format!("Bearer {TOKEN}");
    assert!(app.authenticate(Some(&header)).await.is_ok());
    let audited = format!("{:?}", app.audited().await);
    assert!(!audited.contains(TOKEN));
    assert!(!audited.contains(&hash_token(TOKEN).to_string()));

    let other = "pfy_another_token_that_was_configured_later";
    let variables = [("PFY_AUTH_BOOTSTRAP_TOKEN", other)];
    let again = app.beside(KEY, "UTC", &variables).await;
    assert!(again.bootstrap().await.unwrap().administrator.is_none());
    assert!(again.authenticate(Some(&format!("Bearer {other}"))).await.is_err());
    assert!(again.authenticate(Some(&header)).await.is_ok());
}

#[tokio::test]
async fn a_configured_token_that_would_not_be_found_is_refused() {
    for token in ["muser_0123456789012345678", "eyJhbGciOiJIUzI1NiJ9.e30.x0123456789"] {
        let app = TestApp::with(&[("PFY_AUTH_BOOTSTRAP_TOKEN", token)]).await;
        let error = app.bootstrap().await.unwrap_err();
        assert_eq!(error.field(), Some("auth.bootstrap_token"), "{token}");
        assert_eq!(people::count_users(app.store.read()).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn of_processes_that_start_at_once_one_makes_the_administrator() {
    let app = TestApp::new().await;
    let mut processes = Vec::new();
    for index in 0..6 {
        let email = format!("admin{index}@example.com");
        let variables = [("PFY_AUTH_BOOTSTRAP_EMAIL", email.as_str())];
        processes.push(app.beside(KEY, "UTC", &variables).await);
    }
    let starts = processes.iter().map(App::bootstrap);
    let starts = futures::future::try_join_all(starts).await.unwrap();
    let tokens: Vec<_> = starts.iter().filter_map(|start| start.token.as_ref()).collect();
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].expose_secret().starts_with("pfy_"));
    assert_eq!(people::count_users(app.store.read()).await.unwrap(), 1);
    assert_eq!(app.actions().await.len(), 2);
}

#[tokio::test]
async fn a_process_with_another_key_does_not_start() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let other = app.beside("another passphrase", "UTC", &[]).await;
    let error = other.bootstrap().await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("SECRET_KEY_MISMATCH", Some("secret_key")));
    assert!(error.to_string().contains("start with that key"), "{error}");
}

#[tokio::test]
async fn a_process_with_another_zone_does_not_start_and_learns_what_to_do() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    assert!(app.beside(KEY, "Etc/UTC", &[]).await.bootstrap().await.is_ok());
    let other = app.beside(KEY, "Europe/Amsterdam", &[]).await;
    let error = other.bootstrap().await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("TIME_ZONE_MISMATCH", Some("cron.time_zone")));
    for word in ["set cron.time_zone to UTC", "set-time-zone Europe/Amsterdam"] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_new_server_zone_starts_the_windows_of_triggers_without_a_zone() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let system = Caller::system();
    let project = CreateProject { slug: "shop".to_owned(), name: "Shop".to_owned() };
    let project_id = app.create_project(&system, project).await.unwrap().id;
    let new =
        CreateApplication { project_id, slug: "reports".to_owned(), name: "Reports".to_owned() };
    let application_id = app.create_application(&system, new).await.unwrap().id;
    let daily = |time_zone: Option<&str>, enabled| CreateTrigger {
        application_id,
        name: "Daily".to_owned(),
        description: String::new(),
        run_key: "daily".to_owned(),
        cron_expression: "0 0 9 * * *".to_owned(),
        time_zone: time_zone.map(str::to_owned),
        enabled,
        catch_up: CatchUp::All,
    };
    let follows = app.create_trigger(&system, daily(None, true)).await.unwrap();
    let own = app.create_trigger(&system, daily(Some("UTC"), true)).await.unwrap();
    let off = app.create_trigger(&system, daily(None, false)).await.unwrap();
    app.clock.advance(chrono::Duration::hours(1));

    let zone = Zone::parse("Asia/Tokyo").unwrap();
    let (_, stranger) = app.person("ada@example.com", false).await;
    let error = app.set_server_zone(&stranger, &zone).await.unwrap_err();
    assert_eq!(error.code(), "FORBIDDEN");
    app.set_server_zone(&system, &zone).await.unwrap();

    let now = app.now();
    let found = async |id| app.trigger(Actor::System.scope(), id).await.unwrap();
    let moved = found(follows.id).await;
    assert_eq!((moved.evaluated_at, moved.next_fire_at), (now, Some(now)));
    assert_eq!(found(own.id).await, own);
    assert_eq!(found(off.id).await, off);
    assert_eq!(app.actions().await.last().unwrap(), "setting.set_time_zone");
    assert!(app.bootstrap().await.is_err());
    assert!(app.beside(KEY, "Asia/Tokyo", &[]).await.bootstrap().await.is_ok());
}

#[tokio::test]
async fn the_server_s_zone_is_not_changed_while_an_executor_lives() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let mut running = ExecutorInstance {
        id: ExecutorId::new(),
        host: "worker".to_owned(),
        process_id: 17,
        version: "1".to_owned(),
        started_at: app.now(),
        last_pass_at: app.now(),
        in_flight: 0,
        clock_skew_ms: 0,
        stopped_at: None,
    };
    let report = async |instance: &ExecutorInstance| {
        let tx = app.store.begin().await.unwrap();
        crate::store::executor::report(&*tx, instance).await.unwrap();
        tx.commit_unaudited().await.unwrap();
    };
    report(&running).await;
    let zone = Zone::parse("Asia/Tokyo").unwrap();
    let change = async || app.set_server_zone(&Caller::system(), &zone).await;
    let error = change().await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("CONFLICT", Some("cron.time_zone")));
    assert!(error.to_string().contains("worker (process 17)"), "{error}");
    assert!(app.bootstrap().await.is_ok(), "nothing was changed");

    running.stopped_at = Some(app.now());
    report(&running).await;
    change().await.unwrap();
    assert!(app.bootstrap().await.is_err());
}
