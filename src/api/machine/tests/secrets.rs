//! Secrets are shown once, to whoever had them made, and nowhere else.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::*;

/// The stored token and signing secret, decrypted.
async fn stored(api: &Api, id: BackendId) -> (String, String) {
    let (_, secrets) =
        application::backend(api.app.store.read(), Scope::Everything, id).await.unwrap();
    let open = |sealed: &str, column: &str| {
        let place = format!("backend_registration/{id}/{column}");
        api.app.cipher.decrypt(sealed, &place).unwrap().expose_secret().to_owned()
    };
    (open(&secrets.token, "token"), open(&secrets.signing_secret, "signing_secret"))
}

fn shown(answer: &Answer) -> (Option<String>, Option<String>) {
    let json = answer.json();
    let text = |name: &str| json.get(name).map(|value| value.as_str().unwrap().to_owned());
    (text("token"), text("signingSecret"))
}

fn with(changes: Value) -> Value {
    let mut body = sample();
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn secrets_are_shown_once_and_stay_in_a_refresh() {
    let api = Api::new().await;
    let first = api.register(sample()).await;
    let (token, signing) = shown(&first);
    let (token, signing) = (token.unwrap(), signing.unwrap());
    let id = id_of(&first);
    assert_eq!(stored(&api, id).await, (token.clone(), signing.clone()));
    let second = api.register(sample()).await;
    assert_eq!(shown(&second), (None, None));
    assert_eq!(stored(&api, id).await, (token, signing));
}

#[tokio::test]
async fn a_token_that_was_given_is_not_shown_and_replaces_the_one_before() {
    let api = Api::new().await;
    let first = api.register(with(json!({ "token": "chosen-by-the-backend" }))).await;
    assert_eq!(shown(&first).0, None);
    let id = id_of(&first);
    let (token, signing) = stored(&api, id).await;
    assert_eq!(
        (token.as_str(), Some(&signing)),
        ("chosen-by-the-backend", shown(&first).1.as_ref())
    );
    let second = api.register(with(json!({ "token": "another-of-the-backend" }))).await;
    assert_eq!(shown(&second), (None, None));
    assert_eq!(stored(&api, id).await, ("another-of-the-backend".to_owned(), signing));
    assert_eq!(api.audited().await[1].after.as_ref().unwrap()["replacedSecrets"], json!(["token"]));
}

#[tokio::test]
async fn a_signing_secret_may_be_given() {
    let api = Api::new().await;
    let given = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    let first = api.register(with(json!({ "signingSecret": given }))).await;
    assert!(shown(&first).0.is_some() && shown(&first).1.is_none());
    assert_eq!(stored(&api, id_of(&first)).await.1, given);
}

#[tokio::test]
async fn rotation_makes_new_secrets_and_shows_them_once() {
    let api = Api::new().await;
    let id = id_of(&api.register(sample()).await);
    let old = stored(&api, id).await;
    let rotated = api.register(with(json!({ "rotateSecrets": true }))).await;
    assert_eq!(rotated.status, StatusCode::OK);
    let (token, signing) = shown(&rotated);
    let new = (token.unwrap(), signing.unwrap());
    assert!(new.0 != old.0 && new.1 != old.1);
    assert_eq!(stored(&api, id).await, new);
    let given = with(json!({ "rotateSecrets": true, "token": "chosen-by-the-backend" }));
    let (token, signing) = shown(&api.register(given).await);
    assert!(token.is_none() && signing.is_some_and(|signing| signing != new.1));
    let replaced = &api.audited().await[1].after.clone().unwrap()["replacedSecrets"];
    assert_eq!(replaced, &json!(["token", "signingSecret"]));
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn secrets_stand_neither_in_the_audit_log_nor_in_the_log_nor_in_later_answers() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let api = Api::new().await;
    let first = api.register(sample()).await;
    let (token, signing) = shown(&first);
    let given = "chosen-by-the-backend";
    let body = with(json!({ "token": given, "callbackUrl": "http://10.0.0.1/" }));
    let refused = api.register(body).await;
    refused.problem(422, "CALLBACK_ADDRESS_REFUSED");
    let short = api.register(with(json!({ "token": "too-short-token" }))).await;
    short.problem(422, "INVALID");
    let mut answers = vec![refused.text, short.text];
    answers.push(api.register(with(json!({ "token": given }))).await.text);
    answers.push(api.heartbeat(json!({})).await.text);
    api.delete(&api.auth, &id_of(&first).to_string()).await;
    drop(guard);
    let audit = format!("{:?}", api.audited().await);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("a callback URL was refused"), "{log}");
    let machine = api.auth.strip_prefix("Bearer ").unwrap();
    for secret in [&token.unwrap(), &signing.unwrap(), given, "too-short-token", machine] {
        assert!(!audit.contains(secret), "{secret} in {audit}");
        assert!(!log.contains(secret), "{secret} in {log}");
        assert!(answers.iter().all(|answer| !answer.contains(secret)), "{secret} in {answers:?}");
    }
}
