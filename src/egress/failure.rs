//! From the client's chain of errors to a [`FailureKind`].

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::iter;

use super::outcome::{FailureKind, Sending};
use super::policy::Refusal;

const MAX_DETAIL_BYTES: usize = 200;

/// A failure without its duration.
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) detail: String,
    pub(super) sent: Sending,
}

impl Failure {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self {
            detail: refusal.reason.clone(),
            kind: FailureKind::Refused(refusal),
            sent: Sending::NotSent,
        }
    }

    /// After the request went out.
    pub(super) fn answer(kind: FailureKind, detail: String) -> Self {
        Self { kind, detail, sent: Sending::Unknown }
    }
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        if let Some(refusal) = causes(&error).find_map(|cause| cause.downcast_ref::<Refusal>()) {
            return Self::refused(refusal.clone());
        }
        let kind = kind(&error);
        let not_sent = error.is_builder() || error.is_connect();
        Self {
            detail: detail(&error, &kind),
            kind,
            sent: if not_sent { Sending::NotSent } else { Sending::Unknown },
        }
    }
}

fn kind(error: &reqwest::Error) -> FailureKind {
    if error.is_dns() {
        FailureKind::Resolve
    } else if error.is_connect() {
        let tls = causes(error).any(|cause| cause.is::<rustls::Error>());
        if tls { FailureKind::Tls } else { FailureKind::Connect }
    } else if causes(error).any(is_close) {
        FailureKind::Closed
    } else {
        FailureKind::Protocol
    }
}

fn is_close(cause: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        return error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    }
    cause.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        )
    })
}

/// The innermost cause says most; the outer ones repeat the URL.
fn detail(error: &reqwest::Error, kind: &FailureKind) -> String {
    if error.is_connect() && error.is_timeout() {
        return "no connection in time".to_owned();
    }
    let no_tls = |cause: &(dyn StdError + 'static)| {
        matches!(cause.downcast_ref(), Some(rustls::Error::InvalidMessage(_)))
    };
    if causes(error).any(no_tls) {
        return "what answers there does not speak TLS; is the URL to begin with http://?"
            .to_owned();
    }
    let mut text = match causes(error).last() {
        Some(cause) => cause.to_string(),
        None => kind.as_str().to_owned(),
    };
    if text.len() > MAX_DETAIL_BYTES {
        text.truncate(text.floor_char_boundary(MAX_DETAIL_BYTES));
    }
    text
}

/// The causes below `error`. An `io::Error` hides what it wraps from `source()`,
/// and TLS errors come wrapped in one.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(below(error), |cause| below(*cause))
}

fn below<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
