//! What people and backends ask for while executors work.

use secrecy::SecretString;
use trigger_manager::app::{App, CreateTrigger, HeartbeatOf, RegisterBackend, UpdateTrigger};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::id::{ApplicationId, BackendId, ScheduledActionId, TriggerId};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::trigger::CatchUp;
use trigger_manager::error::{Error, Result};

use super::calendar::SCHEDULES;
use super::dice::Dice;
use super::rules::{Ground, RuleCall};
use crate::app::{CALLBACK_TOKEN, SIGNING_SECRET};

/// Zones in which the schedules fall due at the same instants.
const ZONES: [Option<&str>; 3] = [None, Some("Asia/Bangkok"), Some("America/New_York")];
const POLICIES: [CatchUp; 3] = [CatchUp::All, CatchUp::Last, CatchUp::None];
const TRIGGERS_MAX: usize = 5;

#[derive(Debug, Clone)]
pub enum Call {
    Create { cron: &'static str, zone: Option<&'static str>, catch_up: CatchUp },
    Reschedule { id: TriggerId, cron: &'static str },
    Move { id: TriggerId, zone: Option<&'static str> },
    Rename { id: TriggerId, catch_up: CatchUp },
    Enable { id: TriggerId, enabled: bool },
    Delete { id: TriggerId },
    Run { id: TriggerId },
    Retry { id: ScheduledActionId },
    Register { number: usize },
    Deregister { id: BackendId },
    Heartbeat { id: BackendId },
    Rules(RuleCall),
}

/// Where calls go.
#[derive(Clone)]
pub struct Door {
    pub application: ApplicationId,
    /// Where the backends are.
    pub base: String,
    pub ground: Ground,
}

impl Call {
    /// Whether a commit of it leaves a row in the audit log in any case.
    pub fn is_audited(&self) -> bool {
        !matches!(self, Self::Heartbeat { .. })
    }

    /// Makes the call.
    pub async fn perform(self, app: &App, caller: &Caller, door: &Door) -> Result<()> {
        let update = |id, update| app.update_trigger(caller, id, update);
        match self {
            Self::Create { cron, zone, catch_up } => {
                let new = CreateTrigger {
                    application_id: door.application,
                    name: "Report".into(),
                    description: String::new(),
                    run_key: "report".into(),
                    cron_expression: cron.into(),
                    time_zone: zone.map(Into::into),
                    enabled: true,
                    catch_up,
                };
                app.create_trigger(caller, new).await.map(drop)
            }
            Self::Reschedule { id, cron } => {
                let cron = Some(cron.to_owned());
                update(id, UpdateTrigger { cron_expression: cron, ..Default::default() })
                    .await
                    .map(drop)
            }
            Self::Move { id, zone } => {
                let zone = Some(zone.map(Into::into));
                update(id, UpdateTrigger { time_zone: zone, ..Default::default() }).await.map(drop)
            }
            Self::Rename { id, catch_up } => {
                let (name, catch_up) = (Some("Renamed".into()), Some(catch_up));
                update(id, UpdateTrigger { name, catch_up, ..Default::default() }).await.map(drop)
            }
            Self::Enable { id, enabled } => {
                let enabled = Some(enabled);
                update(id, UpdateTrigger { enabled, ..Default::default() }).await.map(drop)
            }
            Self::Delete { id } => app.delete_trigger(caller, id).await.map(drop),
            Self::Run { id } => app.run_trigger(caller, id).await.map(drop),
            Self::Retry { id } => app.retry_delivery(caller, id).await.map(drop),
            Self::Register { number } => {
                let new = RegisterBackend {
                    application_id: Some(door.application),
                    name: format!("b{number}"),
                    callback_url: format!("{}/b{number}", door.base),
                    token: Some(SecretString::from(CALLBACK_TOKEN)),
                    signing_secret: Some(SecretString::from(SIGNING_SECRET)),
                    ..Default::default()
                };
                app.register_backend(caller, new).await.map(drop)
            }
            Self::Deregister { id } => app.delete_backend(caller, id).await.map(drop),
            Self::Rules(call) => call.perform(app, caller, door.ground).await,
            Self::Heartbeat { id } => {
                let of = HeartbeatOf { backend_id: Some(id), ..Default::default() };
                app.heartbeat(caller, of).await.map(drop)
            }
        }
    }
}

/// What a call came to: that it was refused is an answer too.
pub fn answered(result: Result<()>) -> Result<(), String> {
    match result {
        Err(error @ (Error::Internal(_) | Error::Busy)) => Err(format!("{error:?}")),
        _ => Ok(()),
    }
}

/// Makes up a trigger.
pub fn trigger(dice: &mut Dice) -> Call {
    let (cron, zone) = (dice.pick(&SCHEDULES).0, dice.pick(&ZONES));
    Call::Create { cron, zone, catch_up: dice.pick(&POLICIES) }
}

/// Makes up a call about what there is.
pub async fn choose(dice: &mut Dice, app: &App) -> Call {
    let (scope, page) = (Scope::Everything, PageRequest { limit: 200, ..Default::default() });
    let sort = (Default::default(), Direction::Ascending);
    let triggers = app.triggers(scope, &Default::default(), sort, &page).await.unwrap();
    let triggers: Vec<_> = triggers.rows.into_iter().map(|(_, row)| row).collect();
    let backends = app.backends(scope, None, None, &page).await.unwrap();
    let backends: Vec<_> = backends.rows.into_iter().map(|(_, row)| row.id).collect();
    let create = trigger(dice);
    let (cron, zone) = (dice.pick(&SCHEDULES).0, dice.pick(&ZONES));
    let catch_up = dice.pick(&POLICIES);
    let roll = dice.below(100);
    if roll < 12 || (triggers.is_empty() && roll < 70) {
        let full = triggers.len() >= TRIGGERS_MAX;
        return if full { Call::Delete { id: dice.pick(&triggers).id } } else { create };
    }
    if roll < 70 {
        let trigger = dice.pick(&triggers);
        let id = trigger.id;
        return match roll {
            ..24 => Call::Reschedule { id, cron },
            24..28 => Call::Move { id, zone },
            28..34 => Call::Rename { id, catch_up },
            34..52 => Call::Enable { id, enabled: !trigger.enabled },
            52..58 => Call::Delete { id },
            _ => Call::Run { id },
        };
    }
    if roll < 78 {
        let statuses = vec![ActionStatus::Failed, ActionStatus::Cancelled];
        let filter = trigger_manager::app::DeliveryFilter { statuses, ..Default::default() };
        let ended = app.deliveries(scope, &filter, Direction::Descending, &page).await.unwrap();
        let ended: Vec<_> = ended.rows.into_iter().map(|(_, row)| row.id).collect();
        return if ended.is_empty() { create } else { Call::Retry { id: dice.pick(&ended) } };
    }
    match roll {
        _ if backends.is_empty() => Call::Register { number: dice.below(2) },
        ..83 => Call::Deregister { id: dice.pick(&backends) },
        83..90 => Call::Register { number: dice.below(2) },
        _ => Call::Heartbeat { id: dice.pick(&backends) },
    }
}
