//! What a rule must look like to be saved.

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;

use super::{CreateTriggerRule, UpdateTriggerRule};
use crate::actions;
use crate::app::App;
use crate::domain::access::Scope;
use crate::domain::id::TriggerRuleId;
use crate::domain::input;
use crate::domain::line::LineOa;
use crate::domain::rule::misfit::{Misfit, text};
use crate::domain::rule::{COOLDOWN_MAX, TriggerRule};
use crate::domain::workflow::NODE_PATH_MAX;
use crate::error::{Error, Result};
use crate::rules::{CompiledRule, Parts};
use crate::sources::{self, Timetable};
use crate::store::{application, audience, workflow};

impl App {
    /// A new rule, checked and not saved, its window begun at `now`.
    pub(super) async fn draft(
        &self,
        db: &impl ConnectionTrait,
        line_oa: &LineOa,
        new: CreateTriggerRule,
        now: DateTime<Utc>,
    ) -> Result<TriggerRule> {
        let mut rule = TriggerRule {
            id: TriggerRuleId::new(),
            organization_id: line_oa.organization_id,
            line_oa_id: line_oa.id,
            name: input::name("name", &new.name)?,
            description: input::description("description", &new.description)?,
            source_type: new.source_type,
            source_config: new.source_config,
            source_key: String::new(),
            action_type: new.action_type,
            action_config: new.action_config,
            enabled: new.enabled,
            frequency: new.frequency,
            cooldown_seconds: cooldown(new.cooldown_seconds)?,
            workflow_id: new.workflow_id,
            workflow_node_path: new.workflow_node_path,
            evaluated_at: None,
            next_fire_at: None,
            version: 0,
            created_date: now,
            updated_date: now,
            deleted_date: None,
        };
        let timetable = understand(db, &mut rule).await?;
        self.start_rule_window(&mut rule, timetable.as_ref(), now);
        Ok(rule)
    }

    /// A rule as an update leaves it, checked where the update concerns it.
    pub(super) async fn changed(
        &self,
        db: &impl ConnectionTrait,
        before: &TriggerRule,
        update: UpdateTriggerRule,
    ) -> Result<TriggerRule> {
        let concerns_parts = update.concerns_parts();
        let mut after = before.clone();
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(description) = update.description {
            after.description = input::description("description", &description)?;
        }
        if let Some(seconds) = update.cooldown_seconds {
            after.cooldown_seconds = cooldown(seconds)?;
        }
        after.source_type = update.source_type.unwrap_or(after.source_type);
        after.source_config = update.source_config.unwrap_or(after.source_config);
        after.action_type = update.action_type.unwrap_or(after.action_type);
        after.action_config = update.action_config.unwrap_or(after.action_config);
        after.enabled = update.enabled.unwrap_or(after.enabled);
        after.frequency = update.frequency.unwrap_or(after.frequency);
        after.workflow_id = update.workflow_id.unwrap_or(after.workflow_id);
        after.workflow_node_path = update.workflow_node_path.unwrap_or(after.workflow_node_path);
        if concerns_parts {
            understand(db, &mut after).await?;
        }
        Ok(after)
    }
}

/// Understands a rule, checks what it refers to, and writes its configurations as they are to be
/// stored. Answers when it is due, if it is time-based.
async fn understand(
    db: &impl ConnectionTrait,
    rule: &mut TriggerRule,
) -> Result<Option<Timetable>> {
    // These two have codes of their own.
    sources::find(&rule.source_type)?;
    actions::find(&rule.action_type)?;
    if let Some(path) = &rule.workflow_node_path {
        text("workflowNodePath", path, NODE_PATH_MAX)?;
        if rule.workflow_id.is_none() {
            let reason = "workflowNodePath must be left out where there is no workflowId";
            return Err(Error::invalid("workflowNodePath", reason));
        }
    }
    let compiled = CompiledRule::compile(rule)?;
    let parts = compiled.parts().map_err(Misfit::clone)?;
    references(db, rule, parts).await?;
    rule.source_config = parts.source.config.clone();
    rule.source_key = parts.source.key.clone();
    rule.action_config = parts.action.config.clone();
    Ok(parts.source.timetable.clone())
}

fn cooldown(seconds: i32) -> Result<i32> {
    if (0..=COOLDOWN_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    let reason = format!("cooldownSeconds must be from 0 to {COOLDOWN_MAX}, it is {seconds}");
    Err(Error::invalid("cooldownSeconds", reason))
}

/// Whether all that a rule refers to is of its LINE OA and its project. What is of others is like
/// what is not there.
async fn references(db: &impl ConnectionTrait, rule: &TriggerRule, parts: &Parts) -> Result<()> {
    let timetable = parts.source.timetable.as_ref();
    let audiences = [
        ("sourceConfig.audienceId", timetable.map(|timetable| timetable.audience_id)),
        ("actionConfig.audienceId", parts.action.needs.audience_id),
    ];
    for (field, id) in audiences {
        let Some(id) = id else { continue };
        let found = known(audience::find(db, Scope::Everything, id).await)?;
        if found.is_none_or(|found| found.line_oa_id != rule.line_oa_id) {
            return Err(foreign(field, "an audience of the rule's LINE OA"));
        }
    }
    if let Some(id) = parts.action.needs.application_id {
        let found = known(application::find(db, Scope::Everything, id).await)?;
        if found.is_none_or(|found| found.project_id != rule.organization_id) {
            let what = "an application of the LINE OA's project";
            return Err(foreign("actionConfig.applicationId", what));
        }
    }
    if let Some(id) = rule.workflow_id {
        let found = known(workflow::find(db, Scope::Everything, id).await)?;
        if found.is_none_or(|found| found.organization_id != rule.organization_id) {
            return Err(foreign("workflowId", "a workflow of the LINE OA's project"));
        }
    }
    Ok(())
}

fn known<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn foreign(field: &'static str, what: &str) -> Error {
    Error::invalid_code(
        "NOT_FOUND",
        field,
        format!("{field} must be {what}; there is none of this id"),
    )
}
