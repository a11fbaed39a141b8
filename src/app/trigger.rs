//! Making, changing, deleting, running and previewing triggers.

use chrono::{DateTime, Duration, Utc};
use sea_orm::ConnectionTrait;
use serde_json::json;

use super::App;
use super::take_back::refuse_while_taken_back;
use crate::domain::access::Scope;
use crate::domain::application::Application;
use crate::domain::audit::{Caller, Change};
use crate::domain::cron::{CronError, Schedule, Zone};
use crate::domain::fan_out::fan_out;
use crate::domain::id::{ApplicationId, BackendId, OccurrenceId, TriggerId};
use crate::domain::input;
use crate::domain::page::{Direction, Page, PageRequest};
use crate::domain::trigger::{CatchUp, Occurrence, OccurrenceStatus, Origin, Payload, Trigger};
use crate::domain::window;
use crate::error::{Error, Result};
use crate::store::withdrawal::{Kind, Owner};
use crate::store::{Hold, application, executor, trigger};

/// What a new trigger is made of.
#[derive(Debug, Clone)]
pub struct CreateTrigger {
    /// The application it belongs to.
    pub application_id: ApplicationId,
    /// Required, up to 100 characters.
    pub name: String,
    /// Up to 1000 characters.
    pub description: String,
    /// Required, up to 100 characters.
    pub run_key: String,
    /// Six fields, seconds first, or a shorthand.
    pub cron_expression: String,
    /// An IANA zone; none: the server's.
    pub time_zone: Option<String>,
    /// Whether it fires from now on.
    pub enabled: bool,
    /// What happens to what was missed.
    pub catch_up: CatchUp,
}

/// What of a trigger is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateTrigger {
    /// A new name.
    pub name: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// A new run key.
    pub run_key: Option<String>,
    /// A new schedule.
    pub cron_expression: Option<String>,
    /// A new zone; `Some(None)`: the server's.
    pub time_zone: Option<Option<String>>,
    /// On or off.
    pub enabled: Option<bool>,
    /// A new catch-up policy.
    pub catch_up: Option<CatchUp>,
}

/// The most occurrences that a preview answers.
pub const PREVIEW_MAX: usize = 100;

/// What an expression means.
#[derive(Debug, Clone)]
pub struct CronPreview {
    /// In words; none for one that is refused.
    pub description: Option<String>,
    /// The zone it was read in.
    pub time_zone: String,
    /// Its next due times.
    pub occurrences: Vec<PreviewedOccurrence>,
    /// Why saving it would be refused.
    pub error: Option<CronError>,
}

/// A due time, as instant and as the clock on the wall shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedOccurrence {
    /// The instant.
    pub at: DateTime<Utc>,
    /// The wall clock's time, without offset.
    pub local: String,
    /// The offset at that instant.
    pub offset: String,
}

