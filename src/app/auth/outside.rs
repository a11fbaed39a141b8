//! People whom the configured outside issuer vouches for.
//!
//! The issuer's address is the operator's choice and may well be inside the network, so it is
//! fetched by a client of its own, to which the callbacks' address policy does not apply; a cloud's
//! metadata service stays out of reach all the same.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::Url;

use super::{App, actor, invalid};
use crate::app::change::change;
use crate::config::JwtConfig;
use crate::domain::access::Actor;
use crate::domain::audit::Caller;
use crate::domain::id::UserId;
use crate::domain::input;
use crate::domain::people::User;
use crate::egress::{AddressPolicy, Egress, EgressConfig, Outgoing, Sent};
use crate::error::{Error, Result};
use crate::secrets::{FetchError, OidcSettings, OidcVerifier, OutsideIdentity, TokenRefusal};
use crate::store::people;

/// For a whole document.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Key sets of large issuers have tens of kilobytes.
const MAX_BYTES: usize = 1024 * 1024;
/// The role that makes an administrator, if a claim for roles is configured.
const ADMINISTRATOR: &str = "administrator";

/// The outside issuer.
pub(super) struct Outside {
    verifier: OidcVerifier,
}

impl Outside {
    /// None when no issuer is configured.
    pub(super) fn from_config(config: &JwtConfig) -> Result<Option<Self>> {
        let Some(settings) = OidcSettings::from_config(config) else { return Ok(None) };
        let everywhere = vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        let policy = AddressPolicy::new(everywhere);
        let egress = Egress::new(EgressConfig {
            policy: policy.clone(),
            timeout: TIMEOUT,
            max_response_bytes: MAX_BYTES,
            max_idle_per_host: 1,
            user_agent: concat!("trigger-manager/", env!("CARGO_PKG_VERSION")).to_owned(),
        })?;
        let fetch = move |url| get(egress.clone(), policy.clone(), url);
        Ok(Some(Self { verifier: OidcVerifier::new(settings, fetch) }))
    }
}

async fn get(egress: Egress, policy: AddressPolicy, url: Url) -> Result<Vec<u8>, FetchError> {
    let request = Outgoing {
        method: Method::GET,
        url: policy.parse_url(url.as_str())?,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        timeout: None,
    };
    match egress.send(request).await {
        Sent::Answered { status: 200, body, complete: true, .. } => Ok(body.into()),
        Sent::Answered { status: 200, .. } => {
            Err(format!("{url} answered more than {MAX_BYTES} bytes").into())
        }
        Sent::Answered { status, .. } => Err(format!("{url} answered {status}").into()),
        Sent::Failed { detail, .. } => Err(format!("{url}: {detail}").into()),
    }
}

impl App {
    pub(super) async fn user_of_outside(&self, outside: &Outside, token: &str) -> Result<Actor> {
        let identity = outside.verifier.verify(token, self.now()).await.map_err(|refusal| {
            tracing::debug!(%refusal, "a token was refused");
            match refusal {
                TokenRefusal::Unavailable => Error::Busy,
                _ => invalid(),
            }
        })?;
        let email = verified_email(&identity).ok_or_else(invalid)?;
        let found = people::credentials_by_email(self.store.read(), &email).await?;
        let user = match found {
            Some(found) => found.user,
            None => self.welcome(&identity, email).await?,
        };
        if user.disabled_at.is_some() {
            return Err(invalid());
        }
        // Not stored: who loses the role at the issuer loses it here with the next token.
        let by_role = identity.roles.iter().any(|role| role == ADMINISTRATOR);
        Ok(actor(&User { administrator: user.administrator || by_role, ..user }))
    }

    /// Makes a user, unless the clock is wrong; of two calls at once the second finds the first one's.
    async fn welcome(&self, identity: &OutsideIdentity, email: String) -> Result<User> {
        self.clock_holds()?;
        let now = self.now();
        let name = identity.name.as_deref().and_then(|name| input::name("name", name).ok());
        let user = User {
            id: UserId::new(),
            name: name.unwrap_or_else(|| email.chars().take(input::NAME_MAX).collect()),
            email,
            administrator: false,
            disabled_at: None,
            created_at: now,
            updated_at: now,
        };
        let tx = self.store.begin().await?;
        match people::insert_user(&*tx, &user, None).await {
            Ok(()) => {}
            Err(Error::Conflict { .. }) => {
                drop(tx);
                let found = people::credentials_by_email(self.store.read(), &user.email).await?;
                return found.map(|found| found.user).ok_or(Error::Busy);
            }
            Err(error) => return Err(error),
        }
        let made = change("user.create", ("user", user.id), None, Some(&user))?;
        tx.commit(&Caller::system(), now, &[made]).await?;
        Ok(user)
    }
}

/// An address that is not the caller's for certain must not find an account.
fn verified_email(identity: &OutsideIdentity) -> Option<String> {
    let email = identity.email.as_deref().filter(|_| identity.email_verified)?;
    input::email("email", email).ok()
}

#[cfg(test)]
#[path = "outside_tests.rs"]
mod tests;
