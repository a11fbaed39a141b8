//! What trigger rules leave behind: a rule, an event, a cycle, queued work and its log.

use chrono::Duration;
use serde_json::json;
use trigger_manager::domain::cycle::{Cycle, CycleStatus};
use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::event::{Event, EventOrigin, EventStatus};
use trigger_manager::domain::id::{CycleId, EventId, LineOaId, ScheduledActionId, TriggerRuleId};
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::domain::scheduled_action::{ActionConfig, Cause, Concern, ScheduledAction};
use trigger_manager::store::event::Processed;
use trigger_manager::store::executor::{self, Claim, Finished, Lease};
use trigger_manager::store::log::{self, NewLog};
use trigger_manager::store::{cycle, event, rule, scheduled_action};
use uuid::Uuid;

use super::{LINE_USER, Served};

/// Runs `$body` with `$tx` bound to a transaction, commits it, and answers what the body does.
macro_rules! within {
    ($served:expr, |$tx:ident| $body:expr) => {{
        let $tx = $served.test.app.store.begin().await.unwrap();
        let answer = $body.await.unwrap();
        $tx.commit_unaudited().await.unwrap();
        answer
    }};
}
pub(crate) use within;

impl Served {
    fn of<T: From<Uuid>>(&self, name: &str) -> T {
        self.id(name).parse::<Uuid>().unwrap().into()
    }

    /// A rule, an event, a cycle, work for the application's backends that waits and that was
    /// cancelled, and a row of the log about each.
    pub(super) async fn rules(&mut self) {
        let rule = self.new_rule();
        within!(self, |tx| rule::insert(&*tx, &rule));
        self.ids.insert("rule", rule.id.to_string());
        let event = self.new_event("first");
        self.ids.insert("event", event.id.to_string());
        self.store_event(&event).await;
        let cycle = self.new_cycle();
        self.ids.insert("execution", cycle.id.to_string());
        within!(self, |tx| cycle::insert(&*tx, &cycle));
        let (waiting, cancelled) = (self.new_call(), self.new_call());
        self.ids.insert("waitingAction", waiting.id.to_string());
        self.ids.insert("cancelledAction", cancelled.id.to_string());
        self.queue(&[&waiting, &cancelled]).await;
        self.end(&cancelled, ActionStatus::Cancelled).await;
        for action in [&waiting, &cancelled] {
            self.log(&[self.new_log(action)]).await;
        }
    }

    /// A rule of the LINE OA that is off.
    pub fn new_rule(&self) -> TriggerRule {
        let now = self.test.app.now();
        TriggerRule {
            id: TriggerRuleId::new(),
            organization_id: self.of("project"),
            line_oa_id: self.of("lineOa"),
            name: "Greets who answers".into(),
            description: String::new(),
            source_type: "form_submitted".into(),
            source_config: json!({}),
            source_key: String::new(),
            action_type: "call_backend".into(),
            action_config: json!({}),
            enabled: false,
            frequency: Frequency::OncePerHour,
            cooldown_seconds: 0,
            workflow_id: None,
            workflow_node_path: None,
            evaluated_at: None,
            next_fire_at: None,
            version: 1,
            created_date: now,
            updated_date: now,
            deleted_date: None,
        }
    }

    /// An event of the LINE OA about its user.
    pub fn new_event(&self, event_id: &str) -> Event {
        let now = self.test.app.now();
        Event {
            id: EventId::new(),
            event_id: event_id.into(),
            event_type: "form_submitted".into(),
            line_oa_id: self.of("lineOa"),
            organization_id: self.of("project"),
            user_id: Some(LINE_USER.into()),
            occurred_at: now,
            payload: json!({ "formId": "f" }),
            subject: None,
            origin: EventOrigin::Api,
            status: EventStatus::Pending,
            matched: None,
            error: None,
            received_at: now,
            processed_at: None,
        }
    }

    /// Stores an event as evaluated, and accepted by one rule.
    pub async fn store_event(&self, event: &Event) {
        let done = [Processed { id: event.id, matched: 1, error: None }];
        within!(self, |tx| event::insert(&*tx, std::slice::from_ref(event)));
        within!(self, |tx| event::processed(&*tx, &done, event.received_at));
    }

