//! Session tokens: what a sign-in with e-mail address and password gives.
//!
//! JSON Web Tokens (RFC 7519) signed with HS256 by a key derived from the secret key,
//! so every process of an installation accepts them and none needs to store them.

use std::{collections::HashSet, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{key::SecretKey, refusal::TokenRefusal};
use crate::error::Error;

/// Issuer and audience: these tokens are for ourselves.
const SELF: &str = "trigger-manager";

/// Signs and checks session tokens. `Debug` shows nothing of the key.
#[derive(Clone)]
pub struct SessionSigner {
    encoding: EncodingKey,
    decoding: DecodingKey,
}

/// A session token for the client.
#[derive(Debug)]
pub struct SessionToken {
    /// The token to send as Bearer.
    pub token: SecretString,
    /// What it says.
    pub claims: SessionClaims,
}

/// What a session token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClaims {
    /// Who signed in.
    pub user_id: Uuid,
    /// The sign-in's own id.
    pub session_id: Uuid,
    /// When they signed in, to the millisecond.
    pub issued_at: DateTime<Utc>,
    /// From this instant on, a whole second, the token is refused.
    pub expires_at: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    iss: String,
    aud: String,
    sub: Uuid,
    jti: Uuid,
    iat: i64,
    /// The same in milliseconds: a password that is changed within the second ends the session.
    iat_ms: i64,
    exp: i64,
}

impl SessionSigner {
    /// A signer whose key is derived from the secret key.
    ///
    /// # Errors
    /// `INTERNAL` if the library refuses the derived key, which it has no reason to.
    pub fn new(key: &SecretKey) -> Result<Self, Error> {
        let derived = key.derive("trigger-manager session v1");
        let encoding = EncodingKey::from_secret(derived.expose_secret());
        let decoding = DecodingKey::from_secret(derived.expose_secret());
        Ok(Self {
            encoding: encoding.map_err(Error::internal)?,
            decoding: decoding.map_err(Error::internal)?,
        })
    }

    /// Signs a token for `user_id` that holds from `now` for `ttl`, whole seconds.
    ///
    /// # Errors
    /// `INTERNAL` if signing fails or the end lies outside the calendar.
    pub fn sign(
        &self,
        user_id: Uuid,
        now: DateTime<Utc>,
        ttl: Duration,
    ) -> Result<SessionToken, Error> {
        let (iat, iat_ms, jti) = (now.timestamp(), now.timestamp_millis(), Uuid::new_v4());
        let exp = i64::try_from(ttl.as_secs()).ok().and_then(|ttl| iat.checked_add(ttl));
        let exp = exp.ok_or_else(|| Error::internal("the session's end is out of range"))?;
        let (iss, aud) = (SELF.to_owned(), SELF.to_owned());
        let wire = Wire { iss, aud, sub: user_id, jti, iat, iat_ms, exp };
        let claims = claims(&wire).map_err(Error::internal)?;
        let token = encode(&Header::new(Algorithm::HS256), &wire, &self.encoding)
            .map_err(Error::internal)?;
        Ok(SessionToken { token: SecretString::from(token), claims })
    }

    /// What a presented token says, if it is ours and `now` is before its end.
    ///
    /// # Errors
    /// [`TokenRefusal`]. Any algorithm but HS256 is refused, `none` first of all.
    pub fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<SessionClaims, TokenRefusal> {
        let data = decode::<Wire>(token, &self.decoding, &validation())?;
        let claims = claims(&data.claims)?;
        if now >= claims.expires_at {
            return Err(TokenRefusal::Expired);
        }
        Ok(claims)
    }
}

/// The library checks everything but the time, which it would take from the wall clock.
fn validation() -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.required_spec_claims =
        HashSet::from(["exp", "sub", "iss", "aud"].map(str::to_owned));
    validation.set_issuer(&[SELF]);
    validation.set_audience(&[SELF]);
    validation
}

fn claims(wire: &Wire) -> Result<SessionClaims, TokenRefusal> {
    let instant =
        |seconds| DateTime::UNIX_EPOCH.checked_add_signed(TimeDelta::try_seconds(seconds)?);
    let out_of_range = || TokenRefusal::Malformed("a time is out of range".to_owned());
    Ok(SessionClaims {
        user_id: wire.sub,
        session_id: wire.jti,
        issued_at: DateTime::from_timestamp_millis(wire.iat_ms).ok_or_else(out_of_range)?,
        expires_at: instant(wire.exp).ok_or_else(out_of_range)?,
    })
}

