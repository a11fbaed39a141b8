//! Tests of the way out: every spelling, every range, hostile name servers and
//! hostile backends.

mod addresses;
mod backend;
mod hostile;
mod kept;
mod names;
mod properties;
mod retrying;
mod sending;
mod signing;
mod urls;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::resolver::Names;
use super::{AddressPolicy, Egress, EgressConfig, Outgoing, Sent};

/// Long enough never to pass in a test that does not wait for it.
const AMPLE: Duration = Duration::from_secs(20);
/// Passes in tests that are about the deadline; only the outcome's kind counts.
const SHORT: Duration = Duration::from_millis(150);
const CAP: usize = 65_536;

fn allowing(networks: &[&str]) -> AddressPolicy {
    AddressPolicy::new(networks.iter().map(|net| net.parse().unwrap()).collect())
}

fn strict() -> AddressPolicy {
    allowing(&[])
}

fn config(policy: AddressPolicy, timeout: Duration) -> EgressConfig {
    EgressConfig {
        policy,
        timeout,
        max_response_bytes: CAP,
        max_idle_per_host: 4,
        user_agent: "egress-test".to_owned(),
    }
}

/// A client that may call the loopback backends of these tests.
fn egress(timeout: Duration) -> Egress {
    Egress::new(config(allowing(&["127.0.0.0/8"]), timeout)).unwrap()
}

/// A client whose names resolve by `answer`.
fn egress_with_names(policy: AddressPolicy, names: Names) -> Egress {
    Egress::with_names(config(policy, AMPLE), names).unwrap()
}

/// A POST of `{}` to a text that some policy accepts.
fn post(text: &str) -> Outgoing {
    let everything = allowing(&["0.0.0.0/0", "::/0", "169.254.169.254/32"]);
    Outgoing {
        method: Method::POST,
        url: everything.parse_url(text).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        timeout: None,
    }
}

fn post_to(address: SocketAddr) -> Outgoing {
    post(&format!("http://{address}/hook"))
}

fn kind(sent: &Sent) -> &'static str {
    match sent {
        Sent::Answered { .. } => "answered",
        Sent::Failed { kind, .. } => kind.as_str(),
    }
}
