//! Another secret key: what is stored encrypted is encrypted with it.

use secrecy::ExposeSecret;
use uuid::Uuid;

use super::App;
use super::access::require_administrator;
use super::backend::secret_place as backend_place;
use super::bootstrap::KEY_CHECK;
use super::change::change;
use super::line_oa::{secret_place, token_place};
use crate::domain::audit::Caller;
use crate::error::Result;
use crate::secrets::{Cipher, SecretKey};
use crate::store::application::{self, BackendSecrets};
use crate::store::line::{self, LineSecrets};
use crate::store::setting;

/// What was encrypted anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resealed {
    /// Backends, each with a token and a signing secret.
    pub backends: usize,
    /// LINE OAs, each with a channel secret and an access token.
    pub line_oas: usize,
}

impl App {
    /// Encrypts all secrets that are stored with `new` instead of this process's key, in one
    /// transaction. Stop all processes first, and start them with the new key: a running one keeps the
    /// old one, and can't read what is stored. Sessions, whose tokens are signed with the key, end.
    /// A crash leaves either key in use, and all that is stored with it. A second time is refused: this
    /// process still has the old key.
    ///
    /// # Errors
    /// `FORBIDDEN` for all but administrators; `CONFLICT` while an executor lives;
    /// `SECRET_KEY_MISMATCH` when this process's key is not the one in use. An internal error when a
    /// stored secret can't be opened. Nothing is changed then.
    pub async fn change_secret_key(&self, caller: &Caller, new: &SecretKey) -> Result<Resealed> {
        require_administrator(&caller.actor)?;
        self.check_secret_key().await?;
        self.refuse_while_running("secret_key").await?;
        let (now, cipher) = (self.now(), Cipher::new(new));
        let anew = |stored: &str, place: &str| -> Result<String> {
            let plain = self.cipher.decrypt(stored, place)?;
            Ok(cipher.encrypt(plain.expose_secret(), place)?)
        };
        let tx = self.store.begin().await?;
        let backends = application::all_secrets(&*tx).await?;
        for (id, stored) in &backends {
            let secrets = BackendSecrets {
                token: anew(&stored.token, &backend_place(*id, "token"))?,
                signing_secret: anew(
                    &stored.signing_secret,
                    &backend_place(*id, "signing_secret"),
                )?,
            };
            application::reseal(&*tx, *id, secrets).await?;
        }
        let line_oas = line::all_secrets(&*tx).await?;
        for (id, stored) in &line_oas {
            let secrets = LineSecrets {
                channel_secret: anew(&stored.channel_secret, &secret_place(*id))?,
                channel_access_token: anew(&stored.channel_access_token, &token_place(*id))?,
            };
            line::reseal(&*tx, *id, secrets).await?;
        }
        setting::set(&*tx, KEY_CHECK, &cipher.encrypt(KEY_CHECK, KEY_CHECK)?, now).await?;
        let resealed = Resealed { backends: backends.len(), line_oas: line_oas.len() };
        let after =
            serde_json::json!({ "backends": resealed.backends, "lineOas": resealed.line_oas });
        // A setting is known by its name and has no id.
        let entity = ("setting", Uuid::nil());
        let changed = change("setting.change_secret_key", entity, None, Some(&after))?;
        tx.commit(caller, now, &[changed]).await?;
        Ok(resealed)
    }
}

#[cfg(test)]
#[path = "secret_key_tests.rs"]
mod tests;
