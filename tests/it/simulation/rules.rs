//! Rules, and what happens to users while they change.

use serde_json::{Value, json};
use trigger_manager::app::{
    App, CreateTriggerRule, EventWords, NewEvent, ScheduledActionFilter, UpdateTriggerRule,
};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::id::{
    ApplicationId, AudienceId, LineOaId, ScheduledActionId, TriggerRuleId,
};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::rule::Frequency;
use trigger_manager::error::Result;

use super::calendar::OFTEN;
use super::calls::Call;
use super::dice::Dice;
use crate::rules::place::{text, user};

const RULES_MAX: usize = 5;
/// So few, that their events meet.
const USERS: usize = 3;

/// What rules are about.
#[derive(Debug, Clone, Copy)]
pub struct Ground {
    pub line_oa: LineOaId,
    pub audience: AudienceId,
    pub application: ApplicationId,
}

#[derive(Debug, Clone)]
pub enum RuleCall {
    Create { kind: usize, frequency: Frequency, cooldown_seconds: i32 },
    Enable { id: TriggerRuleId, enabled: bool },
    Rename { id: TriggerRuleId },
    Delete { id: TriggerRuleId },
    Cancel { id: ScheduledActionId },
    Retry { id: ScheduledActionId },
    Events { numbers: Vec<usize> },
}

impl RuleCall {
    pub async fn perform(self, app: &App, caller: &Caller, ground: Ground) -> Result<()> {
        match self {
            Self::Create { kind, frequency, cooldown_seconds } => {
                let (source_type, source_config) = source(kind, ground);
                let (action_type, action_config) = action(kind, ground);
                let new = CreateTriggerRule {
                    line_oa_id: ground.line_oa,
                    name: format!("Rule {kind}"),
                    description: String::new(),
                    source_type,
                    source_config,
                    action_type,
                    action_config,
                    enabled: true,
                    frequency,
                    cooldown_seconds,
                    workflow_id: None,
                    workflow_node_path: None,
                };
                app.create_trigger_rule(caller, new).await.map(drop)
            }
            Self::Enable { id, enabled } => {
                let update = UpdateTriggerRule { enabled: Some(enabled), ..Default::default() };
                app.update_trigger_rule(caller, id, update).await.map(drop)
            }
            Self::Rename { id } => {
                let name = Some("Renamed".to_owned());
                let update = UpdateTriggerRule { name, ..Default::default() };
                app.update_trigger_rule(caller, id, update).await.map(drop)
            }
            Self::Cancel { id } => app.cancel_scheduled_action(caller, id).await.map(drop),
            Self::Retry { id } => app.retry_scheduled_action(caller, id).await.map(drop),
            Self::Delete { id } => app.delete_trigger_rule(caller, id).await.map(drop),
            Self::Events { numbers } => {
                let events = numbers.into_iter().map(|number| event(number, ground)).collect();
                let received = app.receive_events(caller, events, &EventWords::OURS).await;
                received.map(drop).map_err(|refused| refused.error)
            }
        }
    }
}

/// The event of that number: the same, whoever tells of it.
fn event(number: usize, ground: Ground) -> NewEvent {
    NewEvent {
        event_id: Some(format!("event {number}")),
        event_type: Some("form_submitted".into()),
        line_oa_id: Some(ground.line_oa.to_string()),
        user_id: Some(user(number % USERS)),
        occurred_at: None,
        payload: Some(json!({"formId": "f", "submissionId": number, "answers": {}})),
    }
}

fn source(kind: usize, ground: Ground) -> (String, Value) {
    match kind {
        0 => {
            let config = json!({"cronExpression": OFTEN.0, "audienceId": ground.audience});
            ("schedule".into(), config)
        }
        _ => ("form_submitted".into(), json!({})),
    }
}

