use secrecy::SecretString;

use super::*;
use crate::app::test_app::{KEY, TestApp};
use crate::app::{CreateLineOa, CreateProject};
use crate::domain::application::{Application, Backend};
use crate::domain::id::{ApplicationId, BackendId};

const NEW: &str = "another passphrase of the tests";

fn key(text: &str) -> SecretKey {
    SecretKey::from_text(&SecretString::from(text)).unwrap()
}

/// A backend and a LINE OA with secrets.
async fn stocked(app: &TestApp) -> (BackendId, crate::domain::id::LineOaId) {
    let system = Caller::system();
    let project = CreateProject { slug: "shop".to_owned(), name: "Shop".to_owned() };
    let project = app.create_project(&system, project).await.unwrap();
    let new = CreateLineOa {
        project_id: project.id,
        name: "Shop".to_owned(),
        channel_id: "1234567890".to_owned(),
        channel_secret: SecretString::from("the-channel-secret"),
        channel_access_token: SecretString::from("the-access-token"),
    };
    let line_oa = app.create_line_oa(&system, new).await.unwrap();
    let now = app.now();
    let application = Application {
        id: ApplicationId::new(),
        project_id: project.id,
        slug: "reports".to_owned(),
        name: "Reports".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let backend = Backend {
        id: BackendId::new(),
        application_id: application.id,
        machine_user_id: None,
        name: "one".to_owned(),
        description: String::new(),
        callback_url: "https://example.com/".to_owned(),
        version: None,
        registered_at: now,
        last_heartbeat_at: now,
        deactivated_at: None,
        deactivated_reason: None,
        created_at: now,
        updated_at: now,
    };
    let sealed = |text: &str, column: &str| {
        app.cipher.encrypt(text, &backend_place(backend.id, column)).unwrap()
    };
    let secrets = BackendSecrets {
        token: sealed("the-token", "token"),
        signing_secret: sealed("the-signing-secret", "signing_secret"),
    };
    let tx = app.store.begin().await.unwrap();
    application::insert(&*tx, &application).await.unwrap();
    application::upsert_backend(&*tx, &backend, &secrets).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    (backend.id, line_oa.id)
}

/// What `app` reads of a backend's secrets.
async fn opened(app: &App, id: BackendId) -> Result<[String; 2]> {
    let stored = application::all_secrets(app.store.read()).await?;
    let (_, stored) = stored.into_iter().find(|(found, _)| *found == id).unwrap();
    let open = |text: &str, column: &str| -> Result<String> {
        Ok(app.cipher.decrypt(text, &backend_place(id, column))?.expose_secret().to_owned())
    };
    Ok([open(&stored.token, "token")?, open(&stored.signing_secret, "signing_secret")?])
}

#[tokio::test]
async fn all_secrets_are_encrypted_with_the_new_key_and_the_old_one_starts_no_process() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let (backend, line_oa) = stocked(&app).await;
    let resealed = app.change_secret_key(&Caller::system(), &key(NEW)).await.unwrap();
    assert_eq!(resealed, Resealed { backends: 1, line_oas: 1 });

    let then = app.beside(NEW, "UTC", &[]).await;
    then.bootstrap().await.unwrap();
    assert_eq!(opened(&then, backend).await.unwrap(), ["the-token", "the-signing-secret"]);
    let credentials = then.line_credentials(&[line_oa]).await.unwrap();
    let (_, credentials) = &credentials[0];
    assert_eq!(credentials.channel_secret.expose_secret(), "the-channel-secret");
    assert_eq!(credentials.channel_access_token.expose_secret(), "the-access-token");

    let old = app.beside(KEY, "UTC", &[]).await;
    assert_eq!(old.bootstrap().await.unwrap_err().code(), "SECRET_KEY_MISMATCH");
    assert!(opened(&old, backend).await.is_err());
    let again = old.change_secret_key(&Caller::system(), &key(NEW)).await.unwrap_err();
    assert_eq!(again.code(), "SECRET_KEY_MISMATCH");
    let audited = app.audited().await;
    let row = audited.iter().find(|row| row.action == "setting.change_secret_key").unwrap();
    assert_eq!(row.after, Some(serde_json::json!({ "backends": 1, "lineOas": 1 })));
}

#[tokio::test]
async fn a_secret_that_can_not_be_opened_leaves_the_old_key_in_use() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let (backend, _) = stocked(&app).await;
    let stored = application::all_secrets(app.store.read()).await.unwrap();
    let damaged = BackendSecrets { token: "no such text".to_owned(), ..stored[0].1.clone() };
    let tx = app.store.begin().await.unwrap();
    application::reseal(&*tx, backend, damaged).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    assert!(app.change_secret_key(&Caller::system(), &key(NEW)).await.is_err());
    assert!(app.beside(KEY, "UTC", &[]).await.bootstrap().await.is_ok());
    assert!(!app.actions().await.iter().any(|action| action == "setting.change_secret_key"));
}

#[tokio::test]
async fn only_an_administrator_changes_the_key() {
    let app = TestApp::new().await;
    app.bootstrap().await.unwrap();
    let (_, stranger) = app.person("ada@example.com", false).await;
    let error = app.change_secret_key(&stranger, &key(NEW)).await.unwrap_err();
    assert_eq!(error.code(), "FORBIDDEN");
}
