//! Names to checked addresses. Nothing leaves this module unchecked, so a
//! connection by name can only go where the policy permits.

use std::io;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::{AddressPolicy, Refusal};

/// Why a name has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// At least one of its addresses is refused.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The system's resolver failed or knows no address.
    #[error("the name does not resolve")]
    Unresolved(#[source] io::Error),
}

#[cfg(test)]
pub(super) type Script = std::sync::Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Where names are looked up.
#[derive(Clone)]
pub(super) enum Names {
    /// The operating system: hosts file, then DNS.
    System,
    /// A test's own answers.
    #[cfg(test)]
    Scripted(Script),
    /// A name server that never answers.
    #[cfg(test)]
    Silent,
}

impl Names {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => {
                Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
            }
            #[cfg(test)]
            Self::Scripted(answer) => answer(name),
            #[cfg(test)]
            Self::Silent => std::future::pending().await,
        }
    }
}

/// A resolver that gives out permitted addresses only.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    policy: AddressPolicy,
    names: Names,
}

impl CheckedResolver {
    pub(super) fn new(policy: AddressPolicy, names: Names) -> Self {
        Self { policy, names }
    }

    /// All addresses of `name`, at least one, every one of them permitted. If
    /// any is refused, the name is.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let found = self.names.addresses(name).await.map_err(LookupError::Unresolved)?;
        if found.is_empty() {
            let error = io::Error::new(io::ErrorKind::NotFound, "no addresses");
            return Err(LookupError::Unresolved(error));
        }
        match found.iter().find_map(|ip| self.policy.objection(*ip)) {
            None => Ok(found),
            Some(what) => Err(LookupError::Refused(Refusal::address(format!(
                "the host resolves to {what}, which callbacks may not reach"
            )))),
        }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let found = resolver.addresses(name.as_str()).await?;
            // Port 0 stands for the URL's port.
            let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
