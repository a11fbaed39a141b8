//! Encryption of what must be readable again: callback tokens, signing secrets.
//!
//! A stored value is `KEYID.BASE64URL`: eight hexadecimal digits that name the key,
//! then the random 24-byte nonce and the ciphertext of XChaCha20-Poly1305
//! (draft-irtf-cfrg-xchacha-03). The associated data binds a value to its place, so
//! that a value copied to another row does not decrypt there.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use secrecy::{ExposeSecret, SecretString};

use super::key::SecretKey;
use crate::error::Error;

const NONCE_LENGTH: usize = 24;

/// Encrypts and decrypts short texts.
#[derive(Clone)]
pub struct Cipher {
    cipher: XChaCha20Poly1305,
    key_id: String,
}

/// Why a stored value can't be read, or a new one not be written.
#[derive(Debug, thiserror::Error)]
pub enum CipherError {
    /// Another key was in use when the value was stored.
    #[error("stored under the key {stored}, but secret_key is now {current}")]
    OtherKey {
        /// The id of the key that the value needs.
        stored: String,
        /// The id of the key that there is.
        current: String,
    },
    /// The value was changed, or belongs to another row.
    #[error("the stored secret was changed or belongs elsewhere than {0}")]
    Refused(String),
    /// The value is no encrypted value at all.
    #[error("the stored secret is not in the form KEYID.BASE64URL")]
    Malformed,
    /// The text is too long to encrypt (256 GiB).
    #[error("the secret could not be encrypted")]
    TooLong,
}

impl From<CipherError> for Error {
    fn from(error: CipherError) -> Self {
        Self::internal(error)
    }
}

impl Cipher {
    /// A cipher whose key is derived from the secret key.
    pub fn new(key: &SecretKey) -> Self {
        let derived = key.derive("trigger-manager encryption v1");
        Self { cipher: XChaCha20Poly1305::new(derived.expose_secret().into()), key_id: key.id() }
    }

    /// Encrypts `plaintext` for one place, for example `backend_registration/ID/token`.
    /// Twice the same text gives two different values.
    ///
    /// # Errors
    /// [`CipherError::TooLong`].
    pub fn encrypt(&self, plaintext: &str, associated_data: &str) -> Result<String, CipherError> {
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let payload = Payload { msg: plaintext.as_bytes(), aad: associated_data.as_bytes() };
        let sealed =
            self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| CipherError::TooLong)?;
        let stored = [nonce.as_slice(), &sealed].concat();
        Ok(format!("{}.{}", self.key_id, URL_SAFE_NO_PAD.encode(stored)))
    }

    /// Decrypts what [`Cipher::encrypt`] made with the same key for the same place.
    ///
    /// # Errors
    /// [`CipherError`]; all of them are internal errors and never the client's.
    pub fn decrypt(
        &self,
        stored: &str,
        associated_data: &str,
    ) -> Result<SecretString, CipherError> {
        let (key_id, sealed) = stored.split_once('.').ok_or(CipherError::Malformed)?;
        if key_id != self.key_id {
            let (stored, current) = (key_id.to_owned(), self.key_id.clone());
            return Err(CipherError::OtherKey { stored, current });
        }
        let bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| CipherError::Malformed)?;
        let (nonce, sealed) =
            bytes.split_first_chunk::<NONCE_LENGTH>().ok_or(CipherError::Malformed)?;
        let payload = Payload { msg: sealed, aad: associated_data.as_bytes() };
        let refused = || CipherError::Refused(associated_data.to_owned());
        let plaintext =
            self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| refused())?;
        String::from_utf8(plaintext).map(SecretString::from).map_err(|_| refused())
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cipher({})", self.key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "backend_registration/1/token";

    fn cipher() -> Cipher {
        Cipher::new(&SecretKey::generate())
    }

    #[test]
    fn what_was_encrypted_is_decrypted() {
        let cipher = cipher();
        for text in ["", "whsec_x", "ünïcode ✓", &"x".repeat(10_000)] {
            let stored = cipher.encrypt(text, PLACE).unwrap();
            assert!(text.is_empty() || !stored.contains(text));
            assert_eq!(cipher.decrypt(&stored, PLACE).unwrap().expose_secret(), text);
        }
    }

    #[test]
    fn the_same_text_is_never_stored_the_same_way() {
        let cipher = cipher();
        assert_ne!(cipher.encrypt("x", PLACE).unwrap(), cipher.encrypt("x", PLACE).unwrap());
    }

    #[test]
    fn a_value_of_another_row_is_refused() {
        let cipher = cipher();
        let stored = cipher.encrypt("x", PLACE).unwrap();
        let error = cipher.decrypt(&stored, "backend_registration/2/token").unwrap_err();
        assert!(matches!(error, CipherError::Refused(_)), "{error}");
        assert_eq!(Error::from(error).code(), "INTERNAL");
    }

    #[test]
    fn a_value_of_another_key_names_both_keys() {
        let (then, now) = (cipher(), cipher());
        let stored = then.encrypt("x", PLACE).unwrap();
        let error = now.decrypt(&stored, PLACE).unwrap_err().to_string();
        assert!(error.contains(&then.key_id) && error.contains(&now.key_id), "{error}");
    }

    #[test]
    fn a_single_changed_bit_is_refused() {
        let cipher = cipher();
        let stored = cipher.encrypt("secret", PLACE).unwrap();
        let (id, sealed) = stored.split_once('.').unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(sealed).unwrap();
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            let changed = format!("{id}.{}", URL_SAFE_NO_PAD.encode(changed));
            let error = cipher.decrypt(&changed, PLACE).unwrap_err();
            assert!(matches!(error, CipherError::Refused(_)), "{position}: {error}");
        }
    }

    #[test]
    fn what_is_no_stored_value_is_refused() {
        let cipher = cipher();
        let id = cipher.key_id.clone();
        for stored in ["", "plain", &format!("{id}."), &format!("{id}.AAAA"), &format!("{id}.=")] {
            assert!(matches!(cipher.decrypt(stored, PLACE), Err(CipherError::Malformed)));
        }
    }
}
