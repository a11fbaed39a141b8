//! `call_backend`: calls the backends of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Action, Doing, Needs, Preparing, Work, stored};
use crate::domain::id::ApplicationId;
use crate::domain::input::NAME_MAX;
use crate::domain::rule::facts::instant;
use crate::domain::rule::misfit::{Misfit, text};
use crate::domain::rule::template::{check_strings, render_strings};

/// Calls each active backend of an application.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallBackend {
    /// The application.
    #[schemars(with = "uuid::Uuid")]
    application_id: ApplicationId,
    /// Says to the backend what is to be run.
    #[schemars(length(min = 1, max = 100))]
    run_key: String,
    /// Whatever the backend needs. Every text in it is a template.
    #[serde(default)]
    payload: Map<String, Value>,
}

/// What is queued.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    application_id: ApplicationId,
    run_key: String,
    payload: Value,
    rule_name: String,
    executed_at: String,
}

impl Action for CallBackend {
    const TYPE: &'static str = "call_backend";
    const DESCRIPTION: &'static str = "Calls the backends of an application.";
    const NEEDS_USER: bool = false;

    fn check(&self) -> Result<(), Misfit> {
        text("runKey", &self.run_key, NAME_MAX)?;
        check_strings(&json!({ "payload": self.payload }))
    }

    fn needs(&self) -> Needs {
        Needs { application_id: Some(self.application_id), ..Needs::default() }
    }

    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit> {
        let mut rendered = render_strings(&json!({ "payload": self.payload }), firing.facts)?;
        rendered["applicationId"] = json!(self.application_id);
        rendered["runKey"] = json!(self.run_key);
        rendered["ruleName"] = json!(firing.rule.name);
        rendered["executedAt"] = json!(instant(firing.execute_at));
        Ok(rendered)
    }

    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String> {
        let ready: Ready = stored(rendered)?;
        let body = json!({
            "type": Self::TYPE,
            "action_id": work.action_id,
            "rule_id": work.rule_id,
            "rule_name": ready.rule_name,
            "run_key": ready.run_key,
            "line_oa_id": work.line_oa_id,
            "user_id": work.user_id,
            "event_id": work.event_id,
            "executed_at": ready.executed_at,
            "payload": ready.payload,
        });
        Ok(Doing::Backends { application_id: Some(ready.application_id), body })
    }
}