impl App {
    /// Makes a trigger. Unless enabled, it does not fire until it is.
    pub async fn create_trigger(&self, caller: &Caller, new: CreateTrigger) -> Result<Trigger> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let application =
            self.writable_application(&*tx, &caller.actor, new.application_id).await?;
        let mut trigger = Trigger {
            id: TriggerId::new(),
            application_id: application.id,
            name: input::name("name", &new.name)?,
            description: input::description("description", &new.description)?,
            run_key: input::name("runKey", &new.run_key)?,
            cron_expression: new.cron_expression.trim().to_owned(),
            time_zone: new.time_zone,
            enabled: new.enabled,
            catch_up: new.catch_up,
            evaluated_at: now,
            next_fire_at: None,
            created_at: now,
            updated_at: now,
        };
        self.start_window(&mut trigger, now)?;
        trigger::insert(&*tx, &trigger).await?;
        let change = change("trigger.create", &application, trigger.id, None, Some(&trigger))?;
        tx.commit(caller, now, &[change]).await?;
        self.wake.hint();
        Ok(trigger)
    }

    /// Changes a trigger. A new schedule, zone or enabling starts its window now, or where an
    /// executor whose clock is ahead has been: what would have been due before is nobody's.
    /// Disabling, also once more, cancels what is not delivered yet, manual runs included. Of very
    /// much, the rest is cancelled in steps by the executors, which start none of it; until then
    /// enabling is a `CONFLICT`.
    pub async fn update_trigger(
        &self,
        caller: &Caller,
        id: TriggerId,
        update: UpdateTrigger,
    ) -> Result<Trigger> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = trigger::find_held(&tx, caller.actor.scope(), id, Hold::Change).await?;
        let application =
            self.writable_application(&*tx, &caller.actor, before.application_id).await?;
        let disable = update.enabled == Some(false);
        if update.enabled == Some(true) {
            refuse_while_taken_back(&tx, id.0, ("enabled", Kind::Trigger)).await?;
        }
        let mut after = changed(&before, update)?;
        after.updated_at = now;
        let moved = after.cron_expression != before.cron_expression
            || after.time_zone != before.time_zone
            || after.enabled != before.enabled;
        // An executor that can't read a schedule stops it.
        let stopped = after.enabled && before.next_fire_at.is_none();
        if moved || stopped {
            self.start_window(&mut after, window::begin_anew(before.evaluated_at, now))?;
        }
        trigger::update(&*tx, &after).await?;
        let mut change = change("trigger.update", &application, id, Some(&before), Some(&after))?;
        if disable {
            let why = ("trigger_disabled", now);
            let mut back = self.take_back(&tx, owner(&application, id), why);
            back.cancel().await?;
            back.leave_rest(&mut change.after, now).await?;
        }
        tx.commit(caller, now, &[change]).await?;
        self.wake.hint();
        Ok(after)
    }

    /// Deletes a trigger for good. What is not delivered yet is cancelled, as when it is disabled;
    /// the ledger of what was stays until its retention ends.
    pub async fn delete_trigger(&self, caller: &Caller, id: TriggerId) -> Result<Trigger> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let before = trigger::find_held(&tx, caller.actor.scope(), id, Hold::Delete).await?;
        let application =
            self.writable_application(&*tx, &caller.actor, before.application_id).await?;
        let mut back = self.take_back(&tx, owner(&application, id), ("trigger_deleted", now));
        back.cancel().await?;
        trigger::delete(&*tx, id).await?;
        let mut change = change("trigger.delete", &application, id, Some(&before), None)?;
        back.leave_rest(&mut change.before, now).await?;
        tx.commit(caller, now, &[change]).await?;
        self.wake.hint();
        Ok(before)
    }

    /// Makes an occurrence now, beside the schedule, also of a disabled trigger. Its due time has
    /// a fraction of a second, which no scheduled one has. `CONFLICT` while what waited when the trigger
    /// was disabled is still being cancelled.
    pub async fn run_trigger(&self, caller: &Caller, id: TriggerId) -> Result<Occurrence> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let trigger = trigger::find_held(&tx, caller.actor.scope(), id, Hold::Change).await?;
        let application =
            self.writable_application(&*tx, &caller.actor, trigger.application_id).await?;
        refuse_while_taken_back(&tx, id.0, ("id", Kind::Trigger)).await?;
        let backends = self.active_backends(&*tx, trigger.application_id, now).await?;
        let mut occurrence = manual(&trigger, now);
        let policy = self.retry_policy();
        let deliveries = loop {
            let deliveries = fan_out(&mut occurrence, &backends, now, (&policy, 0.0));
            if trigger::insert_occurrence(&*tx, &occurrence).await? {
                break deliveries;
            }
            let next = occurrence.scheduled_at + Duration::milliseconds(1);
            occurrence = Occurrence { scheduled_at: next, ..manual(&trigger, next) };
            occurrence.created_at = now;
        };
        let deliveries: Vec<_> = deliveries.into_iter().map(|new| (new, None)).collect();
        executor::insert_deliveries(&*tx, &deliveries).await?;
        let change = Change {
            after: Some(json!({
                "triggerName": trigger.name,
                "occurrenceId": occurrence.id,
                "scheduledAt": occurrence.payload.executed_at,
                "deliveries": occurrence.deliveries,
            })),
            ..change("trigger.run", &application, id, None, None)?
        };
        tx.commit(caller, now, &[change]).await?;
        self.metrics.queued(application.id, u64::try_from(deliveries.len()).unwrap_or_default());
        self.wake.hint();
        Ok(occurrence)
    }

    /// The trigger of that id.
    pub async fn trigger(&self, scope: Scope, id: TriggerId) -> Result<Trigger> {
        trigger::find(self.store.read(), scope, id).await
    }

    /// The triggers that the scope lets see and `filter` asks for.
    pub async fn triggers(
        &self,
        scope: Scope,
        filter: &trigger::Filter,
        sort: (trigger::Sort, Direction),
        request: &PageRequest,
    ) -> Result<Page<Trigger>> {
        trigger::list(self.store.read(), scope, filter, sort, request).await
    }

    /// What an expression means and when it is due next, or the error that saving it would
    /// give. Refused: a count outside 1 to 100.
    pub fn cron_preview(
        &self,
        expression: &str,
        time_zone: Option<&str>,
        after: Option<DateTime<Utc>>,
        count: usize,
    ) -> Result<CronPreview> {
        if !(1..=PREVIEW_MAX).contains(&count) {
            let reason = format!("count must be from 1 to {PREVIEW_MAX}, it is {count}");
            return Err(Error::invalid("count", reason));
        }
        let zone = time_zone.map_or_else(|| Ok(self.zone.clone()), Zone::parse);
        let parsed = zone.and_then(|zone| Ok((Schedule::parse(expression.trim())?, zone)));
        Ok(match parsed {
            Ok((schedule, zone)) => {
                preview(&schedule, &zone, after.unwrap_or_else(|| self.now()), count)
            }
            Err(error) => CronPreview {
                description: None,
                time_zone: time_zone.unwrap_or(self.zone.name()).to_owned(),
                occurrences: Vec::new(),
                error: Some(error),
            },
        })
    }

    /// The backends of an application that receive triggers at `now`.
    pub(super) async fn active_backends(
        &self,
        db: &impl ConnectionTrait,
        application: ApplicationId,
        now: DateTime<Utc>,
    ) -> Result<Vec<BackendId>> {
        let timeout = self.heartbeat_timeout();
        let backends = application::backends_of(db, &[application]).await?;
        Ok(backends.iter().filter(|b| b.is_active(now, timeout)).map(|b| b.id).collect())
    }

    /// Checks schedule and zone, and lets the trigger's window begin at `now`.
    fn start_window(&self, trigger: &mut Trigger, now: DateTime<Utc>) -> Result<()> {
        let schedule = Schedule::parse(&trigger.cron_expression)?;
        let zone = self.zone_of(trigger.time_zone.as_deref())?;
        trigger.evaluated_at = now;
        trigger.next_fire_at = if trigger.enabled { schedule.next(&zone, now) } else { None };
        Ok(())
    }
}

