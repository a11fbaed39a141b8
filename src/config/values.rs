//! What single values must look like.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::domain::cron::Zone;
use ipnet::IpNet;
use url::{Host, Url};

use super::{SECRET_KEY_MIN_CHARS, reader::Parsed};

pub(super) fn socket_address(text: &str) -> Parsed<SocketAddr> {
    text.parse().map_err(|_| {
        format!("\"{text}\" is no address; write an IP address and a port, such as 0.0.0.0:8080")
    })
}

pub(super) fn ip_address(text: &str) -> Parsed<IpAddr> {
    text.parse()
        .map_err(|_| format!("\"{text}\" is no IP address; write one, such as 127.0.0.1 or ::"))
}

pub(super) fn network(text: &str) -> Parsed<IpNet> {
    let right = "write an address and a prefix length, such as 10.1.0.0/16 or fd00::/8";
    let network =
        IpNet::from_str(text).map_err(|_| format!("\"{text}\" is no network; {right}"))?;
    Ok(network.trunc())
}

pub(super) fn time_zone(text: &str) -> Parsed<Zone> {
    Zone::parse(text).map_err(|_| {
        format!("\"{text}\" is no time zone; write an IANA name, such as Europe/Berlin or UTC")
    })
}

pub(super) fn public_url(text: &str) -> Parsed<Url> {
    plain_url(text, "write the address that clients use, such as https://triggers.example.com")
}

pub(super) fn api_base(text: &str) -> Parsed<Url> {
    plain_url(text, "write where the API's paths start, such as https://api.line.me")
}

fn plain_url(text: &str, right: &str) -> Parsed<Url> {
    let url = Url::parse(text).map_err(|_| format!("is no URL; {right}"))?;
    let plain = url.query().is_none() && url.fragment().is_none() && !has_user(&url);
    if matches!(url.scheme(), "http" | "https") && plain {
        Ok(url)
    } else {
        Err(format!("must be http or https, without user, query or fragment; {right}"))
    }
}

pub(super) fn issuer_url(text: &str) -> Parsed<Url> {
    let right = "write an https URL, such as https://id.example.com/realm";
    let url = Url::parse(text).map_err(|_| format!("is no URL; {right}"))?;
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let safe = url.scheme() == "https" || (url.scheme() == "http" && here);
    if safe && url.fragment().is_none() && !has_user(&url) {
        Ok(url)
    } else {
        Err(format!("is not safe to fetch keys from; {right} (http only on this machine)"))
    }
}

pub(super) fn origin(text: &str) -> Parsed<String> {
    let right = "write scheme, host and port, such as https://console.example.com; name each \
                 origin, a * is not taken";
    let url = Url::parse(text).map_err(|_| format!("\"{text}\" is no origin; {right}"))?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && bare && !has_user(&url) {
        Ok(url.origin().ascii_serialization())
    } else {
        Err(format!("\"{text}\" is no origin; {right}"))
    }
}

pub(super) fn secret_key(text: &str) -> Parsed<()> {
    if text.chars().count() >= SECRET_KEY_MIN_CHARS {
        return Ok(());
    }
    Err(format!(
        "is too short; write 32 random bytes in base64, or a passphrase of at least \
         {SECRET_KEY_MIN_CHARS} characters"
    ))
}

pub(super) fn bootstrap_token(text: &str) -> Parsed<()> {
    // It travels in an Authorization header, which takes visible ASCII only.
    if text.len() >= 20 && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    Err("does not fit; write at least 20 letters, digits and signs without spaces, best pfy_ \
         and 43 random characters"
        .to_owned())
}

pub(super) fn email(text: &str) -> Parsed<String> {
    let fits = text
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
    if fits && !text.chars().any(char::is_whitespace) {
        Ok(text.to_owned())
    } else {
        Err(format!("\"{text}\" is no e-mail address; write one, such as admin@example.com"))
    }
}

/// Stricter than the filter's own parser, which takes a misspelt level for a module's name.
pub(super) fn log_level(text: &str) -> Parsed<String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let fits = |directive: &str| match directive.trim().split_once('=') {
        None => LEVELS.contains(&directive.trim()),
        Some((module, level)) => {
            let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
            !module.is_empty() && module.chars().all(name) && LEVELS.contains(&level)
        }
    };
    if text.split(',').all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "\"{text}\" is no level; write error, warn, info, debug, trace or off, or single \
             modules as in info,sqlx=warn"
        ))
    }
}

pub(super) fn any_text(text: &str) -> Parsed<String> {
    Ok(text.to_owned())
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}
