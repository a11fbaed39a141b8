//! Rules, events and users for tests.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Frequency, TriggerRule};
use crate::domain::event::{Event, EventOrigin, EventStatus};
use crate::domain::id::{EventId, LineOaId, ProjectId, TriggerRuleId};
use crate::domain::line::{FollowState, LineUser};

/// LINE's id of the user of the tests.
pub(crate) const USER: &str = "U0123456789abcdef0123456789abcdef";

/// A second near 15 January 2027, 08:00 UTC.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// An enabled rule that answers each submitted form with a message, as often as it happens.
pub(crate) fn rule() -> TriggerRule {
    let made = at(0);
    TriggerRule {
        id: TriggerRuleId::new(),
        organization_id: ProjectId::new(),
        line_oa_id: LineOaId::new(),
        name: "thanks".to_owned(),
        description: String::new(),
        source_type: "form_submitted".to_owned(),
        source_config: json!({}),
        source_key: String::new(),
        action_type: "send_message".to_owned(),
        action_config: json!({"messages": [{"type": "text", "text": "Thank you"}]}),
        enabled: true,
        frequency: Frequency::EveryTime,
        cooldown_seconds: 0,
        workflow_id: None,
        workflow_node_path: None,
        evaluated_at: None,
        next_fire_at: None,
        version: 1,
        created_date: made,
        updated_date: made,
        deleted_date: None,
    }
}

/// An event of the rule's LINE OA that came in at `at(0)`.
pub(crate) fn event(rule: &TriggerRule, event_type: &str, payload: Value) -> Event {
    Event {
        id: EventId::new(),
        event_id: "event-1".to_owned(),
        event_type: event_type.to_owned(),
        line_oa_id: rule.line_oa_id,
        organization_id: rule.organization_id,
        user_id: Some(USER.to_owned()),
        occurred_at: at(-5),
        payload,
        subject: None,
        origin: EventOrigin::Api,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: at(0),
        processed_at: None,
    }
}

/// The user with these attributes.
pub(crate) fn user(rule: &TriggerRule, attributes: Value) -> LineUser {
    LineUser {
        line_oa_id: rule.line_oa_id,
        organization_id: rule.organization_id,
        user_id: USER.to_owned(),
        follow_state: FollowState::Following,
        attributes: attributes.as_object().unwrap().clone(),
        followed_at: None,
        unfollowed_at: None,
        created_at: at(-100),
        updated_at: at(-100),
    }
}