fn changed(before: &Trigger, update: UpdateTrigger) -> Result<Trigger> {
    let mut after = before.clone();
    if let Some(name) = update.name {
        after.name = input::name("name", &name)?;
    }
    if let Some(description) = update.description {
        after.description = input::description("description", &description)?;
    }
    if let Some(run_key) = update.run_key {
        after.run_key = input::name("runKey", &run_key)?;
    }
    if let Some(expression) = update.cron_expression {
        after.cron_expression = expression.trim().to_owned();
    }
    after.time_zone = update.time_zone.unwrap_or(after.time_zone);
    after.enabled = update.enabled.unwrap_or(after.enabled);
    after.catch_up = update.catch_up.unwrap_or(after.catch_up);
    Ok(after)
}

/// A trigger as the owner of work.
fn owner(of: &Application, id: TriggerId) -> Owner {
    let (project_id, application_id) = (of.project_id, Some(of.id));
    Owner { kind: Kind::Trigger, id: id.0, project_id, application_id }
}

fn manual(trigger: &Trigger, at: DateTime<Utc>) -> Occurrence {
    let whole_second = at.timestamp_subsec_millis() == 0;
    let at = if whole_second { at + Duration::milliseconds(1) } else { at };
    Occurrence {
        id: OccurrenceId::new(),
        trigger_id: trigger.id,
        application_id: trigger.application_id,
        scheduled_at: at,
        until_at: None,
        occurrences: 1,
        origin: Origin::Manual,
        status: OccurrenceStatus::Pending,
        reason: None,
        payload: Payload::new(trigger, at),
        deliveries: 0,
        delivered: 0,
        failed: 0,
        fan_out_attempts: 0,
        next_attempt_at: None,
        created_at: at,
        finished_at: None,
    }
}

fn preview(schedule: &Schedule, zone: &Zone, after: DateTime<Utc>, count: usize) -> CronPreview {
    let mut occurrences = Vec::with_capacity(count);
    let mut last = after;
    while occurrences.len() < count
        && let Some(at) = schedule.next(zone, last)
    {
        let (local, offset) = zone.to_local(at);
        occurrences.push(PreviewedOccurrence { at, local, offset });
        last = at;
    }
    CronPreview {
        description: Some(schedule.describe()),
        time_zone: zone.name().to_owned(),
        occurrences,
        error: None,
    }
}

fn change(
    action: &'static str,
    application: &Application,
    id: TriggerId,
    before: Option<&Trigger>,
    after: Option<&Trigger>,
) -> Result<Change> {
    let json = |trigger: Option<&Trigger>| {
        trigger.map(serde_json::to_value).transpose().map_err(Error::internal)
    };
    Ok(Change {
        action,
        entity_type: "trigger",
        entity_id: id.0,
        project_id: Some(application.project_id),
        application_id: Some(application.id),
        before: json(before)?,
        after: json(after)?,
    })
}
