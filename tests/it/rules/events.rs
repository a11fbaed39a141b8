//! Events meet rules.

use serde_json::{Value, json};
use trigger_manager::domain::event::EventStatus;
use trigger_manager::domain::rule::{Frequency, TriggerRule};

use trigger_manager::store::Engine;

use super::place::{Place, line_oa, text, user};
use crate::store_contract::world::execute;

#[tokio::test]
async fn a_matching_event_sends_the_message_and_says_so() {
    let p = Place::new().await;
    let greeting = text("Hello {{ event.payload.answers.name }}, {{ user.attributes.tier }}!");
    let rule = p.on_forms("send_message", greeting).await;
    p.form_sent(1).await;
    assert_eq!(p.sent(), [(user(1), "Hello Ada, !".to_owned())]);
    let logs = p.logs().await;
    assert_eq!(p.said().await, [("queued", None), ("success", None)]);
    for log in &logs {
        assert_eq!(log.trigger_rule_id, Some(rule.id));
        assert_eq!(log.trigger_on, "form_submitted");
        assert_eq!(log.user_id, Some(user(1)));
        let stored: &Value = &log.action_config.as_ref().unwrap()["messages"][0]["text"];
        assert_eq!(stored, "Hello Ada, !", "the action as it was");
    }
    assert!(logs[1].platform_request_id.is_some(), "{:?}", logs[1]);
    let event = p.events().await.remove(0);
    assert_eq!((event.status, event.matched), (EventStatus::Processed, Some(1)));
}

#[tokio::test]
async fn a_message_knows_the_attributes_of_its_user_and_of_no_other() {
    let p = Place::new().await;
    for (number, tier) in [(1, "gold"), (2, "blue")] {
        let (whom, tier) = (user(number), serde_json::json!({ "tier": tier }));
        let set = p.t.app.set_line_user_attributes(&p.t.caller, (p.line_oa.id, &whom), tier);
        set.await.unwrap();
    }
    p.on_forms("send_message", text("{{ user.attributes.tier }}")).await;
    p.form_sent(1).await;
    p.form_sent(2).await;
    assert_eq!(p.sent(), [(user(1), "gold".to_owned()), (user(2), "blue".to_owned())]);
}