    /// A cycle of the rule that has ended.
    pub fn new_cycle(&self) -> Cycle {
        let now = self.test.app.now();
        Cycle {
            id: CycleId::new(),
            trigger_rule_id: self.of("rule"),
            line_oa_id: self.of("lineOa"),
            organization_id: self.of("project"),
            audience_id: self.of("audience"),
            scheduled_at: now,
            started_at: now,
            completed_at: Some(now),
            status: CycleStatus::Completed,
            total_users: 3,
            processed_users: 3,
            failed_users: 1,
            cursor: None,
            error_message: None,
        }
    }

    /// A call of the application's backends that the rule queued because of the event, due in a day.
    pub fn new_call(&self) -> ScheduledAction {
        let application = self.of::<Uuid>("application");
        let mut call = self.new_push();
        call.action_type = "call_backend".into();
        call.cause.workflow_id = Some(self.of("workflow"));
        call.concern.application_id = Some(application.into());
        call.lane = application;
        call
    }

    /// A message to the LINE OA's user that the rule queued because of the event, due in a day.
    pub fn new_push(&self) -> ScheduledAction {
        let (now, line_oa) = (self.test.app.now(), self.of::<LineOaId>("lineOa"));
        ScheduledAction {
            id: ScheduledActionId::new(),
            parent_id: None,
            action_type: "send_message".into(),
            config: ActionConfig::Rendered(json!({ "text": "hello" })),
            cause: Cause {
                trigger_rule_id: Some(self.of("rule")),
                source_type: Some("form_submitted".into()),
                source_config: Some(json!({ "formId": "f" })),
                event_id: Some(self.of("event")),
                ..Cause::default()
            },
            concern: Concern {
                organization_id: Some(self.of("project")),
                line_oa_id: Some(line_oa),
                user_id: Some(LINE_USER.into()),
                ..Concern::default()
            },
            lane: line_oa.0,
            status: ActionStatus::Pending,
            retry_count: 0,
            attempts_before: 0,
            execute_at: now + Duration::days(1),
            expires_at: Some(now + Duration::days(2)),
            executed_at: None,
            last_error: None,
            created_at: now,
            updated_at: now,
        }
    }

    pub async fn queue(&self, actions: &[&ScheduledAction]) {
        let new: Vec<_> = actions.iter().map(|action| ((*action).clone(), None)).collect();
        within!(self, |tx| scheduled_action::insert(&*tx, &new));
    }

    /// Brings queued work into a state, as an executor would, which finds nothing else due then.
    pub async fn end(&self, action: &ScheduledAction, status: ActionStatus) {
        let now = self.test.app.now();
        if status == ActionStatus::Cancelled {
            within!(self, |tx| scheduled_action::cancel(&*tx, action.id, "rule_disabled", now));
            return;
        }
        if status == ActionStatus::Pending {
            return;
        }
        let lease = Lease { token: Uuid::new_v4(), until: now + Duration::seconds(30) };
        let (limit, start_after) = (100, Uuid::nil());
        let (per_lane, without): (u64, &[Uuid]) = (100, &[]);
        let at = action.execute_at;
        let claim = Claim { now: at, lease, limit, per_lane, start_after, without };
        let claimed = executor::claim(&self.test.app.store, claim).await.unwrap();
        assert_eq!(claimed.iter().map(|one| one.action.id).collect::<Vec<_>>(), [action.id]);
        if status == ActionStatus::Processing {
            return;
        }
        let finished = Finished {
            id: action.id,
            lease_token: claimed[0].lease.token,
            status,
            execute_at: at,
            executed_at: Some(now),
            retry_count: 1,
            last_error: (status != ActionStatus::Completed).then(|| "it failed".to_owned()),
        };
        within!(self, |tx| executor::finish(&*tx, std::slice::from_ref(&finished), now));
    }

    /// A row that says that `action` was queued.
    pub fn new_log<'a>(&self, action: &'a ScheduledAction) -> NewLog<'a> {
        NewLog {
            trigger_on: "form_submitted",
            trigger_rule_id: action.cause.trigger_rule_id.map(Into::into),
            user_id: action.concern.user_id.as_deref(),
            action_type: Some(&action.action_type),
            status: "queued",
            scheduled_action_id: Some(action.id.0),
            event_id: action.cause.event_id.map(Into::into),
            application_id: action.concern.application_id.map(Into::into),
            organization_id: action.concern.organization_id.map(Into::into),
            line_oa_id: action.concern.line_oa_id.map(Into::into),
            created_date: self.test.app.now(),
            ..NewLog::default()
        }
    }

    pub async fn log(&self, logs: &[NewLog<'_>]) {
        within!(self, |tx| log::insert_logs(&*tx, logs));
    }
}
