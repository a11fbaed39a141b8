//! `send_message`: sends LINE messages to the user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Action, Doing, Preparing, Work, stored};
use crate::domain::line::{LineCall, MESSAGE_TYPES};
use crate::domain::rule::misfit::Misfit;
use crate::domain::rule::template::{check_strings, render_strings};

/// The most messages of one call.
const MESSAGES_MAX: usize = 5;

/// Sends messages to the user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendMessage {
    /// 1 to 5 message objects of the LINE Messaging API. Every text in them is a template.
    #[schemars(with = "Vec<Message>", length(min = 1, max = 5))]
    messages: Vec<Map<String, Value>>,
}

/// A message object of the LINE Messaging API.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is there for its schema")]
struct Message {
    /// Its type, such as `text`, `image` or `flex`.
    #[schemars(extend("enum" = MESSAGE_TYPES))]
    r#type: String,
}

impl Action for SendMessage {
    const TYPE: &'static str = "send_message";
    const DESCRIPTION: &'static str = "Sends LINE messages to the user.";
    const NEEDS_USER: bool = true;

    fn check(&self) -> Result<(), Misfit> {
        if self.messages.is_empty() || self.messages.len() > MESSAGES_MAX {
            let reason = format!("must have 1 to {MESSAGES_MAX} messages");
            return Err(Misfit::new("messages", reason));
        }
        for (at, message) in self.messages.iter().enumerate() {
            check_message(message).map_err(|misfit| misfit.below(&format!("messages[{at}]")))?;
        }
        check_strings(&json!({ "messages": self.messages }))
    }

    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit> {
        let rendered = render_strings(&json!({ "messages": self.messages }), firing.facts)?;
        for at in 0..self.messages.len() {
            let message = &rendered["messages"][at];
            let blank = message["text"].as_str().is_some_and(|text| text.trim().is_empty());
            if message["type"] == "text" && blank {
                let path = format!("messages[{at}].text");
                return Err(Misfit::new(path, "is empty once it is rendered"));
            }
        }
        Ok(rendered)
    }

    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String> {
        let ready: Self = stored(rendered)?;
        let messages = ready.messages.into_iter().map(Value::Object).collect();
        Ok(Doing::Line(LineCall::Push { to: work.user()?, messages }))
    }
}

fn check_message(message: &Map<String, Value>) -> Result<(), Misfit> {
    let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
    if !MESSAGE_TYPES.contains(&kind) {
        let known = MESSAGE_TYPES.join(", ");
        return Err(Misfit::new("type", format!("must be the type of a LINE message: {known}")));
    }
    let text = message.get("text").and_then(Value::as_str).map(str::trim);
    if kind == "text" && text.is_none_or(str::is_empty) {
        return Err(Misfit::new("text", "must be a text of 1 to 5000 characters"));
    }
    Ok(())
}