fn action(kind: usize, ground: Ground) -> (String, Value) {
    let mut message = text("Hi");
    match kind {
        1 => {
            message["delay"] = json!("15s");
            message["expiresAfter"] = json!("20s");
        }
        2 => {
            let config =
                json!({"applicationId": ground.application, "runKey": "rule", "payload": {}});
            return ("call_backend".into(), config);
        }
        _ => {}
    }
    ("send_message".into(), message)
}

/// Makes up a rule.
pub fn rule(dice: &mut Dice) -> RuleCall {
    let (frequency, cooldown_seconds) = dice.pick(&[
        (Frequency::EveryTime, 0),
        (Frequency::EveryTime, 10),
        (Frequency::EveryTime, 30),
        (Frequency::Once, 0),
    ]);
    RuleCall::Create { kind: dice.below(4), frequency, cooldown_seconds }
}

/// What people do about work.
enum Wish {
    Cancel,
    Retry,
    /// Whatever has become of it.
    RetryBlindly,
}

/// Makes up a call about work that there is.
async fn about_work(dice: &mut Dice, app: &App, wish: Wish) -> Option<RuleCall> {
    let statuses = match wish {
        Wish::Cancel if dice.chance(500) => vec![ActionStatus::Processing],
        Wish::Cancel => vec![ActionStatus::Pending, ActionStatus::Processing],
        Wish::Retry => vec![ActionStatus::Failed, ActionStatus::Cancelled, ActionStatus::Expired],
        Wish::RetryBlindly => Vec::new(),
    };
    let filter = ScheduledActionFilter { statuses, ..Default::default() };
    let page = PageRequest { limit: 20, ..Default::default() };
    let found = app.scheduled_actions(Scope::Everything, &filter, Direction::Descending, &page);
    let found: Vec<_> = found.await.unwrap().rows.into_iter().map(|(_, row)| row.id).collect();
    if found.is_empty() {
        return None;
    }
    let id = dice.pick(&found);
    Some(if matches!(wish, Wish::Cancel) {
        RuleCall::Cancel { id }
    } else {
        RuleCall::Retry { id }
    })
}

/// Makes up a retry: of what was taken back `before`, or on a new day of what there is.
pub async fn retry(
    dice: &mut Dice,
    app: &App,
    (before, new_day): (Option<&Call>, bool),
) -> Option<RuleCall> {
    match before {
        Some(Call::Rules(RuleCall::Cancel { id })) if dice.chance(500) => {
            Some(RuleCall::Retry { id: *id })
        }
        _ if new_day => about_work(dice, app, Wish::Retry).await,
        _ => None,
    }
}

/// Makes up a call about what there is. `told` is how many events were told of so far.
pub async fn choose(dice: &mut Dice, app: &App, told: &mut usize) -> RuleCall {
    let wish = match dice.below(100) {
        ..12 => Some(Wish::Retry),
        12..15 => Some(Wish::RetryBlindly),
        15..22 => Some(Wish::Cancel),
        _ => None,
    };
    if let Some(wish) = wish
        && let Some(call) = about_work(dice, app, wish).await
    {
        return call;
    }
    let page = PageRequest { limit: 200, ..Default::default() };
    let (all, sort) = (Scope::Everything, (Default::default(), Direction::Ascending));
    let rules = app.trigger_rules(all, &Default::default(), sort, &page).await.unwrap();
    let rules: Vec<_> = rules.rows.into_iter().map(|(_, row)| row).collect();
    let roll = dice.below(100);
    if roll < 8 && rules.len() < RULES_MAX || rules.is_empty() {
        return rule(dice);
    }
    let one = dice.pick(&rules);
    match roll {
        ..24 => RuleCall::Enable { id: one.id, enabled: !one.enabled },
        24..28 => RuleCall::Delete { id: one.id },
        28..33 => RuleCall::Rename { id: one.id },
        _ => {
            let numbers = (0..dice.range(1, 3)).map(|_| match dice.chance(700) {
                true => {
                    *told += 1;
                    *told
                }
                false => dice.below(*told + 1),
            });
            RuleCall::Events { numbers: numbers.collect() }
        }
    }
}
