//! Random tokens and the hashes they are looked up by.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Characters behind the kind that may be shown: 48 of 256 bits.
const SHOWN: usize = 8;

/// What a token is for. Its prefix lets people and secret scanners tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A personal access token, `pfy_`.
    Personal,
    /// A machine user's token, `muser_`.
    MachineUser,
    /// The token we send to a backend's callback, `cb_`.
    Callback,
}

impl TokenKind {
    /// The text before the random part.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Personal => "pfy_",
            Self::MachineUser => "muser_",
            Self::Callback => "cb_",
        }
    }

    /// The kind that a token's prefix names; `None` for tokens that were not made here.
    pub fn of(secret: &str) -> Option<Self> {
        [Self::Personal, Self::MachineUser, Self::Callback]
            .into_iter()
            .find(|kind| secret.starts_with(kind.prefix()))
    }
}

/// A new token. The secret is shown once; the rest is stored.
#[derive(Debug)]
pub struct GeneratedToken {
    /// The prefix and 43 URL-safe characters.
    pub secret: SecretString,
    /// What is stored and looked up.
    pub hash: TokenHash,
    /// The kind's prefix and the first 8 characters, to tell tokens apart in a list.
    pub prefix: String,
}

/// SHA-256 of a whole token. Text form: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Eq)]
pub struct TokenHash([u8; 32]);

/// Makes a token of 256 random bits.
pub fn generate_token(kind: TokenKind) -> GeneratedToken {
    let random: [u8; 32] = rand::random();
    let secret = SecretString::from(format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(random)));
    let (hash, prefix) = (hash_token(secret.expose_secret()), token_prefix(secret.expose_secret()));
    GeneratedToken { secret, hash, prefix }
}

/// The hash by which a presented token is looked up. The lookup is by index, so its time
/// tells about hashes only, never about the token.
pub fn hash_token(secret: &str) -> TokenHash {
    TokenHash(Sha256::digest(secret.as_bytes()).into())
}

/// The part of a token that may be shown: of our own kinds the prefix and 8 characters, of
/// any other text its first 4 characters, and nothing of texts under 20 characters.
pub fn token_prefix(secret: &str) -> String {
    let shown = match TokenKind::of(secret) {
        _ if secret.chars().count() < 20 => 0,
        Some(kind) => kind.prefix().len() + SHOWN,
        None => 4,
    };
    secret.chars().take(shown).collect()
}

impl TokenHash {
    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token's hash is 64 lower-case hexadecimal digits")]
pub struct NoTokenHash;

impl FromStr for TokenHash {
    type Err = NoTokenHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NoTokenHash),
        };
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(NoTokenHash);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_kind_and_256_random_bits() {
        for kind in [TokenKind::Personal, TokenKind::MachineUser, TokenKind::Callback] {
            let token = generate_token(kind);
            let random = token.secret.expose_secret().strip_prefix(kind.prefix()).unwrap();
            assert_eq!(random.len(), 43);
            assert_eq!(URL_SAFE_NO_PAD.decode(random).unwrap().len(), 32);
            assert_eq!(TokenKind::of(token.secret.expose_secret()), Some(kind));
            assert_ne!(generate_token(kind).hash, token.hash);
        }
    }

    #[test]
    fn a_token_is_found_by_its_hash() {
        let token = generate_token(TokenKind::Personal);
        assert_eq!(hash_token(token.secret.expose_secret()), token.hash);
        assert_ne!(hash_token(&token.prefix), token.hash);
    }

    #[test]
    fn the_hash_is_sha_256_in_hexadecimal() {
        // The example "abc" of FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_token("abc").to_string(), expected);
        assert_eq!(expected.parse::<TokenHash>().unwrap(), hash_token("abc"));
        for bad in ["", "ba78", &expected.to_uppercase(), &format!("{expected}00"), &"é".repeat(32)]
        {
            assert_eq!(bad.parse::<TokenHash>(), Err(NoTokenHash), "{bad}");
        }
    }

    #[test]
    fn little_of_a_token_is_shown() {
        let token = generate_token(TokenKind::MachineUser);
        assert_eq!(token.prefix.len(), "muser_".len() + 8);
        assert!(token.secret.expose_secret().starts_with(&token.prefix));
        assert!(!format!("{token:?}").contains(token.secret.expose_secret()));
        assert_eq!(token_prefix("chosen-by-somebody-else"), "chos");
        assert_eq!(token_prefix("pfy_short"), "");
    }
}
