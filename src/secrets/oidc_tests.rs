use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{EncodingKey, Header, encode, jwk::Jwk};
use serde_json::json;

use super::super::test_keys;
use super::*;

const ISSUER: &str = "https://id.example.com/realm";
const JWKS: &str = "https://id.example.com/realm/keys";

/// An issuer whose documents the test owns, and who counts how often it is asked.
#[derive(Clone, Default)]
struct Issuer(Arc<IssuerState>);

#[derive(Default)]
struct IssuerState {
    documents: std::sync::Mutex<HashMap<String, Value>>,
    fetches: AtomicUsize,
    down: AtomicBool,
}

impl Issuer {
    fn with_keys(keys: &[Value]) -> Self {
        let issuer = Self::default();
        issuer.publish(JWKS, json!({ "keys": keys }));
        issuer
    }

    fn publish(&self, url: &str, document: Value) {
        self.0.documents.lock().unwrap().insert(url.to_owned(), document);
    }

    fn fetches(&self) -> usize {
        self.0.fetches.load(Ordering::SeqCst)
    }

    fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    fn verifier(&self, settings: OidcSettings) -> OidcVerifier {
        let state = self.0.clone();
        OidcVerifier::new(settings, move |url| {
            let state = state.clone();
            async move {
                state.fetches.fetch_add(1, Ordering::SeqCst);
                // Lets others run in between, as a network would.
                tokio::task::yield_now().await;
                if state.down.load(Ordering::SeqCst) {
                    return Err("connection refused".into());
                }
                let documents = state.documents.lock().unwrap();
                let document = documents.get(url.as_str()).ok_or("404")?;
                Ok(document.to_string().into_bytes())
            }
        })
    }
}

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: ISSUER.to_owned(),
        audience: "triggers".to_owned(),
        jwks_url: Some(JWKS.parse().unwrap()),
        role_claim: Some("realm_access.roles".to_owned()),
    }
}

fn noon() -> DateTime<Utc> {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_pem(test_keys::RSA.as_bytes()).unwrap()
}

fn ec() -> EncodingKey {
    EncodingKey::from_ec_pem(test_keys::EC.as_bytes()).unwrap()
}

fn ed(pem: &str) -> EncodingKey {
    EncodingKey::from_ed_pem(pem.as_bytes()).unwrap()
}

fn published(key: &EncodingKey, algorithm: Algorithm, id: &str) -> Value {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    serde_json::to_value(jwk).unwrap()
}

fn ed_published(id: &str) -> Value {
    published(&ed(test_keys::ED), Algorithm::EdDSA, id)
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "triggers", "sub": "user-1", "exp": noon().timestamp() + 300})
}

fn token(key: &EncodingKey, algorithm: Algorithm, id: Option<&str>, claims: &Value) -> String {
    let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, key).unwrap()
}

fn ed_token(id: &str) -> String {
    token(&ed(test_keys::ED), Algorithm::EdDSA, Some(id), &claims())
}

async fn verify_claims(claims: Value) -> Result<OutsideIdentity, TokenRefusal> {
    let verifier = Issuer::with_keys(&[ed_published("a")]).verifier(settings());
    let token = token(&ed(test_keys::ED), Algorithm::EdDSA, Some("a"), &claims);
    verifier.verify(&token, noon()).await
}

#[tokio::test]
async fn a_caller_who_hangs_up_while_keys_are_fetched_leaves_them_to_the_others() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waits = gate.clone();
    let verifier = OidcVerifier::new(settings(), move |_| {
        let gate = waits.clone();
        async move {
            gate.acquire().await?.forget();
            Ok(json!({ "keys": [ed_published("a")] }).to_string().into_bytes())
        }
    });
    let unknown = ed_token("unknown");
    {
        let mut gone = std::pin::pin!(verifier.verify(&unknown, noon()));
        assert!(futures::poll!(gone.as_mut()).is_pending());
    }
    gate.add_permits(1);
    assert!(verifier.verify(&ed_token("a"), noon()).await.is_ok());
}

