//! A registration's secrets: which are kept, which are made, and which are shown.

use std::ops::RangeInclusive;

use secrecy::{ExposeSecret, SecretString};

use crate::app::App;
use crate::domain::id::BackendId;
use crate::egress::SigningSecret;
use crate::error::{Error, Result};
use crate::secrets::{TokenKind, generate_token};
use crate::store::application::BackendSecrets;

const TOKEN_LENGTH: RangeInclusive<usize> = 16..=512;

/// What a registration says of secrets, every value of which fits.
pub(super) struct GivenSecrets {
    token: Option<SecretString>,
    signing_secret: Option<SecretString>,
    rotate: bool,
}

impl GivenSecrets {
    /// Refused with `INVALID`: a token that is not 16 to 512 visible ASCII characters; with
    /// `SIGNING_SECRET_INVALID`: what [`SigningSecret::parse`] refuses.
    pub(super) fn check(
        token: Option<SecretString>,
        signing_secret: Option<SecretString>,
        rotate: bool,
    ) -> Result<Self> {
        if let Some(token) = &token {
            check_token(token.expose_secret())?;
        }
        let signing_secret = match signing_secret {
            Some(text) => Some(SigningSecret::parse(text.expose_secret())?.expose().into()),
            None => None,
        };
        Ok(Self { token, signing_secret, rotate })
    }
}

/// A backend's secrets, and what of them is to be shown.
pub(super) struct Sealed {
    pub(super) stored: BackendSecrets,
    pub(super) token: Option<SecretString>,
    pub(super) signing_secret: Option<SecretString>,
    pub(super) replaced: Vec<&'static str>,
}

enum Secret {
    Kept(String),
    Given(SecretString),
    Made(SecretString),
}

impl App {
    /// The secrets to store: given ones, else those that there are, else new ones.
    pub(super) fn seal(
        &self,
        id: BackendId,
        stored: Option<&BackendSecrets>,
        given: GivenSecrets,
    ) -> Result<Sealed> {
        let kept = stored.filter(|_| !given.rotate);
        let token = choose(given.token, kept.map(|stored| &stored.token), || {
            generate_token(TokenKind::Callback).secret
        });
        let signing_secret =
            choose(given.signing_secret, kept.map(|stored| &stored.signing_secret), || {
                SigningSecret::generate().expose().into()
            });
        let secrets = [("token", &token), ("signingSecret", &signing_secret)];
        let replaced = secrets
            .into_iter()
            .filter(|(_, secret)| stored.is_some() && !matches!(secret, Secret::Kept(_)))
            .map(|(name, _)| name)
            .collect();
        Ok(Sealed {
            stored: BackendSecrets {
                token: self.encrypted(&token, id, "token")?,
                signing_secret: self.encrypted(&signing_secret, id, "signing_secret")?,
            },
            token: token.shown(),
            signing_secret: signing_secret.shown(),
            replaced,
        })
    }

    fn encrypted(&self, secret: &Secret, id: BackendId, column: &str) -> Result<String> {
        match secret {
            Secret::Kept(encrypted) => Ok(encrypted.clone()),
            Secret::Given(plain) | Secret::Made(plain) => {
                Ok(self.cipher.encrypt(plain.expose_secret(), &secret_place(id, column))?)
            }
        }
    }
}

/// What a backend's secret is bound to; `column` is `token` or `signing_secret`.
pub(crate) fn secret_place(id: BackendId, column: &str) -> String {
    format!("backend_registration/{id}/{column}")
}

impl Secret {
    /// Whoever gave a secret knows it.
    fn shown(self) -> Option<SecretString> {
        match self {
            Self::Made(secret) => Some(secret),
            Self::Kept(_) | Self::Given(_) => None,
        }
    }
}

fn choose(
    given: Option<SecretString>,
    kept: Option<&String>,
    make: impl FnOnce() -> SecretString,
) -> Secret {
    match (given, kept) {
        (Some(given), _) => Secret::Given(given),
        (None, Some(kept)) => Secret::Kept(kept.clone()),
        (None, None) => Secret::Made(make()),
    }
}

/// A token that an `Authorization` header can carry. The text is not repeated.
fn check_token(token: &str) -> Result<()> {
    let fits = TOKEN_LENGTH.contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if fits {
        return Ok(());
    }
    let (min, max) = (TOKEN_LENGTH.start(), TOKEN_LENGTH.end());
    let reason = format!("token must be {min} to {max} visible ASCII characters without spaces");
    Err(Error::invalid("token", reason))
}
