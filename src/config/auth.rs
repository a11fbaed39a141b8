//! Settings of sign-in.

use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use url::Url;

use super::{error::ConfigError, reader::Reader, show, values};

/// Sign-in.
#[derive(Debug, Clone, Serialize)]
pub struct AuthConfig {
    /// The first administrator's token, at least 20 visible ASCII characters; `None` lets the
    /// first start make one.
    #[serde(serialize_with = "show::secret")]
    pub bootstrap_token: Option<SecretString>,
    /// The first administrator's e-mail address.
    pub bootstrap_email: String,
    /// How long a sign-in lasts; 1 min to 90 d.
    #[serde(serialize_with = "show::duration")]
    pub session_ttl: Duration,
    /// Attempts from one address in a minute, at most, and ten times as many for one account; where
    /// the address is not known, so many for one account. 1 to 10 000. Passwords of machine users that
    /// were not checked before: for one name from one address, and ten times as many for one name and
    /// from one address in all.
    pub sign_in_attempts_per_minute: u32,
    /// Tokens of an outside issuer.
    pub jwt: JwtConfig,
}

/// Tokens of an outside issuer.
#[derive(Debug, Clone, Serialize)]
pub struct JwtConfig {
    /// The `iss` claim to the letter, an https URL (http only for this machine); `None` accepts
    /// no outside tokens, and then the other fields are `None` too.
    pub issuer: Option<String>,
    /// What the `aud` claim must name; always there with an issuer.
    pub audience: Option<String>,
    /// Where the keys are published; `None` asks the issuer's discovery document.
    #[serde(serialize_with = "show::optional")]
    pub jwks_url: Option<Url>,
    /// The claim that holds roles.
    pub role_claim: Option<String>,
}

impl AuthConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        let ttl = Duration::from_secs(60)..=Duration::from_secs(90 * 86_400);
        Ok(Self {
            bootstrap_token: r.secret("auth.bootstrap_token", values::bootstrap_token)?,
            bootstrap_email: r.text("auth.bootstrap_email", values::email)?,
            session_ttl: r.duration("auth.session_ttl", ttl)?,
            sign_in_attempts_per_minute: r
                .number("auth.sign_in_attempts_per_minute", 1..=10_000)?,
            jwt: JwtConfig {
                issuer: r.optional("auth.jwt.issuer", |text| {
                    // The claim is compared to the letter, so the text stays as it was written.
                    values::issuer_url(text).map(|_| text.to_owned())
                })?,
                audience: r.optional("auth.jwt.audience", values::any_text)?,
                jwks_url: r.optional("auth.jwt.jwks_url", values::issuer_url)?,
                role_claim: r.optional("auth.jwt.role_claim", values::any_text)?,
            },
        })
    }
}

impl JwtConfig {
    pub(super) fn check_together(&self, r: &mut Reader) {
        if self.issuer.is_some() {
            if self.audience.is_none() {
                let reason = "is empty; name the audience that the issuer's tokens carry for us, \
                              otherwise tokens made for others would be accepted";
                r.refuse("auth.jwt.audience", reason);
            }
            return;
        }
        let set = [
            ("auth.jwt.audience", self.audience.is_some()),
            ("auth.jwt.jwks_url", self.jwks_url.is_some()),
            ("auth.jwt.role_claim", self.role_claim.is_some()),
        ];
        for (key, _) in set.into_iter().filter(|(_, set)| *set) {
            r.refuse(key, "has no effect without auth.jwt.issuer; set the issuer, or empty this");
        }
    }
}
