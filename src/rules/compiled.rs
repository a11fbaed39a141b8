//! A rule, understood.

use crate::actions::{self, ParsedAction};
use crate::domain::rule::TriggerRule;
use crate::domain::rule::misfit::Misfit;
use crate::domain::rule::template;
use crate::domain::workflow::NODE_PATH_MAX;
use crate::error::Error;
use crate::sources::{self, ParsedSource};

/// What a rule waits for and what it does.
#[derive(Debug)]
pub struct Parts {
    /// What it waits for.
    pub source: ParsedSource,
    /// What it does.
    pub action: ParsedAction,
    /// What it costs to render the action, at the most.
    pub(super) rendering_cost: usize,
}

/// A rule with its configurations understood, or with the reason why they can't be.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule.
    pub rule: TriggerRule,
    parts: Result<Parts, Misfit>,
}

impl CompiledRule {
    /// Understands a rule. Whoever saves one stores `source.config`, `source.key` and
    /// `action.config` of its parts.
    ///
    /// # Errors
    /// The path, such as `sourceConfig.operator`, `actionType` or `workflowId`, of what does not
    /// fit.
    pub fn compile(rule: &TriggerRule) -> Result<Self, Misfit> {
        let parts = parts(rule)?;
        Ok(Self { rule: rule.clone(), parts: Ok(parts) })
    }

    /// The same for a rule that is stored: one that can't be understood, for example as it was
    /// written by a newer version, is kept and answers each event with the reason.
    pub fn stored(rule: &TriggerRule) -> Self {
        Self { rule: rule.clone(), parts: parts(rule) }
    }

    /// What it waits for and what it does.
    ///
    /// # Errors
    /// Why it can't be understood.
    pub fn parts(&self) -> Result<&Parts, &Misfit> {
        self.parts.as_ref()
    }

    /// What of an event must be equal. Of a rule that is not understood: what was stored with it.
    pub fn key(&self) -> &str {
        self.parts.as_ref().map_or(&self.rule.source_key, |parts| &parts.source.key)
    }
}

fn parts(rule: &TriggerRule) -> Result<Parts, Misfit> {
    let source = sources::find(&rule.source_type).map_err(named)?;
    let action = actions::find(&rule.action_type).map_err(named)?;
    let source = source.parse_config(&rule.source_config)?;
    let action = action.parse_config(&rule.action_config)?;
    if action.needs.workflow {
        if rule.workflow_id.is_none() {
            let reason = format!("is required with the action {}", action.action_type);
            return Err(Misfit::new("workflowId", reason));
        }
        let path = rule.workflow_node_path.as_deref().unwrap_or_default();
        if path.is_empty() || path.chars().count() > NODE_PATH_MAX {
            let reason = format!(
                "must be a path of 1 to {NODE_PATH_MAX} characters with the action {}",
                action.action_type
            );
            return Err(Misfit::new("workflowNodePath", reason));
        }
    }
    let rendering_cost = template::cost(&action.config);
    Ok(Parts { source, action, rendering_cost })
}

fn named(error: Error) -> Misfit {
    Misfit::new(error.field().unwrap_or_default().to_owned(), error.to_string())
}
