//! `resume_workflow`: tells an application to go on with a workflow.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Action, Doing, Needs, Preparing, Work, stored};
use crate::domain::rule::facts::instant;
use crate::domain::rule::misfit::Misfit;

/// Resumes the rule's workflow at the rule's node. The backends get the event's payload.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeWorkflow {}

/// What is queued.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    executed_at: String,
    #[serde(default)]
    payload: Value,
}

impl ResumeWorkflow {
    /// What is queued for a resume that is due at `execute_at`: also for one that no rule asked
    /// for. `payload` reaches the backends as it is.
    pub fn rendered(execute_at: DateTime<Utc>, payload: &Value) -> Value {
        json!({ "executedAt": instant(execute_at), "payload": payload })
    }
}

impl Action for ResumeWorkflow {
    const TYPE: &'static str = "resume_workflow";
    const DESCRIPTION: &'static str =
        "Tells the workflow's application to go on at the rule's node.";
    const NEEDS_USER: bool = false;

    fn needs(&self) -> Needs {
        Needs { workflow: true, ..Needs::default() }
    }

    fn prepare(&self, firing: &Preparing<'_>) -> Result<Value, Misfit> {
        Ok(Self::rendered(firing.execute_at, firing.facts.payload()))
    }

    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String> {
        let ready: Ready = stored(rendered)?;
        let (Some(workflow_id), Some(path)) = (work.workflow_id, &work.workflow_node_path) else {
            return Err("there is no workflow and node to resume".to_owned());
        };
        let body = json!({
            "type": Self::TYPE,
            "action_id": work.action_id,
            "workflow_id": workflow_id,
            "workflow_node_path": path,
            "user_id": work.user_id,
            "line_oa_id": work.line_oa_id,
            "rule_id": work.rule_id,
            "executed_at": ready.executed_at,
            "payload": ready.payload,
        });
        Ok(Doing::Backends { application_id: None, body })
    }
}
