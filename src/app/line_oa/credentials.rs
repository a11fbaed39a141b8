//! A LINE OA's credentials: what they must look like, how they are kept, and who may open them.

use secrecy::{ExposeSecret, SecretString};

use crate::app::App;
use crate::domain::id::LineOaId;
use crate::domain::line::LineOa;
use crate::error::{Error, Result};
use crate::store::line::{self, LineSecrets};

const SECRET_MAX: usize = 200;
const TOKEN_MAX: usize = 4000;

/// A LINE OA's credentials in clear, for the server itself: no answer ever shows them.
#[derive(Debug, Clone)]
pub struct LineCredentials {
    /// Checks the signatures of webhooks.
    pub channel_secret: SecretString,
    /// Authorizes calls of the platform.
    pub channel_access_token: SecretString,
}

impl App {
    /// The LINE OAs of these ids with their credentials, whoever's they are, in no order; those
    /// that are gone are left out. For webhooks and calls of the platform, not for callers.
    ///
    /// # Errors
    /// An internal error when one can't be opened: it was stored under another key, or changed.
    pub async fn line_credentials(
        &self,
        ids: &[LineOaId],
    ) -> Result<Vec<(LineOa, LineCredentials)>> {
        let rows = line::credentials(self.store.read(), ids).await?;
        rows.into_iter()
            .map(|(line_oa, secrets)| {
                let credentials = self.open_line_secrets(line_oa.id, &secrets)?;
                Ok((line_oa, credentials))
            })
            .collect()
    }

    /// The credentials of one LINE OA from what is stored of them.
    ///
    /// # Errors
    /// An internal error when they were stored under another key, changed, or are another's.
    pub fn open_line_secrets(&self, id: LineOaId, stored: &LineSecrets) -> Result<LineCredentials> {
        let (secret, token) = (&stored.channel_secret, &stored.channel_access_token);
        Ok(LineCredentials {
            channel_secret: self.cipher.decrypt(secret, &secret_place(id))?,
            channel_access_token: self.cipher.decrypt(token, &token_place(id))?,
        })
    }

    /// Checks and encrypts a channel secret.
    pub(super) fn seal_line_secret(&self, id: LineOaId, secret: &SecretString) -> Result<String> {
        check("channelSecret", secret, SECRET_MAX)?;
        Ok(self.cipher.encrypt(secret.expose_secret(), &secret_place(id))?)
    }

    /// Checks and encrypts an access token.
    pub(super) fn seal_line_token(&self, id: LineOaId, token: &SecretString) -> Result<String> {
        check("channelAccessToken", token, TOKEN_MAX)?;
        Ok(self.cipher.encrypt(token.expose_secret(), &token_place(id))?)
    }
}

pub(in crate::app) fn secret_place(id: LineOaId) -> String {
    format!("line_oa/{id}/channel_secret")
}

pub(in crate::app) fn token_place(id: LineOaId) -> String {
    format!("line_oa/{id}/channel_access_token")
}

/// A text that a header can carry. The text is not repeated.
fn check(field: &'static str, secret: &SecretString, max: usize) -> Result<()> {
    let text = secret.expose_secret();
    if (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let reason = format!("{field} must be 1 to {max} visible ASCII characters without spaces");
    Err(Error::invalid(field, reason))
}