impl std::fmt::Debug for SessionSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionSigner")
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn signer() -> SessionSigner {
        SessionSigner::new(&SecretKey::generate()).unwrap()
    }

    fn noon() -> DateTime<Utc> {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_token_says_who_signed_in_until_it_ends() {
        let (signer, user) = (signer(), Uuid::now_v7());
        let session = signer.sign(user, noon(), HOUR).unwrap();
        let token = session.token.expose_secret();
        let claims = signer.verify(token, noon() + HOUR - TimeDelta::seconds(1)).unwrap();
        assert_eq!(claims, session.claims);
        assert_eq!((claims.user_id, claims.expires_at), (user, noon() + HOUR));
        assert_eq!(signer.verify(token, noon() + HOUR), Err(TokenRefusal::Expired));
    }

    #[test]
    fn two_sign_ins_at_the_same_moment_differ() {
        let (signer, user) = (signer(), Uuid::now_v7());
        let id = || signer.sign(user, noon(), HOUR).unwrap().claims.session_id;
        assert_ne!(id(), id());
    }

    #[test]
    fn the_same_secret_key_accepts_and_another_refuses() {
        let key = SecretKey::generate();
        let (one, two) = (SessionSigner::new(&key).unwrap(), SessionSigner::new(&key).unwrap());
        let session = one.sign(Uuid::now_v7(), noon(), HOUR).unwrap();
        assert!(two.verify(session.token.expose_secret(), noon()).is_ok());
        let refused = signer().verify(session.token.expose_secret(), noon());
        assert_eq!(refused, Err(TokenRefusal::Signature));
    }

    #[test]
    fn other_algorithms_are_refused() {
        let signer = signer();
        let session = signer.sign(Uuid::now_v7(), noon(), HOUR).unwrap();
        let parts: Vec<&str> = session.token.expose_secret().split('.').collect();
        let none = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "typ": "JWT"}).to_string());
        for token in [format!("{none}.{}.", parts[1]), format!("{none}.{}.{}", parts[1], parts[2])]
        {
            assert!(signer.verify(&token, noon()).is_err(), "{token}");
        }
        let claims = json!({"iss": SELF, "aud": SELF, "sub": Uuid::nil(), "jti": Uuid::nil(),
                            "iat": 0, "exp": i64::MAX / 2_000_000});
        let hs512 = encode(&Header::new(Algorithm::HS512), &claims, &signer.encoding).unwrap();
        assert_eq!(signer.verify(&hs512, noon()), Err(TokenRefusal::Algorithm));
    }

    #[test]
    fn claims_that_are_missing_wrong_or_for_others_are_refused() {
        let signer = signer();
        let good = json!({"iss": SELF, "aud": SELF, "sub": Uuid::nil(), "jti": Uuid::nil(),
                          "iat": 0, "iat_ms": 0, "exp": noon().timestamp() + 60});
        let verify = |claims| {
            let token = encode(&Header::new(Algorithm::HS256), &claims, &signer.encoding).unwrap();
            signer.verify(&token, noon())
        };
        assert!(verify(good.clone()).is_ok());
        for (claim, value) in [
            ("iss", json!("someone")),
            ("aud", json!("someone")),
            ("sub", json!("root")),
            ("exp", json!("tomorrow")),
            ("exp", json!(i64::MAX)),
            ("exp", json!(null)),
            ("jti", json!(1)),
        ] {
            let mut claims = good.clone();
            claims[claim] = value;
            assert!(verify(claims.clone()).is_err(), "{claims}");
            claims.as_object_mut().unwrap().remove(claim);
            assert!(verify(claims.clone()).is_err(), "{claims}");
        }
    }

    #[test]
    fn a_changed_token_and_what_is_no_token_are_refused() {
        let signer = signer();
        let session = signer.sign(Uuid::now_v7(), noon(), HOUR).unwrap();
        let token = session.token.expose_secret();
        let parts: Vec<&str> = token.split('.').collect();
        let other = URL_SAFE_NO_PAD.encode("{}");
        for token in ["", "a", "a.b.c", "..", &format!("{}.{other}.{}", parts[0], parts[2])] {
            assert!(signer.verify(token, noon()).is_err(), "{token}");
        }
    }

    #[test]
    fn a_refusal_tells_the_caller_nothing_of_its_reason() {
        let shown = |refusal: TokenRefusal| Error::from(refusal).to_string();
        assert_eq!(shown(TokenRefusal::Signature), shown(TokenRefusal::Expired));
        assert_eq!(Error::from(TokenRefusal::Issuer).code(), "UNAUTHENTICATED");
    }
}
