//! What a push must look like.

use serde_json::{Map, Value, json};

use crate::domain::line::{MESSAGE_TYPES, user_id};

const MESSAGES: std::ops::RangeInclusive<usize> = 1..=5;
const TEXT_CHARS: usize = 5000;

/// The user and the messages of a push, or the problem that the platform would answer with.
pub(super) fn read(content_type: Option<&str>, body: &[u8]) -> Result<(String, Vec<Value>), Value> {
    let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(problem(&format!("The content type, {media}, is not supported")));
    }
    let Ok(Value::Object(mut push)) = serde_json::from_slice(body) else {
        return Err(problem("The request body could not be parsed as JSON"));
    };
    let Some(to) = push.get("to").and_then(Value::as_str).and_then(|to| user_id("to", to).ok())
    else {
        return Err(problem("The property, 'to', in the request body is invalid"));
    };
    let messages = match push.remove("messages") {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    };
    let mut details = Vec::new();
    if !MESSAGES.contains(&messages.len()) {
        details.push(json!({ "message": "Size must be between 1 and 5", "property": "messages" }));
    }
    for (at, message) in messages.iter().enumerate() {
        if let Some((property, what)) = objection(message) {
            let property = format!("messages[{at}]{property}");
            details.push(json!({ "message": what, "property": property }));
        }
    }
    if details.is_empty() {
        return Ok((to, messages));
    }
    let message = format!("The request body has {} error(s)", details.len());
    Err(json!({ "message": message, "details": details }))
}

/// The property that is wrong with a message, and what is.
fn objection(message: &Value) -> Option<(&'static str, &'static str)> {
    let Value::Object(message) = message else { return Some(("", "Must be an object")) };
    match text(message, "type") {
        "" => Some((".type", "May not be empty")),
        "text" => match text(message, "text").chars().count() {
            0 => Some((".text", "May not be empty")),
            1..=TEXT_CHARS => None,
            _ => Some((".text", "Length must be between 0 and 5000")),
        },
        other if !MESSAGE_TYPES.contains(&other) => Some((".type", "Must be a known type")),
        _ => None,
    }
}

fn text<'a>(message: &'a Map<String, Value>, name: &str) -> &'a str {
    message.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn problem(message: &str) -> Value {
    json!({ "message": message })
}
