//! What trigger rules are made of and changed with.

use async_graphql::{ID, InputObject, Json, MaybeUndefined};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::rule::TriggerRuleFrequency;
use crate::app::{CreateTriggerRule, UpdateTriggerRule};
use crate::domain::id::{LineOaId, WorkflowId};
use crate::error::Result;

/// A new trigger rule. The types and the schemas of their configurations stand in `catalog`.
#[derive(InputObject)]
pub struct CreateTriggerRuleInput {
    /// The LINE OA whose events it meets.
    line_oa_id: ID,
    /// The name shown, 1 to 100 characters.
    name: String,
    /// What it is for, up to 1000 characters.
    #[graphql(default)]
    description: String,
    /// What it waits for: a source type of the catalog, for example `form_submitted`.
    source_type: String,
    /// The source's parameters, as the source type's schema says; none: an empty object.
    source_config: Option<Json<Value>>,
    /// What it does: an action type of the catalog, for example `send_message`.
    action_type: String,
    /// The action's parameters, as the action type's schema says; none: an empty object. Work is
    /// rendered when it is queued.
    action_config: Option<Json<Value>>,
    /// Whether it fires from now on.
    #[graphql(default = false)]
    enabled: bool,
    /// How often it may fire for one user.
    #[graphql(default_with = "TriggerRuleFrequency::OncePerHour")]
    frequency: TriggerRuleFrequency,
    /// The shortest time between two firings for one user, 0 to 31622400 (366 days). Of it and the
    /// frequency the longer holds.
    #[graphql(default = 0)]
    cooldown_seconds: i32,
    /// The workflow that it is part of, of the LINE OA's project; `resume_workflow` needs it.
    workflow_id: Option<ID>,
    /// The node of the workflow, 1 to 500 characters; `resume_workflow` needs it.
    workflow_node_path: Option<String>,
}

impl CreateTriggerRuleInput {
    /// The input as the use cases take it.
    pub(super) fn read(self) -> Result<CreateTriggerRule> {
        Ok(CreateTriggerRule {
            line_oa_id: LineOaId::parse(&self.line_oa_id)?,
            name: self.name,
            description: self.description,
            source_type: self.source_type,
            source_config: self.source_config.map_or_else(empty, |Json(config)| config),
            action_type: self.action_type,
            action_config: self.action_config.map_or_else(empty, |Json(config)| config),
            enabled: self.enabled,
            frequency: self.frequency.into(),
            cooldown_seconds: self.cooldown_seconds,
            workflow_id: self.workflow_id.map(workflow),
            workflow_node_path: self.workflow_node_path,
        })
    }
}

/// What of a trigger rule is to change. What is left out or null stays as it is, unless said
/// otherwise.
#[derive(InputObject)]
pub struct UpdateTriggerRuleInput {
    /// A new name, 1 to 100 characters.
    name: Option<String>,
    /// A new description, up to 1000 characters.
    description: Option<String>,
    /// Another source type. It needs a configuration that fits.
    source_type: Option<String>,
    /// A whole new configuration of the source. A new schedule starts now: what would have been due
    /// before is not made up for.
    source_config: Option<Json<Value>>,
    /// Another action type. It needs a configuration that fits.
    action_type: Option<String>,
    /// A whole new configuration of the action. What is queued already stays as it was queued.
    action_config: Option<Json<Value>>,
    /// On or off. Off cancels what is queued and ends the cycles that are being walked, also when it
    /// was off already; on starts now.
    enabled: Option<bool>,
    /// How often it may fire for one user.
    frequency: Option<TriggerRuleFrequency>,
    /// The shortest time between two firings for one user, 0 to 31622400 (366 days).
    cooldown_seconds: Option<i32>,
    /// Another workflow of the LINE OA's project; null: none.
    workflow_id: MaybeUndefined<ID>,
    /// Another node of the workflow, 1 to 500 characters; null: none.
    workflow_node_path: MaybeUndefined<String>,
}

impl From<UpdateTriggerRuleInput> for UpdateTriggerRule {
    fn from(input: UpdateTriggerRuleInput) -> Self {
        Self {
            name: input.name,
            description: input.description,
            source_type: input.source_type,
            source_config: input.source_config.map(|Json(config)| config),
            action_type: input.action_type,
            action_config: input.action_config.map(|Json(config)| config),
            enabled: input.enabled,
            frequency: input.frequency.map(Into::into),
            cooldown_seconds: input.cooldown_seconds,
            workflow_id: Option::from(input.workflow_id.map_value(workflow)),
            workflow_node_path: input.workflow_node_path.into(),
        }
    }
}

fn empty() -> Value {
    Value::Object(Map::new())
}

/// A workflow's id. What is no id becomes one that nothing has, so that it is refused as a workflow
/// that is not there, with the field.
fn workflow(id: ID) -> WorkflowId {
    WorkflowId::parse(&id).unwrap_or(WorkflowId(Uuid::nil()))
}
