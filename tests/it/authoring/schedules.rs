//! Rules by the schedule: when they are due.

use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use trigger_manager::app::UpdateTrigger;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::cycle::{Cycle, CycleStatus};
use trigger_manager::domain::id::CycleId;
use trigger_manager::store::cycle;

use super::{create, message, stored, update};
use crate::served::Served;

async fn daily(served: &Served, enabled: bool) -> Value {
    let config = json!({ "cronExpression": "0 0 9 * * *", "audienceId": served.id("audience") });
    create(
        served,
        json!({
            "sourceType": "schedule", "sourceConfig": config, "enabled": enabled,
            "actionConfig": message("Good morning"),
        }),
    )
    .await
}

#[tokio::test]
async fn a_rule_by_the_schedule_says_when_it_is_due_in_words_and_for_whom() {
    let served = Served::new().await;
    // It is Monday, shortly after noon.
    let rule = daily(&served, true).await;
    assert_eq!(rule["nextFireAt"], "2026-03-03T09:00:00Z");
    assert!(rule["scheduleDescription"].as_str().unwrap().contains("09:00"), "{rule}");
    assert_eq!(rule["effectiveTimeZone"], "UTC");
    assert_eq!(rule["audience"]["id"], served.id("audience"));
    let off = daily(&served, false).await;
    assert_eq!(off["nextFireAt"], Value::Null);
    let on = update(&served, &off["id"], json!({ "enabled": true })).await;
    assert_eq!(on["nextFireAt"], "2026-03-03T09:00:00Z");
}

#[tokio::test]
async fn only_a_change_of_times_starts_the_window_anew() {
    let served = Served::new().await;
    let rule = daily(&served, true).await;
    let id = &rule["id"];
    let since = stored(&served, id).await.evaluated_at;
    served.test.advance(60);
    let audience = served.id("audience");
    let same_times = json!({ "cronExpression": "0 0 9 * * ?", "audienceId": audience,
        "condition": "true" });
    for input in [json!({ "name": "Renamed" }), json!({ "sourceConfig": same_times })] {
        update(&served, id, input).await;
        assert_eq!(stored(&served, id).await.evaluated_at, since);
    }
    let zone = json!({ "cronExpression": "0 0 9 * * *", "audienceId": audience,
        "timeZone": "Asia/Bangkok" });
    let moved = update(&served, id, json!({ "sourceConfig": zone })).await;
    assert_eq!(moved["nextFireAt"], "2026-03-03T02:00:00Z");
    assert_eq!(moved["effectiveTimeZone"], "Asia/Bangkok");
    assert_eq!(stored(&served, id).await.evaluated_at, Some(served.test.app.now()));
    let off = update(&served, id, json!({ "enabled": false })).await;
    assert_eq!(off["nextFireAt"], Value::Null);
    let form = json!({ "sourceType": "form_submitted", "sourceConfig": {}, "enabled": true });
    let other = update(&served, id, form).await;
    assert_eq!((&other["nextFireAt"], &other["audience"]), (&Value::Null, &Value::Null));
    assert_eq!(stored(&served, id).await.evaluated_at, None);
}

#[tokio::test]
async fn disabling_ends_the_cycles_that_are_being_walked() {
    let served = Served::new().await;
    let rule = daily(&served, true).await;
    let stored = stored(&served, &rule["id"]).await;
    let now = served.test.app.now();
    let walking = Cycle {
        id: CycleId::new(),
        trigger_rule_id: stored.id,
        line_oa_id: stored.line_oa_id,
        organization_id: stored.organization_id,
        audience_id: served.id("audience").parse().unwrap(),
        scheduled_at: now,
        started_at: now,
        completed_at: None,
        status: CycleStatus::Processing,
        total_users: 5,
        processed_users: 2,
        failed_users: 0,
        cursor: Some("U".into()),
        error_message: None,
    };
    let tx = served.test.app.store.begin().await.unwrap();
    assert!(cycle::insert(&*tx, &walking).await.unwrap());
    tx.commit_unaudited().await.unwrap();
    let find = async || {
        let db = served.test.app.store.read();
        cycle::find(db, Scope::Everything, walking.id).await.unwrap()
    };
    update(&served, &rule["id"], json!({ "name": "Renamed" })).await;
    assert_eq!(find().await.status, CycleStatus::Processing, "an edit ends nothing");
    update(&served, &rule["id"], json!({ "enabled": false })).await;
    let ended = find().await;
    assert_eq!((ended.status, ended.processed_users), (CycleStatus::Cancelled, 2));
    assert_eq!(ended.error_message.as_deref(), Some("rule_disabled"));
}

/// As one that an earlier version did not understand.
#[tokio::test]
async fn a_rule_or_trigger_that_was_stopped_is_due_again_when_it_is_saved_anew() {
    let served = Served::new().await;
    let rule = daily(&served, true).await;
    let trigger = served.test.trigger("0 0 9 * * *").await;
    let tx = served.test.app.store.begin().await.unwrap();
    for table in ["trigger_rule", "\"trigger\""] {
        let stop = format!("UPDATE {table} SET next_fire_at = NULL");
        tx.execute_unprepared(&stop).await.unwrap();
    }
    tx.commit_unaudited().await.unwrap();
    served.test.advance(60);
    let saved = update(&served, &rule["id"], json!({ "name": "Anew" })).await;
    assert_eq!(saved["nextFireAt"], "2026-03-03T09:00:00Z");
    let renamed = UpdateTrigger { name: Some("Anew".into()), ..Default::default() };
    let saved = served.test.update(trigger.id, renamed).await;
    assert_eq!(saved.next_fire_at, Some("2026-03-03T09:00:00Z".parse().unwrap()));
    assert_eq!(saved.evaluated_at, served.test.app.now());
}
