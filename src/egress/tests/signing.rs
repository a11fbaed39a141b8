//! Signatures, against values computed by another implementation of HMAC and
//! base64 (Python's `hmac`, `hashlib` and `base64`).

use proptest::prelude::*;

use crate::egress::{SigningSecret, sign};

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(text).unwrap()
}

#[test]
fn a_signature_equals_that_of_another_implementation() {
    let cases: [(&str, &str, i64, &[u8], &str); 4] = [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
            "v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI=",
        ),
        (
            "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "0191f3c2-6b7e-7000-8000-000000000000",
            1_764_547_200,
            b"",
            "v1,bh/c7uoINvxGcoyoVv/4vwZwKq+Az21pElGOieMmxJ0=",
        ),
        (
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==",
            "x",
            0,
            b"\0\xff.\n",
            "v1,QcOg4hMtGiTyOmR3bWfWu0rhp1oj8/uZYpjx2o77qCU=",
        ),
    ];
    for (key, id, timestamp, body, expected) in cases {
        assert_eq!(sign(&secret(key), id, timestamp, body), expected);
    }
}

#[test]
fn a_secret_of_24_to_64_bytes_is_read_with_or_without_padding() {
    for text in [
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    ] {
        assert_eq!(secret(text).expose(), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    }
}

#[test]
fn anything_else_is_refused_without_repeating_it() {
    let texts = [
        String::new(),
        "whsec_".to_owned(),
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS".to_owned(),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!!".to_owned(),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n".to_owned(),
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
        // 23 and 65 bytes.
        format!("whsec_{}AAA=", "AAAA".repeat(7)),
        format!("whsec_{}AAA=", "AAAA".repeat(21)),
    ];
    for text in texts {
        let error = SigningSecret::parse(&text).expect_err(&text);
        assert_eq!(
            (error.code(), error.field()),
            ("SIGNING_SECRET_INVALID", Some("signingSecret"))
        );
        assert!(!error.to_string().contains("MfKQ"), "{error}");
    }
}

#[test]
fn generated_secrets_differ_are_readable_and_hide_from_debug() {
    let (one, other) = (SigningSecret::generate(), SigningSecret::generate());
    assert_ne!(one.expose(), other.expose());
    assert_eq!(secret(&one.expose()).expose(), one.expose());
    assert_eq!(format!("{one:?}"), "SigningSecret(…)");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_of_anything_changes_the_signature(
        id in "[a-z0-9-]{1,36}", at in 0..i64::MAX, body: Vec<u8>, extra: u8,
    ) {
        let key = SigningSecret::generate();
        let given = sign(&key, &id, at, &body);
        prop_assert_eq!(&sign(&key, &id, at, &body), &given);
        let longer = [body.as_slice(), &[extra]].concat();
        prop_assert_ne!(&sign(&key, &id, at, &longer), &given);
        prop_assert_ne!(&sign(&key, &format!("{id}a"), at, &body), &given);
        prop_assert_ne!(&sign(&key, &id, at - 1, &body), &given);
        prop_assert_ne!(&sign(&SigningSecret::generate(), &id, at, &body), &given);
    }
}
