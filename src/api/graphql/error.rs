//! The public shape of errors.
//!
//! The library turns whatever a resolver fails with into text that the client reads. So every
//! response passes [`publish`] before it leaves, and nothing else decides what is shown: our own
//! [`Error`] as it is, what the library says about the client's request as it says it, and one
//! fixed sentence for everything else, whose truth goes to the log.

use std::sync::Arc;

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};

use super::misfit::{self, Misfit};
use crate::domain::rule::misfit::cut;
use crate::error::{Error, MESSAGE_MAX};

/// What a resolver fails with that has more than one kind of error. The error that it is made
/// from stays in `source`.
pub(super) use async_graphql::Error as Fault;

/// A nullable field that may fail: its error is told and it is null. An error outside of the
/// option would take the fields beside it away too.
pub(super) async fn nullable<T>(
    found: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Fault>> {
    Some(found.await.map_err(Fault::from))
}

/// The document is not GraphQL.
pub const PARSE_FAILED: &str = "GRAPHQL_PARSE_FAILED";
/// The document does not fit the schema, or goes beyond a limit.
pub const VALIDATION_FAILED: &str = "GRAPHQL_VALIDATION_FAILED";
/// A variable or an argument has a value that its type does not take.
pub const BAD_USER_INPUT: &str = "BAD_USER_INPUT";
const INTERNAL: &str = "INTERNAL";
/// After how many seconds the same request may succeed.
const RETRY_AFTER: &str = "retryAfterSeconds";

/// Marks an error as being about the request, which the client may read: its code, and the field
/// that it is about, if about one. Put into `source`.
#[derive(Debug, Clone)]
pub struct AboutRequest(pub &'static str, pub Option<String>);

/// Marks `error` as one that the client's request caused.
pub fn about_request(mut error: ServerError, code: &'static str) -> ServerError {
    error.source = Some(Arc::new(AboutRequest(code, None)));
    error
}

/// Marks `error` as one that a value of the client's request caused, at `path`.
pub fn about_value(mut error: ServerError, path: &str) -> ServerError {
    error.source = Some(Arc::new(AboutRequest(BAD_USER_INPUT, Some(misfit::field(path)))));
    error
}

/// How a response came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed, whatever came of it.
    Executed,
    /// The document could not be read.
    NotParsed,
    /// The request was refused before it was executed.
    Refused,
}

/// How the library begins what it says about values that do not fit. It gives no other sign.
const COERCION: [&str; 3] = ["Failed to parse \"", "Expected input type \"", "Variable "];

/// Makes all errors of `response` fit to be read, and writes those that are our fault to the log.
/// `document` is the text that was executed.
pub fn publish(response: &mut Response, request_id: &str, document: &str) -> Outcome {
    let mut outcome = Outcome::Executed;
    for error in &mut response.errors {
        let known = Known::of(error, document);
        match known {
            Known::Request { code: PARSE_FAILED, .. } => outcome = Outcome::NotParsed,
            Known::Request { .. } | Known::Value(_) if error.path.is_empty() => {
                outcome = Outcome::Refused;
            }
            _ => {}
        }
        known.write(error, request_id);
    }
    outcome
}

/// Whose an error is.
enum Known {
    Ours { code: &'static str, field: Option<String>, message: String, retry_after: Option<u32> },
    Request { code: &'static str, field: Option<String> },
    Value(Misfit),
    Internal,
}

impl Known {
    fn of(error: &ServerError, document: &str) -> Self {
        if let Some(AboutRequest(code, field)) = error.source::<AboutRequest>() {
            return Self::Request { code, field: field.clone() };
        }
        let ours = error.source::<Error>();
        match ours.or_else(|| error.source::<Arc<Error>>().map(Arc::as_ref)) {
            Some(Error::Internal(_)) => Self::Internal,
            Some(ours) => Self::Ours {
                code: ours.code(),
                field: ours.field().map(str::to_owned),
                message: ours.to_string(),
                retry_after: ours.retry_after_seconds(),
            },
            None if error.source.is_some() => Self::Internal,
            // Whatever fails in a field has the field's path.
            None if error.path.is_empty() => match Misfit::read(&error.message) {
                Some(misfit) => Self::Value(misfit),
                None => Self::Request { code: VALIDATION_FAILED, field: None },
            },
            None if COERCION.iter().any(|start| error.message.starts_with(start)) => {
                let at = error.locations.first();
                let field = at.and_then(|at| misfit::argument_at(document, *at));
                Self::Request { code: BAD_USER_INPUT, field: field.map(str::to_owned) }
            }
            None => Self::Internal,
        }
    }

    fn write(self, error: &mut ServerError, request_id: &str) {
        let mut extensions = ErrorExtensionValues::default();
        match self {
            Self::Ours { code, field, message, retry_after } => {
                error.message = message;
                extensions.set("code", code);
                if let Some(field) = field {
                    extensions.set("field", field);
                }
                if let Some(seconds) = retry_after {
                    extensions.set(RETRY_AFTER, seconds);
                }
            }
            Self::Request { code, field } => {
                extensions.set("code", code);
                if let Some(field) = field {
                    extensions.set("field", field);
                }
            }
            Self::Value(misfit) => {
                error.message = misfit.message;
                extensions.set("code", BAD_USER_INPUT);
                extensions.set("field", misfit.field);
            }
            Self::Internal => {
                log(error, request_id);
                error.message = "internal error".to_owned();
                extensions.set("code", INTERNAL);
                extensions.set("requestId", request_id);
            }
        }
        // A client's own value may be quoted, however long it is.
        error.message = cut(&error.message, MESSAGE_MAX);
        error.extensions = Some(extensions);
        error.source = None;
    }
}

fn log(error: &ServerError, request_id: &str) {
    let ours = error.source::<Error>();
    let ours = ours.or_else(|| error.source::<Arc<Error>>().map(Arc::as_ref));
    let truth = ours.map_or_else(|| error.message.clone(), |ours| format!("{ours:?}"));
    tracing::error!(request_id, path = ?error.path, error = truth, "a field failed");
}

/// A response to a request that was not executed, with our own error.
pub fn refusal(error: &Error, request_id: &str) -> Response {
    let mut shown = ServerError::new(error.to_string(), None);
    let mut extensions = ErrorExtensionValues::default();
    extensions.set("code", error.code());
    if let Some(field) = error.field() {
        extensions.set("field", field);
    }
    if let Some(seconds) = error.retry_after_seconds() {
        extensions.set(RETRY_AFTER, seconds);
    }
    if matches!(error, Error::Internal(_)) {
        tracing::error!(request_id, error = ?error, "a request failed");
        extensions.set("requestId", Value::from(request_id));
    }
    shown.extensions = Some(extensions);
    Response::from_errors(vec![shown])
}