#[tokio::test]
async fn tokens_of_the_three_algorithms_are_accepted_with_one_fetch() {
    let all = [
        (rsa(), Algorithm::RS256, "r"),
        (ec(), Algorithm::ES256, "e"),
        (ed(test_keys::ED), Algorithm::EdDSA, "d"),
    ];
    let keys: Vec<Value> = all.iter().map(|(key, alg, id)| published(key, *alg, id)).collect();
    let issuer = Issuer::with_keys(&keys);
    let verifier = issuer.verifier(settings());
    for (key, algorithm, id) in &all {
        for id in [Some(*id), None] {
            let token = token(key, *algorithm, id, &claims());
            assert_eq!(verifier.verify(&token, noon()).await.unwrap().subject, "user-1");
        }
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn what_the_issuer_says_of_the_caller_is_passed_on() {
    let mut said = claims();
    said["email"] = json!("a@example.com");
    said["email_verified"] = json!(true);
    said["name"] = json!("A");
    said["realm_access"] = json!({"roles": ["admin", 7, "reader"]});
    let identity = verify_claims(said.clone()).await.unwrap();
    assert_eq!(identity.email.as_deref(), Some("a@example.com"));
    assert!(identity.email_verified);
    assert_eq!(identity.roles, ["admin", "reader"]);
    said["email_verified"] = json!("true");
    said["realm_access.roles"] = json!("owner");
    let identity = verify_claims(said).await.unwrap();
    assert!(!identity.email_verified, "only a true boolean counts");
    assert_eq!(identity.roles, ["owner"], "a claim of the very name wins");
    assert!(verify_claims(claims()).await.unwrap().roles.is_empty());
}

#[tokio::test]
async fn a_token_for_or_from_others_is_refused() {
    for (claim, value, refusal) in [
        ("iss", json!("https://id.example.com/other"), TokenRefusal::Issuer),
        ("iss", json!([ISSUER, "https://evil.example"]), TokenRefusal::Issuer),
        ("aud", json!("others"), TokenRefusal::Audience),
        ("aud", json!(["others"]), TokenRefusal::Audience),
    ] {
        let mut wrong = claims();
        wrong[claim] = value;
        assert_eq!(verify_claims(wrong.clone()).await, Err(refusal), "{wrong}");
    }
    let mut several = claims();
    several["aud"] = json!(["others", "triggers"]);
    assert!(verify_claims(several).await.is_ok());
}

#[tokio::test]
async fn missing_and_malformed_claims_are_refused() {
    for claim in ["iss", "aud", "sub", "exp"] {
        for value in [None, Some(json!(null)), Some(json!({})), Some(json!(""))] {
            let mut wrong = claims();
            match value {
                Some(value) => wrong[claim] = value,
                None => drop(wrong.as_object_mut().unwrap().remove(claim)),
            }
            assert!(verify_claims(wrong.clone()).await.is_err(), "{wrong}");
        }
    }
    let mut wrong = claims();
    wrong["nbf"] = json!("soon");
    assert!(matches!(verify_claims(wrong).await, Err(TokenRefusal::Malformed(_))));
}

#[tokio::test]
async fn a_token_holds_within_its_time_and_thirty_seconds_around() {
    let at = |name: &str, offset: i64| {
        let mut timed = claims();
        timed[name] = json!(noon().timestamp() + offset);
        verify_claims(timed)
    };
    assert!(at("exp", -29).await.is_ok());
    assert_eq!(at("exp", -30).await, Err(TokenRefusal::Expired));
    assert!(at("nbf", 30).await.is_ok());
    assert_eq!(at("nbf", 31).await, Err(TokenRefusal::NotYet));
    let mut fraction = claims();
    fraction["exp"] = json!(noon().timestamp() as f64 + 0.5);
    assert!(verify_claims(fraction).await.is_ok());
}

#[tokio::test]
async fn a_signature_by_another_key_is_refused() {
    let verifier = Issuer::with_keys(&[ed_published("a")]).verifier(settings());
    let forged = token(&ed(test_keys::ED_OTHER), Algorithm::EdDSA, Some("a"), &claims());
    assert_eq!(verifier.verify(&forged, noon()).await, Err(TokenRefusal::Signature));
}

#[tokio::test]
async fn a_public_key_never_serves_as_a_shared_secret() {
    let issuer = Issuer::with_keys(&[published(&rsa(), Algorithm::RS256, "a")]);
    let verifier = issuer.verifier(settings());
    let modulus = published(&rsa(), Algorithm::RS256, "a")["n"].as_str().unwrap().to_owned();
    let secret = EncodingKey::from_secret(modulus.as_bytes()).unwrap();
    let forged = token(&secret, Algorithm::HS256, Some("a"), &claims());
    assert_eq!(verifier.verify(&forged, noon()).await, Err(TokenRefusal::Algorithm));
    assert_eq!(issuer.fetches(), 0, "the issuer is not asked for such a token");
    let none = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "kid": "a"}).to_string());
    let unsigned = format!("{none}.{}.", URL_SAFE_NO_PAD.encode(claims().to_string()));
    assert!(verifier.verify(&unsigned, noon()).await.is_err());
}

