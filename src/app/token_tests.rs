use chrono::Duration;
use secrecy::ExposeSecret;

use super::super::test_app::{TestApp, bearer, code};
use crate::domain::audit::Caller;
use crate::domain::page::PageRequest;

#[tokio::test]
async fn personal_access_tokens_are_each_users_own() {
    let app = TestApp::new().await;
    let (_, ada) = app.person("ada@example.com", false).await;
    let (_, bob) = app.person("bob@example.com", true).await;
    let now = Some(app.now());
    assert_eq!(code(app.create_personal_access_token(&ada, "ci", now).await), "INVALID");
    let (token, row) = app.create_personal_access_token(&ada, " ci ", None).await.unwrap();
    assert_eq!(app.authenticate(Some(&bearer(&token))).await.unwrap(), ada.actor);
    assert!(token.expose_secret().starts_with(&row.token_prefix));
    assert!(!format!("{:?}", app.audited().await).contains(token.expose_secret()));
    assert_eq!(code(app.delete_personal_access_token(&bob, row.id).await), "NOT_FOUND");
    app.delete_personal_access_token(&ada, row.id).await.unwrap();
    assert_eq!(code(app.authenticate(Some(&bearer(&token))).await), "UNAUTHENTICATED");
    let page = app.personal_access_tokens(&ada.actor, &PageRequest::default()).await.unwrap();
    assert!(page.rows.is_empty());
    let expected = ["personal_access_token.create", "personal_access_token.delete"];
    assert_eq!(app.actions().await, expected);
}

#[tokio::test]
async fn a_token_that_ends_makes_none_that_lasts_longer() {
    let app = TestApp::new().await;
    let (_, ada) = app.person("ada@example.com", false).await;
    let end = app.now() + Duration::hours(1);
    let (token, _) = app.create_personal_access_token(&ada, "ci", Some(end)).await.unwrap();
    let actor = app.authenticate(Some(&bearer(&token))).await.unwrap();
    let with_token = Caller { actor, request_id: None };
    let later = end + Duration::milliseconds(1);
    for too_late in [None, Some(later)] {
        let refused = app.create_personal_access_token(&with_token, "on", too_late).await;
        let error = refused.unwrap_err();
        assert_eq!((error.code(), error.field()), ("INVALID", Some("expiresAt")), "{error}");
    }
    app.create_personal_access_token(&with_token, "on", Some(end)).await.unwrap();
    assert_eq!(app.actions().await, ["personal_access_token.create"; 2]);
}
