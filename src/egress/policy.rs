//! Which addresses and names callbacks may reach. Pure: no look-up happens here.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::address::{self, Embedded};
use super::callback_url::CallbackUrl;
use crate::error::Error;

/// Why a callback URL may not be used. Safe to show to the caller: the
/// reason names what a host is, never an address that a name resolved to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// `CALLBACK_URL_INVALID` for a text that is no callback URL at all,
    /// `CALLBACK_ADDRESS_REFUSED` for a host that callbacks may not reach.
    pub code: &'static str,
    /// A sentence that says what would be right.
    pub reason: String,
}

impl Refusal {
    pub(super) fn url(reason: impl Into<String>) -> Self {
        Self { code: "CALLBACK_URL_INVALID", reason: reason.into() }
    }

    pub(super) fn address(reason: impl Into<String>) -> Self {
        Self { code: "CALLBACK_ADDRESS_REFUSED", reason: reason.into() }
    }
}

impl From<Refusal> for Error {
    /// An [`Error::Invalid`] about the field `callbackUrl`.
    fn from(refusal: Refusal) -> Self {
        Self::Invalid {
            code: refusal.code,
            field: Cow::Borrowed("callbackUrl"),
            reason: refusal.reason,
        }
    }
}

/// Which addresses callbacks may reach. Cheap to clone; never changes.
#[derive(Debug, Clone)]
pub struct AddressPolicy {
    allowed: Arc<[IpNet]>,
    localhost: bool,
    internal_names: bool,
}

impl AddressPolicy {
    /// A policy that permits public unicast addresses and those of `allowed_networks`.
    ///
    /// What an exception opens:
    /// - its own addresses, and for an IPv4 network their IPv4-mapped spelling;
    /// - the name `localhost` when it touches loopback, and internal names
    ///   (single labels, `.local`, `.internal`) when it touches a private or
    ///   shared network. What a name resolves to is still checked;
    /// - a cloud metadata address only when it names that very address (/32, /128);
    /// - an address of the NAT64 prefix 64:ff9b::/96, or a mapped one through an
    ///   IPv6 network, only when the IPv4 address inside is permitted as well.
    pub fn new(allowed_networks: Vec<IpNet>) -> Self {
        Self {
            localhost: allowed_networks.iter().any(address::touches_loopback),
            internal_names: allowed_networks.iter().any(address::touches_internal),
            allowed: allowed_networks.into(),
        }
    }

    /// Whether a connection to `ip` may be made.
    ///
    /// # Errors
    /// `CALLBACK_ADDRESS_REFUSED` with what the address is.
    pub fn permits(&self, ip: IpAddr) -> Result<(), Refusal> {
        match self.objection(ip) {
            None => Ok(()),
            Some(what) => Err(Refusal::address(format!(
                "callbacks may not reach {what}; use a public address, or one that \
                 callbacks.allowed_networks allows"
            ))),
        }
    }

    /// Reads a callback URL: `http` or `https`, at most 2048 bytes as given and
    /// as normalised, no user information, no fragment, a port other than 0, no
    /// white space or control characters, and a host that is permitted or a name
    /// that could be. Does not resolve the name: that is [`super::Egress::check`].
    ///
    /// # Errors
    /// `CALLBACK_URL_INVALID` for the text, `CALLBACK_ADDRESS_REFUSED` for the host.
    pub fn parse_url(&self, text: &str) -> Result<CallbackUrl, Refusal> {
        CallbackUrl::parse(self, text)
    }

    /// What the address is, if that is a reason not to connect to it.
    pub(super) fn objection(&self, ip: IpAddr) -> Option<&'static str> {
        match ip {
            IpAddr::V4(_) if self.excepts(ip) => None,
            IpAddr::V4(v4) => address::special_v4(v4),
            IpAddr::V6(v6) => self.objection_v6(v6),
        }
    }

    fn objection_v6(&self, ip: Ipv6Addr) -> Option<&'static str> {
        let excepted = self.excepts(IpAddr::V6(ip));
        let permitted = match address::embedded_v4(ip) {
            Some(Embedded::Mapped(inner)) => {
                self.excepts(IpAddr::V4(inner))
                    || excepted && self.objection(IpAddr::V4(inner)).is_none()
            }
            Some(Embedded::Nat64(inner)) => excepted && self.objection(IpAddr::V4(inner)).is_none(),
            None => excepted,
        };
        if permitted { None } else { address::special_v6(ip) }
    }

    fn excepts(&self, ip: IpAddr) -> bool {
        let metadata = address::is_metadata(ip);
        self.allowed
            .iter()
            .any(|net| net.contains(&ip) && (!metadata || net.prefix_len() == net.max_prefix_len()))
    }

    pub(super) fn opens_localhost(&self) -> bool {
        self.localhost
    }

    pub(super) fn opens_internal_names(&self) -> bool {
        self.internal_names
    }
}