#[tokio::test]
async fn a_key_serves_its_own_algorithm_only() {
    let verifier = Issuer::with_keys(&[ed_published("a")]).verifier(settings());
    let other = token(&rsa(), Algorithm::RS256, Some("a"), &claims());
    assert_eq!(verifier.verify(&other, noon()).await, Err(TokenRefusal::UnknownKey));
}

#[tokio::test]
async fn a_token_without_key_id_is_refused_where_two_keys_could_be_meant() {
    let other = published(&ed(test_keys::ED_OTHER), Algorithm::EdDSA, "b");
    let verifier = Issuer::with_keys(&[ed_published("a"), other]).verifier(settings());
    let anonymous = token(&ed(test_keys::ED), Algorithm::EdDSA, None, &claims());
    assert_eq!(verifier.verify(&anonymous, noon()).await, Err(TokenRefusal::UnknownKey));
    assert!(verifier.verify(&ed_token("a"), noon()).await.is_ok());
}

#[tokio::test]
async fn an_unknown_key_is_looked_for_once_and_not_again_within_thirty_seconds() {
    let issuer = Issuer::with_keys(&[ed_published("old")]);
    let verifier = issuer.verifier(settings());
    assert!(verifier.verify(&ed_token("old"), noon()).await.is_ok());
    issuer.publish(JWKS, json!({ "keys": [ed_published("new")] }));
    let soon = noon() + TimeDelta::seconds(29);
    assert_eq!(verifier.verify(&ed_token("new"), soon).await, Err(TokenRefusal::UnknownKey));
    assert_eq!(issuer.fetches(), 1);
    let later = noon() + TimeDelta::seconds(30);
    assert!(verifier.verify(&ed_token("new"), later).await.is_ok());
    assert_eq!(issuer.fetches(), 2);
    for number in 0..50 {
        let invented = ed_token(&format!("invented-{number}"));
        assert_eq!(verifier.verify(&invented, later).await, Err(TokenRefusal::UnknownKey));
    }
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test]
async fn keys_are_fetched_again_after_an_hour_and_withdrawn_ones_are_forgotten() {
    let issuer = Issuer::with_keys(&[ed_published("a")]);
    let verifier = issuer.verifier(settings());
    let mut long = claims();
    long["exp"] = json!(noon().timestamp() + 90_000);
    let long = token(&ed(test_keys::ED), Algorithm::EdDSA, Some("a"), &long);
    assert!(verifier.verify(&long, noon()).await.is_ok());
    issuer.publish(JWKS, json!({ "keys": [ed_published("b")] }));
    let before = noon() + TimeDelta::minutes(59);
    assert!(verifier.verify(&long, before).await.is_ok());
    assert_eq!(issuer.fetches(), 1);
    let after = noon() + TimeDelta::hours(1);
    assert_eq!(verifier.verify(&long, after).await, Err(TokenRefusal::UnknownKey));
}

