//! What an answer of the platform means. Pure.

use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;

use crate::domain::line::LineCall;
use crate::egress::Sent;

const REQUEST_ID: &str = "x-line-request-id";
const ACCEPTED_REQUEST_ID: &str = "x-line-accepted-request-id";

/// Characters of a text that are kept; the platform's own are shorter.
const MESSAGE_CHARS: usize = 500;
/// Details of an error that are kept.
const DETAILS: usize = 5;
/// Characters of a request id that are kept; the platform's are UUIDs.
const ID_CHARS: usize = 100;

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineAnswer {
    /// What it means.
    pub outcome: Outcome,
    /// The answer's status; none if there was no complete answer.
    pub status: Option<u16>,
    /// The platform's id of this request, for the log.
    pub request_id: Option<String>,
    /// The platform's id of the earlier request that was accepted, with [`Outcome::AlreadyDone`].
    pub accepted_request_id: Option<String>,
    /// The whole call, the wait for its turn included.
    pub elapsed: Duration,
    /// What the platform said, or what went wrong, unless it is done. At most 500 characters, no
    /// control characters, no secret of ours.
    pub message: Option<String>,
}

/// What a call's end means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The platform did it. A push to a user who blocked the account ends like this too.
    Done,
    /// The platform had done it before, under the same retry key: an earlier attempt, whose answer
    /// was lost, succeeded.
    AlreadyDone,
    /// It is to be tried again, with the same key and body: the platform may have done it or not.
    Retry {
        /// A stable word for logs: `http_status`, or that of [`crate::egress::FailureKind`].
        reason: &'static str,
    },
    /// Too many calls of the channel at once, as the platform says or we ourselves. Nothing was
    /// done; it is to be tried again later.
    RateLimited,
    /// The channel's messages of the month are used up. Nothing was done, and nothing will be
    /// before the quota changes.
    MonthlyLimit,
    /// The channel's access token does not hold. Nothing was done.
    Unauthorized,
    /// The platform will never do it. Nothing was done.
    Refused {
        /// A sentence: the status and what the platform said.
        reason: String,
    },
}

impl LineAnswer {
    /// An answer that was made here, without a request.
    pub(super) fn local(outcome: Outcome, message: &str, elapsed: Duration) -> Self {
        Self {
            outcome,
            status: None,
            request_id: None,
            accepted_request_id: None,
            elapsed,
            message: Some(message.to_owned()),
        }
    }

    /// Reads what came of a request, `waited` after the call began.
    pub(super) fn of(call: &LineCall, sent: Sent, waited: Duration) -> Self {
        match sent {
            Sent::Answered { status, headers, body, elapsed, .. } => {
                let words = (!(200..300).contains(&status)).then(|| words(&body)).flatten();
                Self {
                    outcome: outcome(call, status, words.as_deref()),
                    status: Some(status),
                    request_id: id(&headers, REQUEST_ID),
                    accepted_request_id: id(&headers, ACCEPTED_REQUEST_ID),
                    elapsed: waited + elapsed,
                    message: words,
                }
            }
            Sent::Failed { kind, detail, elapsed, .. } => {
                let outcome = Outcome::Retry { reason: kind.as_str() };
                Self::local(outcome, &clean(&detail, MESSAGE_CHARS), waited + elapsed)
            }
        }
    }
}

fn outcome(call: &LineCall, status: u16, words: Option<&str>) -> Outcome {
    match status {
        200..300 => Outcome::Done,
        409 if matches!(call, LineCall::Push { .. }) => Outcome::AlreadyDone,
        401 => Outcome::Unauthorized,
        429 if words.is_some_and(is_monthly) => Outcome::MonthlyLimit,
        429 => Outcome::RateLimited,
        400..500 => Outcome::Refused {
            reason: match words {
                Some(words) => format!("the LINE platform answered {status}: {words}"),
                None => format!("the LINE platform answered {status} without a reason"),
            },
        },
        // 5xx, and what no server of the platform sends: the request may have been done.
        _ => Outcome::Retry { reason: "http_status" },
    }
}

/// Only the text tells the two limits apart: `You have reached your monthly limit.` against
/// `The API rate limit has been exceeded. Try again later.` An unknown text is a rate limit: that
/// is tried again soon and so shows what it is, while the other would silence the channel.
fn is_monthly(words: &str) -> bool {
    let words = words.to_lowercase();
    ["monthly", "target limit", "additional message", "free message"]
        .iter()
        .any(|sign| words.contains(sign))
}

#[derive(Deserialize)]
struct Problem {
    message: String,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(default)]
    message: String,
    #[serde(default)]
    property: String,
}

/// What the body says, in one line: the platform's message with its details, or the text of
/// whoever answered in its place.
fn words(body: &[u8]) -> Option<String> {
    let text = match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => {
            let details: Vec<_> = problem.details.iter().take(DETAILS).map(Detail::text).collect();
            match details.is_empty() {
                true => problem.message,
                false => format!("{} ({})", problem.message, details.join("; ")),
            }
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    Some(clean(&text, MESSAGE_CHARS)).filter(|text| !text.is_empty())
}

impl Detail {
    fn text(&self) -> String {
        match self.property.as_str() {
            "" => self.message.clone(),
            property => format!("{property}: {}", self.message),
        }
    }
}

fn id(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(clean(text, ID_CHARS)).filter(|text| !text.is_empty())
}

/// The text on one line, without control characters, cut after `most` characters.
fn clean(text: &str, most: usize) -> String {
    let spaced: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most * 4).collect();
    let words = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &words[..at].trim_end()),
        None => words,
    }
}
