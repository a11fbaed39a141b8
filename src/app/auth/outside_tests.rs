use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::SecretString;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::app::test_app::{TestApp, bearer, start};
use crate::secrets::test_keys;
use crate::store::people::credentials_by_email;

fn key() -> EncodingKey {
    EncodingKey::from_ed_pem(test_keys::ED.as_bytes()).unwrap()
}

/// An issuer on this machine that publishes its key, followed by `padding` of white space.
async fn issuer(padding: usize) -> MockServer {
    let server = MockServer::start().await;
    let uri = server.uri();
    let discovery = json!({ "issuer": uri, "jwks_uri": format!("{uri}/keys") });
    Mock::given(method("GET"))
        .and(path("/.well-known/openid-configuration"))
        .respond_with(ResponseTemplate::new(200).set_body_json(discovery))
        .mount(&server)
        .await;
    let keys = json!({ "keys": [Jwk::from_encoding_key(&key(), Algorithm::EdDSA).unwrap()] });
    let body = format!("{keys}{}", " ".repeat(padding));
    Mock::given(method("GET"))
        .and(path("/keys"))
        .respond_with(ResponseTemplate::new(200).set_body_string(body))
        .mount(&server)
        .await;
    server
}

async fn app(issuer: &str, role_claim: &str) -> TestApp {
    TestApp::with(&[
        ("PFY_AUTH_JWT_ISSUER", issuer),
        ("PFY_AUTH_JWT_AUDIENCE", "triggers"),
        ("PFY_AUTH_JWT_ROLE_CLAIM", role_claim),
    ])
    .await
}

/// A token of a person with a verified address, with some claims set otherwise.
fn token(issuer: &str, changed: Value) -> String {
    let mut claims = json!({
        "iss": issuer,
        "aud": "triggers",
        "sub": "user-1",
        "exp": start().timestamp() + 300,
        "email": "Ada@Example.com",
        "email_verified": true,
        "name": "Ada Lovelace",
    });
    for (name, value) in changed.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let token = encode(&Header::new(Algorithm::EdDSA), &claims, &key()).unwrap();
    bearer(&SecretString::from(token))
}

#[tokio::test]
async fn a_person_whom_the_issuer_vouches_for_becomes_a_user_once() {
    let server = issuer(0).await;
    let uri = server.uri();
    let app = app(&uri, "").await;
    let header = token(&uri, json!({}));
    let calls = (0..4).map(|_| app.authenticate(Some(&header)));
    let actors = futures::future::try_join_all(calls).await.unwrap();
    let found = credentials_by_email(app.store.read(), "ada@example.com").await.unwrap().unwrap();
    assert!(actors.iter().all(|known| *known == actor(&found.user)), "{actors:?}");
    assert_eq!((found.user.name.as_str(), found.user.administrator), ("Ada Lovelace", false));
    assert_eq!(found.password_hash, None);
    assert_eq!(app.actions().await, ["user.create"]);
    assert_eq!(app.audited().await[0].actor_type, "system");
}

#[tokio::test]
async fn nobody_becomes_a_user_by_a_wrong_clock() {
    let server = issuer(0).await;
    let uri = server.uri();
    let app = app(&uri, "").await;
    app.skewed.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = app.authenticate(Some(&token(&uri, json!({})))).await.unwrap_err();
    assert_eq!(error.code(), "BUSY");
    assert!(app.audited().await.is_empty());
    let (user, _) = app.person("ada@example.com", true).await;
    let known = app.authenticate(Some(&token(&uri, json!({})))).await;
    assert_eq!(known.unwrap(), actor(&user), "who is known only reads");
}

#[tokio::test]
async fn a_known_address_is_its_user_unless_disabled_or_not_verified() {
    let server = issuer(0).await;
    let uri = server.uri();
    let app = app(&uri, "").await;
    let (user, _) = app.person("ada@example.com", true).await;
    let header = token(&uri, json!({}));
    assert_eq!(app.authenticate(Some(&header)).await.unwrap(), actor(&user));
    for claims in [
        json!({ "email_verified": false }),
        json!({ "email_verified": "true" }),
        json!({ "email": "no address" }),
        json!({ "email": null }),
        json!({ "aud": "others" }),
        json!({ "exp": start().timestamp() - 60 }),
    ] {
        let error = app.authenticate(Some(&token(&uri, claims.clone()))).await.unwrap_err();
        assert_eq!(error.to_string(), invalid().to_string(), "{claims}");
    }
    let disabled = User { disabled_at: Some(app.now()), ..user };
    let tx = app.store.begin().await.unwrap();
    people::update_user(&*tx, &disabled, None).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    let error = app.authenticate(Some(&header)).await.unwrap_err();
    assert_eq!(error.code(), "UNAUTHENTICATED");
    assert!(app.audited().await.is_empty());
}

#[tokio::test]
async fn the_issuers_role_makes_an_administrator_only_where_a_claim_is_named_and_is_not_stored() {
    let server = issuer(0).await;
    let uri = server.uri();
    let header = token(&uri, json!({ "roles": ["reader", "administrator"] }));
    let reader = token(&uri, json!({ "roles": ["reader"] }));
    let is_administrator = |actor: Actor| matches!(actor, Actor::User { administrator: true, .. });
    let unnamed = app(&uri, "").await;
    assert!(!is_administrator(unnamed.authenticate(Some(&header)).await.unwrap()));
    let named = app(&uri, "roles").await;
    assert!(is_administrator(named.authenticate(Some(&header)).await.unwrap()));
    assert!(!is_administrator(named.authenticate(Some(&reader)).await.unwrap()));
}

#[tokio::test]
async fn without_the_issuers_keys_the_caller_is_told_to_come_back() {
    let app = app("http://127.0.0.1:9", "").await;
    let header = token("http://127.0.0.1:9", json!({}));
    assert_eq!(app.authenticate(Some(&header)).await.unwrap_err().code(), "BUSY");
}

#[tokio::test]
async fn a_key_set_of_more_than_a_mebibyte_is_not_taken() {
    let server = issuer(MAX_BYTES).await;
    let app = app(&server.uri(), "").await;
    let header = token(&server.uri(), json!({}));
    assert_eq!(app.authenticate(Some(&header)).await.unwrap_err().code(), "BUSY");
}

#[tokio::test]
async fn sessions_hold_beside_an_outside_issuer() {
    let server = issuer(0).await;
    let app = app(&server.uri(), "").await;
    let (user, _) = app.person("ada@example.com", false).await;
    let ttl = std::time::Duration::from_secs(60);
    let session = app.sessions.sign(user.id.0, app.now(), ttl).unwrap();
    assert_eq!(app.authenticate(Some(&bearer(&session.token))).await.unwrap(), actor(&user));
}