#[tokio::test]
async fn the_same_event_id_again_does_nothing() {
    let p = Place::new().await;
    p.on_forms("send_message", text("Hi")).await;
    let event = p.form(1);
    assert_eq!(p.happens(&[event.clone(), event.clone()]).await, 1);
    p.t.run().await;
    let again = trigger_manager::domain::event::Event {
        id: trigger_manager::domain::id::EventId::new(),
        ..event
    };
    assert_eq!(p.happens(&[again]).await, 0);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn the_same_id_of_another_line_oa_is_another_event() {
    let p = Place::new().await;
    let other = line_oa(&p.t, "2").await;
    let event = p.form(1);
    let mut elsewhere = event.clone();
    elsewhere.id = trigger_manager::domain::id::EventId::new();
    elsewhere.line_oa_id = other.id;
    assert_eq!(p.happens(&[event, elsewhere]).await, 2);
}

#[tokio::test]
async fn an_event_meets_the_rules_of_its_own_line_oa_only() {
    let p = Place::new().await;
    let other = line_oa(&p.t, "2").await;
    p.save(TriggerRule { line_oa_id: other.id, ..p.draft() }).await;
    p.form_sent(1).await;
    assert_eq!(p.sent(), []);
    assert_eq!(p.said().await, []);
}

#[tokio::test]
async fn a_rule_that_waits_for_something_else_is_not_looked_at() {
    let p = Place::new().await;
    p.save(TriggerRule { source_config: json!({"formId": "other"}), ..p.draft() }).await;
    p.form_sent(1).await;
    assert_eq!(p.said().await, [], "the index leaves it out");
    assert_eq!(p.events().await[0].matched, Some(0));
}

#[tokio::test]
async fn a_condition_that_is_false_holds_back_and_says_so() {
    let p = Place::new().await;
    let condition = json!({"condition": "event.payload.answers.name == 'Bob'"});
    p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    p.form_sent(1).await;
    assert_eq!(p.sent(), []);
    assert_eq!(p.said().await, [("held_back", Some("condition".to_owned()))]);
}

#[tokio::test]
async fn evaluations_that_did_not_match_leave_no_row_when_that_is_switched_off() {
    let p = Place::with(&[("PFY_RULES_LOG_UNMATCHED", "false")]).await;
    let condition = json!({"condition": "false"});
    p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    p.form_sent(1).await;
    assert_eq!(p.said().await, []);
}

#[tokio::test]
async fn what_is_held_back_for_another_reason_leaves_its_row_all_the_same() {
    let p = Place::with(&[("PFY_RULES_LOG_UNMATCHED", "false")]).await;
    p.save(TriggerRule { frequency: Frequency::Once, ..p.draft() }).await;
    p.form_sent(1).await;
    p.form_sent(1).await;
    assert_eq!(p.said().await.pop().unwrap(), ("held_back", Some("frequency".to_owned())));
}

#[tokio::test]
async fn a_disabled_or_deleted_rule_is_not_met() {
    let p = Place::new().await;
    let rule = p.save(p.draft()).await;
    p.form_sent(1).await;
    assert_eq!(p.sent().len(), 1);
    let rule = p.save(TriggerRule { enabled: false, ..rule }).await;
    p.form_sent(2).await;
    assert_eq!(p.sent().len(), 1, "the executor had the rule in memory");
    p.save(TriggerRule { enabled: true, deleted_date: Some(p.t.app.now()), ..rule }).await;
    p.form_sent(3).await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn an_edit_counts_from_the_next_event_on() {
    let p = Place::new().await;
    let rule = p.save(p.draft()).await;
    p.form_sent(1).await;
    p.save(TriggerRule { action_config: text("Bye"), ..rule }).await;
    p.form_sent(2).await;
    assert_eq!(p.sent(), [(user(1), "Hi".to_owned()), (user(2), "Bye".to_owned())]);
}

#[tokio::test]
async fn an_event_without_a_user_can_not_send_a_message_and_says_so() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    let event = trigger_manager::domain::event::Event { user_id: None, ..p.form(1) };
    p.happens(&[event]).await;
    p.t.run().await;
    assert_eq!(p.said().await, [("failed", Some("no_user".to_owned()))]);
}

#[tokio::test]
async fn an_event_whose_payload_can_not_be_read_has_failed_and_does_not_hold_up_others() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    let mut odd = p.form(1);
    odd.payload = json!([]);
    p.happens(&[odd, p.form(2)]).await;
    p.t.run().await;
    let events = p.events().await;
    assert_eq!(events[0].status, EventStatus::Failed);
    assert!(events[0].error.as_deref().unwrap().contains("payload"), "{:?}", events[0].error);
    assert_eq!(events[1].status, EventStatus::Processed);
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn each_rule_that_matches_fires_and_each_by_its_own_rate() {
    let p = Place::new().await;
    p.save(p.draft()).await;
    let once = Frequency::Once;
    p.save(TriggerRule { frequency: once, action_config: text("Once"), ..p.draft() }).await;
    p.form_sent(1).await;
    p.form_sent(1).await;
    let mut texts: Vec<_> = p.sent().into_iter().map(|(_, text)| text).collect();
    texts.sort();
    assert_eq!(texts, ["Hi", "Hi", "Once"]);
}

#[tokio::test]
async fn an_event_that_can_not_be_evaluated_is_recorded_as_failed_and_the_others_go_on() {
    let p = Place::new().await;
    p.save(TriggerRule { frequency: Frequency::Once, ..p.draft() }).await;
    let refused = user(7);
    for statement in refusing(p.t.app.store.engine(), &refused) {
        execute(&p.t.app.store, &statement).await;
    }
    let events: Vec<_> = (0..20).map(|number| p.form(number)).collect();
    p.happens(&events).await;
    let mut failures = 0;
    while p.events().await.iter().any(|event| event.status == EventStatus::Pending) {
        failures += usize::from(p.t.executor.take_events(p.t.app.now()).await.is_err());
        assert!(failures < 100, "it is tried for ever");
    }
    p.t.run().await;
    let events = p.events().await;
    let failed: Vec<_> =
        events.iter().filter(|event| event.status == EventStatus::Failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].user_id.as_deref(), Some(refused.as_str()));
    assert!(failed[0].error.is_some());
    assert_eq!(p.sent().len(), 19);
    execute(&p.t.app.store, refusing_no_more(p.t.app.store.engine())).await;
    p.form_sent(7).await;
    assert_eq!(p.sent().len(), 20, "what failed used up nothing");
}

