//! The signature of a webhook: base64 of the HMAC-SHA256 of the raw body, keyed with the channel
//! secret (LINE Messaging API, "Verify webhook signature").

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The header that carries the signature.
pub const HEADER: &str = "x-line-signature";

/// The signature of `body`, as the platform writes it.
pub fn sign(secret: &SecretString, body: &[u8]) -> String {
    STANDARD.encode(mac(secret, body).finalize().into_bytes())
}

/// Whether `header`, the value of [`HEADER`], is the signature of `body`: the bytes as they came,
/// before anything is parsed.
///
/// How long it takes does not depend on how much of a wrong signature is right. An empty secret
/// signs nothing, since anybody could have signed with it. Any header and any body are fine, none
/// panics.
pub fn verify(secret: &SecretString, header: &[u8], body: &[u8]) -> bool {
    let Ok(given) = STANDARD.decode(header) else { return false };
    !secret.expose_secret().is_empty() && mac(secret, body).verify_slice(&given).is_ok()
}

fn mac(secret: &SecretString, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC takes a key of any length");
    mac.update(body);
    mac
}