#[tokio::test]
async fn while_the_issuer_is_down_known_keys_hold_for_a_day() {
    let issuer = Issuer::with_keys(&[ed_published("a")]);
    let verifier = issuer.verifier(settings());
    let mut long = claims();
    long["exp"] = json!(noon().timestamp() + 100_000);
    let long = token(&ed(test_keys::ED), Algorithm::EdDSA, Some("a"), &long);
    assert!(verifier.verify(&long, noon()).await.is_ok());
    issuer.set_down(true);
    assert!(verifier.verify(&long, noon() + TimeDelta::hours(23)).await.is_ok());
    let day = noon() + TimeDelta::hours(24);
    assert_eq!(verifier.verify(&long, day).await, Err(TokenRefusal::Unavailable));
    issuer.set_down(false);
    assert!(verifier.verify(&long, day + TimeDelta::seconds(30)).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_was_never_reached_is_asked_every_thirty_seconds() {
    let issuer = Issuer::with_keys(&[ed_published("a")]);
    issuer.set_down(true);
    let verifier = issuer.verifier(settings());
    for _ in 0..5 {
        let refused = verifier.verify(&ed_token("a"), noon()).await;
        assert_eq!(refused, Err(TokenRefusal::Unavailable));
    }
    assert_eq!(issuer.fetches(), 1);
    issuer.set_down(false);
    assert!(verifier.verify(&ed_token("a"), noon() + TimeDelta::seconds(30)).await.is_ok());
}

#[tokio::test]
async fn callers_at_the_same_time_share_one_fetch() {
    let issuer = Issuer::with_keys(&[ed_published("a")]);
    let verifier = issuer.verifier(settings());
    let token = ed_token("a");
    let calls = (0..20).map(|_| verifier.verify(&token, noon()));
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn an_empty_or_broken_key_set_does_not_replace_a_good_one() {
    let issuer = Issuer::with_keys(&[ed_published("a")]);
    let verifier = issuer.verifier(settings());
    let mut long = claims();
    long["exp"] = json!(noon().timestamp() + 90_000);
    let long = token(&ed(test_keys::ED), Algorithm::EdDSA, Some("a"), &long);
    assert!(verifier.verify(&long, noon()).await.is_ok());
    for (hours, broken) in [(1, json!({"keys": []})), (2, json!("maintenance"))] {
        issuer.publish(JWKS, broken);
        assert!(verifier.verify(&long, noon() + TimeDelta::hours(hours)).await.is_ok());
    }
    assert_eq!(issuer.fetches(), 3);
}

#[tokio::test]
async fn without_an_address_the_keys_are_found_by_discovery() {
    let discovered = |document: Value| {
        let issuer = Issuer::with_keys(&[ed_published("a")]);
        issuer.publish(&format!("{ISSUER}/.well-known/openid-configuration"), document);
        let verifier = issuer.verifier(OidcSettings { jwks_url: None, ..settings() });
        async move { verifier.verify(&ed_token("a"), noon()).await }
    };
    let good = json!({"issuer": ISSUER, "jwks_uri": JWKS});
    assert!(discovered(good).await.is_ok());
    for bad in [
        json!({"issuer": "https://evil.example", "jwks_uri": JWKS}),
        json!({"issuer": ISSUER, "jwks_uri": "http://id.example.com/realm/keys"}),
        json!({"issuer": ISSUER}),
    ] {
        assert_eq!(discovered(bad.clone()).await, Err(TokenRefusal::Unavailable), "{bad}");
    }
}