#[tokio::test]
async fn no_event_has_failed_because_the_database_was_full() {
    let p = Place::new().await;
    p.on_forms("send_message", text(&"x".repeat(4_900))).await;
    let events: Vec<_> = (0..5).map(|number| p.form(number)).collect();
    p.happens(&events).await;
    let (fill, empty) = filling(p.t.app.store.engine());
    execute(&p.t.app.store, fill).await;
    for _ in 0..40 {
        let error = p.t.executor.take_events(p.t.app.now()).await.unwrap_err();
        assert_eq!(error.code(), "BUSY", "{error:?}");
    }
    assert!(p.events().await.iter().all(|event| event.status == EventStatus::Pending));
    execute(&p.t.app.store, empty).await;
    p.t.run().await;
    assert_eq!(p.sent().len(), 5);
}

#[tokio::test]
async fn after_a_failure_a_batch_is_half_as_large_and_after_a_success_whole_again() {
    let p = Place::with(&[("PFY_RULES_LOG_UNMATCHED", "false")]).await;
    let refused = user(7);
    let condition = json!({"condition": format!("user.id == '{refused}'")});
    p.save(TriggerRule { source_config: condition, ..p.draft() }).await;
    let engine = p.t.app.store.engine();
    let now = p.t.app.now();
    let fails = async |more: usize| {
        for statement in refusing(engine, &refused) {
            execute(&p.t.app.store, &statement).await;
        }
        let events: Vec<_> = (0..more).map(|number| p.form(number)).collect();
        p.happens(&events).await;
        p.t.executor.take_events(now).await.unwrap_err();
        execute(&p.t.app.store, refusing_no_more(engine)).await;
    };
    let take = async || p.t.executor.take_events(now).await.unwrap().events;
    fails(1500).await;
    assert!(p.events().await.iter().all(|event| event.status == EventStatus::Pending));
    assert_eq!([take().await, take().await], [250, 500]);
    // Those that wait behind a whole batch are evaluated beside each other where that is possible.
    assert_eq!(take().await, if engine == Engine::Sqlite { 500 } else { 750 });
    fails(1000).await;
    assert_eq!(take().await, 250, "and no other beside it");
}

/// What fills the database, and what makes room again.
fn filling(engine: Engine) -> (&'static str, &'static str) {
    match engine {
        Engine::Sqlite => ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"),
        Engine::Postgres => (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN RAISE EXCEPTION ''full'' USING ERRCODE = ''disk_full''; END';
            CREATE TRIGGER refusing BEFORE INSERT ON scheduled_action
                FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER refusing ON scheduled_action",
        ),
    }
}

/// What ends [`refusing`].
pub fn refusing_no_more(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "DROP TRIGGER refusing",
        Engine::Postgres => "DROP TRIGGER refusing ON scheduled_action; DROP FUNCTION refuse()",
    }
}

/// Statements after which the database takes no work for `user`.
pub fn refusing(engine: Engine, user: &str) -> Vec<String> {
    refusing_where(engine, &format!("NEW.user_id = '{user}'"))
}

/// Statements after which the database takes no work of which `condition` is true.
pub fn refusing_where(engine: Engine, condition: &str) -> Vec<String> {
    match engine {
        Engine::Sqlite => vec![format!(
            "CREATE TRIGGER refusing BEFORE INSERT ON scheduled_action \
             WHEN {condition} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )],
        Engine::Postgres => vec![
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql \
             AS 'BEGIN RAISE EXCEPTION ''refused''; END'"
                .to_owned(),
            format!(
                "CREATE TRIGGER refusing BEFORE INSERT ON scheduled_action FOR EACH ROW \
                 WHEN ({condition}) EXECUTE FUNCTION refuse()"
            ),
        ],
    }
}
