//! Whose a webhook is.

use proptest::prelude::*;
use secrecy::SecretString;

use crate::line::signature::{sign, verify};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const BODY: &[u8] = br#"{"destination":"U0123456789abcdef0123456789abcdef","events":[]}"#;

/// Key, body and signature, computed with another implementation.
const VECTORS: [(&str, &[u8], &str); 4] = [
    (SECRET, BODY, "94lIexwJJhBAEvU5fHF/i4JXKbSzbpgGUoZUZlwge9Q="),
    (SECRET, b"", "eWzTB4rxRjZ1PSaztVVUIv9Vo+Jhz4R7SOlTcbm9CqI="),
    (SECRET, b"\xff\x00 no text", "kvIkoPWU9UCkNCDJbRUc/ndGbxUeffsvIZoBqbdveSk="),
    // RFC 4231, test case 2.
    ("Jefe", b"what do ya want for nothing?", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="),
];

fn secret(text: &str) -> SecretString {
    text.into()
}

#[test]
fn the_platforms_signature_holds() {
    for (key, body, signature) in VECTORS {
        assert_eq!(sign(&secret(key), body), signature);
        assert!(verify(&secret(key), signature.as_bytes(), body));
    }
}

#[test]
fn nothing_else_holds() {
    let (key, body, signature) = VECTORS[0];
    let good = signature.as_bytes();
    let refused = |header: &[u8], body: &[u8]| {
        assert!(!verify(&secret(key), header, body), "{}", header.escape_ascii());
    };
    refused(good, b"{}");
    refused(good, &body[..body.len() - 1]);
    refused(VECTORS[1].2.as_bytes(), body);
    for header in [&b""[..], b"=", b"AAAA", b"not base64!", b"\xff\xfe", &good[..good.len() - 4]] {
        refused(header, body);
    }
    refused(&[good, b" "].concat(), body);
    refused(&[b"sha256=", good].concat(), body);
    refused(&good.to_ascii_lowercase(), body);
    assert!(!verify(&secret("another secret"), good, body));
}

#[test]
fn an_empty_secret_signs_nothing() {
    let signature = sign(&secret(""), BODY);
    assert!(!verify(&secret(""), signature.as_bytes(), BODY));
}

proptest! {
    #[test]
    fn any_header_and_any_body_are_judged(header: Vec<u8>, body: Vec<u8>, key in "\\PC{0,40}") {
        prop_assert!(!verify(&secret(&key), &header, &body));
    }

    #[test]
    fn what_is_signed_holds_and_one_bit_breaks_it(body: Vec<u8>, key in "[a-f0-9]{32}", bit: usize) {
        let signature = sign(&secret(&key), &body);
        prop_assert!(verify(&secret(&key), signature.as_bytes(), &body));
        if !body.is_empty() {
            let mut other = body.clone();
            other[bit / 8 % body.len()] ^= 1 << (bit % 8);
            prop_assert!(!verify(&secret(&key), signature.as_bytes(), &other));
        }
    }
}
