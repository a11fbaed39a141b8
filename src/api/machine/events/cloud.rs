//! CloudEvents 1.0 (the JSON event format, and the HTTP protocol binding in its three modes).

use axum::http::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::machine::door::parse_below;
use crate::api::machine::problem::Problem;
use crate::app::NewEvent;
use crate::error::{Error, Result};

const VERSION: &str = "1.0";

/// A CloudEvent. Attributes that are not listed are passed over.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({
    "specversion": "1.0",
    "id": "form-7-submission-31",
    "source": "/forms/7",
    "type": "form_submitted",
    "subject": "U0123456789abcdef0123456789abcdef",
    "time": "2026-01-01T12:00:00Z",
    "lineoaid": "0198c0de-0000-7000-8000-000000000008",
    "data": { "formId": "7", "submissionId": "31", "answers": { "size": "M" } }
}))]
pub(super) struct CloudEvent {
    /// Always `1.0`.
    #[schema(value_type = String, required = true)]
    specversion: Option<String>,
    /// The event's id, unique in the LINE OA.
    #[schema(value_type = String, required = true, min_length = 1, max_length = 200)]
    id: Option<String>,
    /// Where it happened. Not kept.
    #[schema(value_type = String, required = true)]
    source: Option<String>,
    /// What happened: a source type of trigger rules, except `schedule`.
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true)]
    event_type: Option<String>,
    /// LINE's id of the user that it happened to.
    subject: Option<String>,
    /// When it happened. Left out: now.
    #[schema(format = DateTime)]
    time: Option<String>,
    /// The LINE OA's id: an extension attribute.
    #[schema(value_type = String, format = Uuid, required = true)]
    lineoaid: Option<String>,
    /// The media type of the data: JSON, or left out.
    datacontenttype: Option<String>,
    /// The payload.
    #[schema(value_type = Option<Object>)]
    data: Option<Value>,
    #[schema(ignore)]
    data_base64: Option<Value>,
}

impl CloudEvent {
    /// What the event says, once it is one that can be taken.
    ///
    /// # Errors
    /// `INVALID` on the attribute.
    pub fn told(self) -> Result<NewEvent> {
        if self.specversion.as_deref() != Some(VERSION) {
            let reason = format!("specversion must be {VERSION}");
            return Err(Error::invalid("specversion", reason));
        }
        if self.source.as_deref().unwrap_or_default().is_empty() {
            return Err(Error::invalid("source", "source is required and must not be empty"));
        }
        if self.datacontenttype.as_deref().is_some_and(|kind| !is_json(kind)) {
            let reason = "datacontenttype must be application/json: no other data is read";
            return Err(Error::invalid("datacontenttype", reason));
        }
        if self.data_base64.is_some() {
            let reason = "data_base64 must be left out: give the data as JSON, in data";
            return Err(Error::invalid("data_base64", reason));
        }
        Ok(NewEvent {
            event_id: self.id,
            event_type: self.event_type,
            line_oa_id: self.lineoaid,
            user_id: self.subject,
            occurred_at: self.time,
            payload: self.data,
        })
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.ends_with("/json") || kind.ends_with("+json")
}

/// Whether the headers hold an event's attributes.
pub(super) fn is_binary(headers: &HeaderMap) -> bool {
    ["ce-specversion", "ce-id", "ce-type"].iter().any(|name| headers.contains_key(*name))
}

/// The event whose attributes are headers and whose data is the body.
///
/// # Errors
/// `INVALID` on the header; what JSON refuses, on `data`.
pub(super) fn binary(headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent, Problem> {
    let attribute = |name: &'static str| {
        let value = headers.get(HeaderName::from_static(name));
        value.map(|value| decoded(name, value.as_bytes())).transpose()
    };
    Ok(CloudEvent {
        specversion: attribute("ce-specversion")?,
        id: attribute("ce-id")?,
        source: attribute("ce-source")?,
        event_type: attribute("ce-type")?,
        subject: attribute("ce-subject")?,
        time: attribute("ce-time")?,
        lineoaid: attribute("ce-lineoaid")?,
        data: match body.trim_ascii() {
            b"" => None,
            _ => Some(parse_below("data", body)?),
        },
        ..CloudEvent::default()
    })
}

/// A header's value as the binding has it: quotes taken off, percent-encoded bytes decoded.
fn decoded(name: &'static str, value: &[u8]) -> Result<String> {
    let bytes = percent_decoded(&unquoted(value));
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(name, format!("{name} must be UTF-8, percent-encoded")))
}

fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let mut bytes = inner.iter().copied();
    let mut text = Vec::with_capacity(inner.len());
    while let Some(byte) = bytes.next() {
        text.extend(if byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    text
}

/// What is no encoded byte stays as it is.
fn percent_decoded(value: &[u8]) -> Vec<u8> {
    let digit = |at: usize| value.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        match (value[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            (byte, ..) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headers_value_is_decoded_as_the_binding_says() {
        let cases: [(&[u8], &str); 5] = [
            (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            (b"100%", "100%"),
            (b"%zz%4", "%zz%4"),
            (br#""a \"b\"""#, "a \"b\""),
            (b"\"", "\""),
        ];
        for (given, text) in cases {
            assert_eq!(decoded("ce-id", given).unwrap(), text);
        }
        assert_eq!(decoded("ce-id", b"%ff").unwrap_err().field(), Some("ce-id"));
    }
}
