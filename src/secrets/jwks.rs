//! The keys that an issuer publishes (RFC 7517), cut down to those we accept.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

/// RFC 7518, section 3.3: RSA keys have 2048 bits or more.
const RSA_MIN_BYTES: usize = 256;
/// No honest issuer publishes more; a longer list is cut.
const MAX_KEYS: usize = 100;

/// One key and the only algorithm it may be used with.
#[derive(Clone)]
pub(super) struct PublishedKey {
    pub id: Option<String>,
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// Reads a key set. Keys of other kinds, for encryption, too short or malformed are left out,
/// as RFC 7517 section 5 asks; a text that is no key set is an error.
pub(super) fn parse(text: &[u8]) -> Result<Vec<PublishedKey>, serde_json::Error> {
    let set: Set = serde_json::from_slice(text)?;
    let keys = set.keys.into_iter().take(MAX_KEYS);
    Ok(keys.filter_map(|key| accept(&serde_json::from_value(key).ok()?)).collect())
}

fn accept(jwk: &Jwk) -> Option<PublishedKey> {
    let common = &jwk.common;
    let usage = common.public_key_use.as_ref().is_none_or(|u| *u == PublicKeyUse::Signature);
    let operation =
        common.key_operations.as_ref().is_none_or(|ops| ops.contains(&KeyOperations::Verify));
    let (algorithm, declared) = match &jwk.algorithm {
        AlgorithmParameters::RSA(key) => {
            let modulus = URL_SAFE_NO_PAD.decode(&key.n).ok()?;
            let significant = modulus.iter().skip_while(|byte| **byte == 0).count();
            (significant >= RSA_MIN_BYTES).then_some((Algorithm::RS256, KeyAlgorithm::RS256))?
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        _ => return None,
    };
    let fits = usage && operation && common.key_algorithm.is_none_or(|named| named == declared);
    let key = fits.then(|| DecodingKey::from_jwk(jwk).ok())??;
    Some(PublishedKey { id: common.key_id.clone(), algorithm, key })
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::EncodingKey;
    use serde_json::json;

    use super::super::test_keys;
    use super::*;

    fn published(key: EncodingKey, algorithm: Algorithm) -> Value {
        serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap()
    }

    fn rsa() -> Value {
        published(EncodingKey::from_rsa_pem(test_keys::RSA.as_bytes()).unwrap(), Algorithm::RS256)
    }

    fn algorithms(keys: Value) -> Vec<Algorithm> {
        let text = json!({ "keys": keys }).to_string();
        parse(text.as_bytes()).unwrap().iter().map(|key| key.algorithm).collect()
    }

    #[test]
    fn the_three_accepted_kinds_are_read() {
        let ec = EncodingKey::from_ec_pem(test_keys::EC.as_bytes()).unwrap();
        let ed = EncodingKey::from_ed_pem(test_keys::ED.as_bytes()).unwrap();
        let keys = json!([rsa(), published(ec, Algorithm::ES256), published(ed, Algorithm::EdDSA)]);
        assert_eq!(algorithms(keys), [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]);
    }

    #[test]
    fn other_keys_are_left_out_and_the_rest_still_read() {
        let with = |name: &str, value: Value| {
            let mut key = rsa();
            key[name] = value;
            key
        };
        let short = EncodingKey::from_rsa_pem(test_keys::RSA_SHORT.as_bytes()).unwrap();
        let keys = json!([
            {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "alg": "HS256"},
            {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
            {"kty": "new"},
            "nonsense",
            published(short, Algorithm::RS256),
            with("use", json!("enc")),
            with("alg", json!("PS256")),
            with("alg", json!("RSA-OAEP")),
            with("key_ops", json!(["encrypt"])),
            with("n", json!("!!")),
            with("use", json!("sig")),
        ]);
        assert_eq!(algorithms(keys), [Algorithm::RS256]);
    }

    #[test]
    fn what_is_no_key_set_is_an_error() {
        for text in ["", "{}", "[]", "{\"keys\": {}}", "<html>"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
