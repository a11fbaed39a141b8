//! A LINE OA with rules, and what may happen to its users.

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::{Value, json};
use trigger_manager::app::CreateLineOa;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audience::Audience;
use trigger_manager::domain::cycle::Cycle;
use trigger_manager::domain::event::{Event, EventOrigin, EventStatus};
use trigger_manager::domain::id::{AudienceId, EventId, TriggerRuleId, WorkflowId};
use trigger_manager::domain::line::LineOa;
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::domain::scheduled_action::ScheduledAction;
use trigger_manager::domain::trigger_log::TriggerLog;
use trigger_manager::executor::Executor;
use trigger_manager::line::stand_in::StandIn;
use trigger_manager::rules::CompiledRule;
use trigger_manager::sources;
use trigger_manager::store::{audience, cycle, event, rule, scheduled_action, trigger_log};

use crate::app::TestApp;

/// The access token of the LINE OA.
pub const TOKEN: &str = "token-of-the-channel";

/// The user number `number`, as LINE writes it.
pub fn user(number: usize) -> String {
    format!("U{number:032x}")
}

pub struct Place {
    pub t: TestApp,
    pub line: StandIn,
    pub line_oa: LineOa,
}

impl Place {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With these settings over the usual ones.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        let line = StandIn::start([TOKEN]).await.unwrap();
        let base = [("PFY_LINE_API_BASE", line.base_url()), ("PFY_LINE_TIMEOUT", "20s")];
        let settings: Vec<_> = base.into_iter().chain(settings.iter().copied()).collect();
        let t = TestApp::with(&settings).await;
        let line_oa = line_oa(&t, "1").await;
        Self { t, line, line_oa }
    }

    /// An enabled rule that sends "Hi" as often as it happens, on a form of any id.
    pub fn draft(&self) -> TriggerRule {
        let now = self.t.app.now();
        TriggerRule {
            id: TriggerRuleId::new(),
            organization_id: self.line_oa.organization_id,
            line_oa_id: self.line_oa.id,
            name: "Rule".into(),
            description: String::new(),
            source_type: "form_submitted".into(),
            source_config: json!({}),
            source_key: String::new(),
            action_type: "send_message".into(),
            action_config: text("Hi"),
            enabled: true,
            frequency: Frequency::EveryTime,
            cooldown_seconds: 0,
            workflow_id: None,
            workflow_node_path: None,
            evaluated_at: None,
            next_fire_at: None,
            version: 0,
            created_date: now,
            updated_date: now,
            deleted_date: None,
        }
    }

    /// Saves a rule as it is drafted, its configurations understood.
    pub async fn save(&self, draft: TriggerRule) -> TriggerRule {
        let mut draft = draft;
        let compiled = CompiledRule::compile(&draft).unwrap();
        let parts = compiled.parts().unwrap();
        draft.source_config = parts.source.config.clone();
        draft.source_key = parts.source.key.clone();
        draft.action_config = parts.action.config.clone();
        if let Some(timetable) = &parts.source.timetable {
            let now = self.t.app.now();
            let zone = timetable.zone.as_ref().unwrap_or(&self.t.app.zone);
            draft.evaluated_at = Some(now);
            draft.next_fire_at = timetable.schedule.next(zone, now).filter(|_| draft.enabled);
        }
        let tx = self.t.app.store.begin().await.unwrap();
        draft.version = rule::next_version(&tx, draft.line_oa_id).await.unwrap();
        if draft.version > 0 && self.knows(draft.id).await {
            rule::update(&*tx, &draft).await.unwrap();
        } else {
            rule::insert(&*tx, &draft).await.unwrap();
        }
        tx.commit_unaudited().await.unwrap();
        draft
    }

    async fn knows(&self, id: TriggerRuleId) -> bool {
        let found = rule::find_all(self.t.app.store.read(), Scope::Everything, &[id]).await;
        !found.unwrap().is_empty()
    }

    /// Saves a rule on forms with this action.
    pub async fn on_forms(&self, action_type: &str, action_config: Value) -> TriggerRule {
        let action_type = action_type.to_owned();
        self.save(TriggerRule { action_type, action_config, ..self.draft() }).await
    }

    /// An event of this LINE OA that is not stored yet, happening now.
    pub fn event(&self, event_type: &str, user_id: Option<String>, payload: Value) -> Event {
        self.event_at(event_type, user_id, payload, self.t.app.now())
    }

    pub fn event_at(
        &self,
        event_type: &str,
        user_id: Option<String>,
        payload: Value,
        occurred_at: DateTime<Utc>,
    ) -> Event {
        let parsed = sources::find(event_type).unwrap().parse_payload(&payload);
        let id = EventId::new();
        Event {
            id,
            event_id: id.to_string(),
            event_type: event_type.to_owned(),
            line_oa_id: self.line_oa.id,
            organization_id: self.line_oa.organization_id,
            user_id,
            occurred_at,
            subject: parsed.ok().and_then(|parsed| parsed.subject),
            payload,
            origin: EventOrigin::Api,
            status: EventStatus::Pending,
            matched: None,
            error: None,
            received_at: self.t.app.now(),
            processed_at: None,
        }
    }

    /// A form that the user number `number` has sent.
    pub fn form(&self, number: usize) -> Event {
        let payload = json!({"formId": "f", "submissionId": "s", "answers": {"name": "Ada"}});
        self.event("form_submitted", Some(user(number)), payload)
    }

    /// Stores events; answers how many were new.
    pub async fn happens(&self, events: &[Event]) -> usize {
        let tx = self.t.app.store.begin().await.unwrap();
        let stored = event::insert(&*tx, events).await.unwrap();
        tx.commit_unaudited().await.unwrap();
        stored.len()
    }

    /// The user number `number` sends a form, and all that is due is done.
    pub async fn form_sent(&self, number: usize) {
        self.happens(&[self.form(number)]).await;
        self.t.run().await;
    }

    pub async fn another_executor(&self) -> Executor {
        self.t.another_executor().await
    }

    /// The trigger log of rules, oldest first.
    pub async fn logs(&self) -> Vec<TriggerLog> {
        let (filter, page) = (trigger_log::Filter::default(), page());
        let (db, up) = (self.t.app.store.read(), Direction::Ascending);
        let found = trigger_log::list(db, Scope::Everything, &filter, up, &page).await.unwrap();
        found.rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Status and reason of each row of the log, oldest first.
    pub async fn said(&self) -> Vec<(&'static str, Option<String>)> {
        self.logs().await.into_iter().map(|log| (log.status.as_str(), log.reason)).collect()
    }

    /// What rules have queued, oldest first.
    pub async fn actions(&self) -> Vec<ScheduledAction> {
        let (filter, page) = (scheduled_action::Filter::default(), page());
        let (db, up) = (self.t.app.store.read(), Direction::Ascending);
        let found = scheduled_action::list(db, Scope::Everything, &filter, up, &page);
        found.await.unwrap().rows.into_iter().map(|(_, row)| row).collect()
    }

    pub async fn cycles(&self) -> Vec<Cycle> {
        let (filter, page) = (cycle::Filter::default(), page());
        let (db, up) = (self.t.app.store.read(), Direction::Ascending);
        let found = cycle::list(db, Scope::Everything, &filter, up, &page).await.unwrap();
        found.rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The events as they are stored, oldest first.
    pub async fn events(&self) -> Vec<Event> {
        let (filter, page) = (event::Filter::default(), page());
        let (db, up) = (self.t.app.store.read(), Direction::Ascending);
        let found = event::list(db, Scope::Everything, &filter, up, &page).await.unwrap();
        found.rows.into_iter().map(|(_, row)| row).collect()
    }

    /// An audience of the users number 0 to `members` - 1.
    pub async fn audience(&self, members: usize) -> Audience {
        let now = self.t.app.now();
        let made = Audience {
            id: AudienceId::new(),
            line_oa_id: self.line_oa.id,
            organization_id: self.line_oa.organization_id,
            name: format!("Audience of {members}"),
            description: String::new(),
            created_at: now,
            updated_at: now,
        };
        let users: Vec<_> =
            (0..members).map(|number| (made.id, self.line_oa.id, user(number))).collect();
        let tx = self.t.app.store.begin().await.unwrap();
        audience::insert(&*tx, &made).await.unwrap();
        audience::add(&*tx, &users, now).await.unwrap();
        tx.commit_unaudited().await.unwrap();
        made
    }

    /// A workflow of the application.
    pub async fn workflow(&self) -> WorkflowId {
        let new = trigger_manager::app::CreateWorkflow {
            application_id: self.t.application.id,
            name: "Onboarding".into(),
            description: String::new(),
        };
        self.t.app.create_workflow(&self.t.caller, new).await.unwrap().id
    }

    /// What the platform accepted: to whom, and the first message's text.
    pub fn sent(&self) -> Vec<(String, String)> {
        let accepted = self.line.accepted().into_iter();
        accepted.map(|one| (one.to, one.messages[0]["text"].as_str().unwrap().to_owned())).collect()
    }
}

/// Another LINE OA of the project, with the same token.
pub async fn line_oa(t: &TestApp, channel_id: &str) -> LineOa {
    let new = CreateLineOa {
        project_id: t.application.project_id,
        name: "Shop".into(),
        channel_id: channel_id.into(),
        channel_secret: SecretString::from("secret"),
        channel_access_token: SecretString::from(TOKEN),
    };
    t.app.create_line_oa(&t.caller, new).await.unwrap()
}

/// A configuration of `send_message`.
pub fn text(text: &str) -> Value {
    json!({"messages": [{"type": "text", "text": text}]})
}

fn page() -> PageRequest {
    PageRequest { limit: 10_000, ..Default::default() }
}
