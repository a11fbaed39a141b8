//! Signatures after Standard Webhooks 1.0.0, symmetric scheme `v1`: a backend
//! can tell that a request is ours, unaltered and recent.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

use crate::error::{Error, Result};

const PREFIX: &str = "whsec_";
const GENERATED_BYTES: usize = 32;
const MIN_BYTES: usize = 24;
const MAX_BYTES: usize = 64;

/// Padding is optional on the way in: other tools write it either way.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key that signs the callbacks of one registration: 24 to 64 bytes.
/// Wiped from memory when dropped; its `Debug` shows nothing.
pub struct SigningSecret(SecretSlice<u8>);

impl SigningSecret {
    /// A new secret of 256 random bits.
    pub fn generate() -> Self {
        let key: [u8; GENERATED_BYTES] = rand::random();
        Self(key.to_vec().into())
    }

    /// Reads `whsec_` and the base64 of 24 to 64 bytes.
    ///
    /// # Errors
    /// `SIGNING_SECRET_INVALID` on the field `signingSecret`; the text is not repeated.
    pub fn parse(text: &str) -> Result<Self> {
        text.strip_prefix(PREFIX)
            .and_then(|encoded| LENIENT.decode(encoded).ok())
            .filter(|key| (MIN_BYTES..=MAX_BYTES).contains(&key.len()))
            .map(|key| Self(key.into()))
            .ok_or_else(|| {
                Error::invalid_code(
                    "SIGNING_SECRET_INVALID",
                    "signingSecret",
                    "a signing secret must be whsec_ followed by the base64 of 24 to 64 bytes",
                )
            })
    }

    /// The secret as text, `whsec_…`, to show once or to encrypt.
    pub fn expose(&self) -> String {
        let mut text = String::from(PREFIX);
        STANDARD.encode_string(self.0.expose_secret(), &mut text);
        text
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// The value of `webhook-signature`: `v1,` and the base64 of the HMAC-SHA256
/// over `id.timestamp.body`.
///
/// `id` is the `webhook-id` and must not contain a dot, or two different
/// messages could have one signature. `timestamp_unix` is the
/// `webhook-timestamp`: the attempt's time in whole seconds. During a rotation
/// the header holds one such value per secret, separated by spaces.
pub fn sign(secret: &SigningSecret, id: &str, timestamp_unix: i64, body: &[u8]) -> String {
    debug_assert!(!id.contains('.'), "a webhook-id with a dot is ambiguous");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.0.expose_secret())
        .expect("HMAC takes a key of any length");
    mac.update(id.as_bytes());
    mac.update(b".");
    mac.update(timestamp_unix.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = String::with_capacity(48);
    text.push_str("v1,");
    STANDARD.encode_string(mac.finalize().into_bytes(), &mut text);
    text
}
