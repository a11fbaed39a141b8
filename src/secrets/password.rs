//! Passwords: their rule, their hash, their check.
//!
//! Hashing takes tens of milliseconds and 19 MiB on purpose. The functions block:
//! call them from `tokio::task::spawn_blocking`, and not without a limit on
//! attempts.

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};
use secrecy::{ExposeSecret, SecretString};

use crate::error::{Error, Result};

const MIN_CHARS: usize = 12;
const MAX_CHARS: usize = 200;

/// A password that keeps the rule: 12 to 200 characters (Unicode scalar values), whichever
/// they are, as NIST SP 800-63B recommends. `Debug` shows nothing of it.
#[derive(Debug, Clone)]
pub struct Password(SecretString);

/// Hashing failed; never because the password is wrong.
#[derive(Debug, thiserror::Error)]
#[error("password hash: {0}")]
pub struct PasswordError(argon2::password_hash::Error);

impl From<PasswordError> for Error {
    fn from(error: PasswordError) -> Self {
        Self::internal(error)
    }
}

impl Password {
    /// Takes a new password.
    ///
    /// # Errors
    /// `INVALID` on the field `password` if it is too short or too long.
    pub fn parse(text: impl Into<SecretString>) -> Result<Self> {
        let text = text.into();
        if (MIN_CHARS..=MAX_CHARS).contains(&text.expose_secret().chars().count()) {
            return Ok(Self(text));
        }
        let reason = format!("a password has {MIN_CHARS} to {MAX_CHARS} characters");
        Err(Error::invalid("password", reason))
    }

    /// The hash to store: Argon2id (RFC 9106), a new salt each time, its parameters inside.
    ///
    /// # Errors
    /// [`PasswordError`] if memory or random numbers are lacking.
    pub fn hash(&self) -> Result<String, PasswordError> {
        let hash: PasswordHash =
            argon2()?.hash_password(self.0.expose_secret().as_bytes()).map_err(PasswordError)?;
        Ok(hash.to_string())
    }
}

/// Whether `candidate` is the password behind the stored hash. A candidate of more than 200
/// characters never is.
///
/// # Errors
/// [`PasswordError`] if the stored text is no hash.
pub fn verify_password(candidate: &SecretString, stored: &str) -> Result<bool, PasswordError> {
    let Some(candidate) = presentable(candidate) else { return Ok(false) };
    let hash = PasswordHash::new(stored).map_err(|error| PasswordError(error.into()))?;
    match argon2()?.verify_password(candidate.as_bytes(), &hash) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(PasswordError(error)),
    }
}

/// Does the work of [`verify_password`] for a user who does not exist, so that the time of an
/// answer does not tell who does. Always false.
///
/// # Errors
/// [`PasswordError`] if memory is lacking.
pub fn verify_dummy(candidate: &SecretString) -> Result<bool, PasswordError> {
    if let Some(candidate) = presentable(candidate) {
        let mut out = [0; 32];
        let hashed = argon2()?.hash_password_into(candidate.as_bytes(), &[0; 16], &mut out);
        hashed.map_err(|error| PasswordError(error.into()))?;
        // The result must not be optimised away together with the work.
        std::hint::black_box(out);
    }
    Ok(false)
}

fn presentable(candidate: &SecretString) -> Option<&str> {
    Some(candidate.expose_secret()).filter(|text| text.chars().count() <= MAX_CHARS)
}

/// Argon2id with 19 MiB, two passes and one lane: OWASP's first choice for passwords.
fn argon2() -> Result<Argon2<'static>, PasswordError> {
    let params =
        Params::new(19_456, 2, 1, Some(32)).map_err(|error| PasswordError(error.into()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[test]
    fn a_password_is_recognised_by_its_hash() {
        let stored = Password::parse("correct horse battery").unwrap().hash().unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(verify_password(&secret("correct horse battery"), &stored).unwrap());
        assert!(!verify_password(&secret("correct horse batterz"), &stored).unwrap());
        assert!(!verify_password(&secret(""), &stored).unwrap());
        assert!(!verify_password(&secret(&"x".repeat(201)), &stored).unwrap());
    }

    #[test]
    fn the_same_password_has_another_hash_each_time() {
        let password = Password::parse("correct horse battery").unwrap();
        assert_ne!(password.hash().unwrap(), password.hash().unwrap());
    }

    #[test]
    fn a_password_has_12_to_200_characters() {
        for (length, fits) in [(11, false), (12, true), (200, true), (201, false)] {
            assert_eq!(Password::parse("ü".repeat(length)).is_ok(), fits, "{length}");
        }
        let error = Password::parse("short").unwrap_err();
        assert_eq!((error.code(), error.field()), ("INVALID", Some("password")));
    }

    #[test]
    fn a_hash_made_with_other_parameters_is_still_checked() {
        let old = Argon2::new(
            Algorithm::Argon2id,
            Version::V0x13,
            Params::new(8192, 1, 1, Some(32)).unwrap(),
        );
        let stored: PasswordHash = old.hash_password(b"correct horse battery").unwrap();
        assert!(verify_password(&secret("correct horse battery"), &stored.to_string()).unwrap());
    }

    #[test]
    fn an_unknown_user_never_gets_in() {
        assert!(!verify_dummy(&secret("correct horse battery")).unwrap());
        assert!(!verify_dummy(&secret(&"x".repeat(201))).unwrap());
    }

    #[test]
    fn a_stored_text_that_is_no_hash_is_our_error() {
        let error = verify_password(&secret("correct horse battery"), "plain").unwrap_err();
        assert_eq!(Error::from(error).code(), "INTERNAL");
    }

    #[test]
    fn a_password_is_never_shown() {
        let password = Password::parse("correct horse battery").unwrap();
        assert!(!format!("{password:?}").contains("horse"));
    }
}
