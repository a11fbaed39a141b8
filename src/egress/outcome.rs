//! What goes out and what comes of it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::callback_url::CallbackUrl;
use super::policy::Refusal;

/// A request to send once. Not `Debug`: headers and body carry secrets.
pub struct Outgoing {
    /// The method, as a rule POST.
    pub method: Method,
    /// Where to.
    pub url: CallbackUrl,
    /// Headers beyond `host`, `user-agent`, `accept` and `content-length`, which
    /// are added. No framing headers (`transfer-encoding`, `expect`, …).
    pub headers: HeaderMap,
    /// The body, sent as it is.
    pub body: Bytes,
    /// The deadline of the whole attempt; none means that of the configuration.
    /// A connection that is not up after nine tenths of the configured one fails
    /// in any case.
    pub timeout: Option<Duration>,
}

/// What came of an attempt. There is no third case and no panic.
#[derive(Debug)]
pub enum Sent {
    /// The backend answered, with any status, within the deadline.
    Answered {
        /// The final status; informational ones are passed over.
        status: u16,
        /// The answer's headers, untouched.
        headers: HeaderMap,
        /// The body, untouched, cut at the cap.
        body: Bytes,
        /// Whether `body` is the whole body. If not, the cap was passed and the
        /// connection dropped; the status counts all the same.
        complete: bool,
        /// From the call of `send` to the end of the body.
        elapsed: Duration,
    },
    /// There is no complete answer.
    Failed {
        /// What went wrong.
        kind: FailureKind,
        /// A short text for the log, without secrets, without the URL.
        detail: String,
        /// From the call of `send` to the failure.
        elapsed: Duration,
        /// Whether the request may have reached the backend.
        sent: Sending,
    },
}

/// Whether a failed request may have reached the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Not a byte of it was sent.
    NotSent,
    /// It may have been received and acted on.
    Unknown,
}

/// What went wrong with an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// The address policy forbids the host or what it resolves to now.
    Refused(Refusal),
    /// The name has no address.
    Resolve,
    /// No connection: refused, unreachable, or not up in time.
    Connect,
    /// No TLS session: an untrusted or wrong certificate, or no TLS at all.
    Tls,
    /// The deadline passed before the answer was complete.
    Timeout,
    /// The backend closed or reset the connection before the answer was complete.
    Closed,
    /// What came back is not HTTP/1.1, or its head is larger than the cap.
    Protocol,
}

impl FailureKind {
    /// The words of those after which not a byte of the request can have been sent.
    pub const NOT_SENT: [&str; 4] = ["refused", "resolve", "connect", "tls"];

    /// A stable word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
        }
    }
}
