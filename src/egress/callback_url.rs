//! A callback's URL, parsed once at the door, and the rules about its host.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::policy::{AddressPolicy, Refusal};

const MAX_BYTES: usize = 2048;

/// Names under which clouds serve credentials. Those with one label or under
/// `.internal` stand here because an exception may open such names.
const METADATA_NAMES: &[&str] = &[
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.google.internal",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "rancher-metadata",
];

/// Top-level names that no public DNS serves: RFC 6762, ICANN's `.internal`,
/// RFC 8375 and two that routers and Linux hand out.
const INTERNAL_SUFFIXES: &[&str] = &["local", "internal", "home.arpa", "localdomain", "lan"];

/// A URL that callbacks may be sent to, in the normal form of the WHATWG URL
/// standard. Only [`AddressPolicy::parse_url`] makes one. It does not promise
/// that the host is still permitted: [`super::Egress::send`] looks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallbackUrl(Url);

impl CallbackUrl {
    pub(super) fn parse(policy: &AddressPolicy, text: &str) -> Result<Self, Refusal> {
        if text.len() > MAX_BYTES {
            return Err(too_long());
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Refusal::url(
                "a callback URL must not contain white space or control characters",
            ));
        }
        let url = Url::parse(text).map_err(|error| {
            Refusal::url(format!("a callback URL must be like https://host/path: {error}"))
        })?;
        check_form(&url)?;
        match url.host() {
            None => return Err(Refusal::url("a callback URL must have a host")),
            Some(Host::Ipv4(ip)) => policy.permits(IpAddr::V4(ip))?,
            Some(Host::Ipv6(ip)) => policy.permits(IpAddr::V6(ip))?,
            Some(Host::Domain(name)) => check_name(policy, name)?,
        }
        Ok(Self(url))
    }

    /// The URL in its normal form, the one to store.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn host(&self) -> Option<Host<&str>> {
        self.0.host()
    }

    pub(super) fn into_url(self) -> Url {
        self.0
    }
}

impl fmt::Display for CallbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn too_long() -> Refusal {
    Refusal::url(format!("a callback URL must not be longer than {MAX_BYTES} bytes"))
}

fn check_form(url: &Url) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::url("a callback URL must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::url("a callback URL must not contain a user name or password"));
    }
    if url.fragment().is_some() {
        return Err(Refusal::url("a callback URL must not have a fragment (#…)"));
    }
    if url.port() == Some(0) {
        return Err(Refusal::url("a callback URL must not use port 0"));
    }
    if url.as_str().len() > MAX_BYTES {
        return Err(too_long());
    }
    // The client converts to this type on each request; what it would not take
    // is refused while somebody is there to correct it.
    let uri: http::Uri = url
        .as_str()
        .parse()
        .map_err(|_| Refusal::url("a callback URL must percent-encode special characters"))?;
    if uri.host() != url.host_str() {
        return Err(Refusal::url("a callback URL must have an unambiguous host"));
    }
    Ok(())
}

/// `name` is lower case and ASCII: the URL parser saw to it.
fn check_name(policy: &AddressPolicy, name: &str) -> Result<(), Refusal> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').any(str::is_empty) {
        return Err(Refusal::url("a callback URL's host must not have empty labels"));
    }
    if METADATA_NAMES.contains(&name) {
        return Err(Refusal::address("callbacks may not reach a cloud metadata service"));
    }
    if is_or_is_under(name, "localhost") {
        return if policy.opens_localhost() {
            Ok(())
        } else {
            Err(Refusal::address(
                "callbacks may not reach localhost; use a public host name, or allow its network \
                 in callbacks.allowed_networks",
            ))
        };
    }
    let internal =
        !name.contains('.') || INTERNAL_SUFFIXES.iter().any(|top| is_or_is_under(name, top));
    if internal && !policy.opens_internal_names() {
        return Err(Refusal::address(
            "callbacks may not reach a name that is internal to a network; \
             use a public host name with its domain, or allow a private network in \
             callbacks.allowed_networks",
        ));
    }
    Ok(())
}

fn is_or_is_under(name: &str, top: &str) -> bool {
    name.strip_suffix(top).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
