//! Time-based rules walk their audience.

use std::collections::BTreeSet;

use chrono::Duration;
use serde_json::json;
use trigger_manager::app::UpdateTriggerRule;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::cron::Zone;
use trigger_manager::domain::cycle::CycleStatus;
use trigger_manager::domain::id::{AudienceId, TriggerRuleId};
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::store::rule;

use super::place::{Place, text};

/// A rule that sends at every full hour.
pub async fn hourly(p: &Place, audience: AudienceId) -> TriggerRule {
    let rule = TriggerRule {
        source_type: "schedule".into(),
        source_config: json!({"cronExpression": "0 0 * * * *", "audienceId": audience}),
        action_config: text("It is {{ event.payload.scheduledAt }}"),
        ..p.draft()
    };
    p.save(rule).await
}

#[tokio::test]
async fn every_user_of_the_audience_is_handled_once_in_each_cycle() {
    let p = Place::new().await;
    let audience = p.audience(3).await;
    hourly(&p, audience.id).await;
    p.t.run().await;
    assert_eq!(p.sent(), []);
    p.t.advance(3600);
    p.t.run().await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!(cycle.status, CycleStatus::Completed);
    assert_eq!((cycle.total_users, cycle.processed_users, cycle.failed_users), (3, 3, 0));
    assert_eq!(cycle.scheduled_at, p.t.app.now());
    assert!(p.sent().iter().all(|(_, text)| text == "It is 2026-03-02T13:00:00Z"));
    let logs = p.logs().await;
    assert!(
        logs.iter()
            .filter(|log| log.status.as_str() == "queued")
            .all(|log| { log.audience_id == Some(audience.id) })
    );
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 6);
}

#[tokio::test]
async fn a_cycle_goes_on_where_a_dead_executor_left_it() {
    let p = Place::new().await;
    let audience = p.audience(2500).await;
    hourly(&p, audience.id).await;
    p.t.advance(3600);
    let (dead, now) = (p.another_executor().await, p.t.app.now());
    dead.begin_cycles(now).await.unwrap();
    assert!(dead.walk_cycle(now).await.unwrap());
    drop(dead);
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.processed_users), (CycleStatus::Processing, 1000));
    p.t.run().await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.processed_users), (CycleStatus::Completed, 2500));
    let users: BTreeSet<_> = p.sent().into_iter().map(|(user, _)| user).collect();
    assert_eq!((p.sent().len(), users.len()), (2500, 2500));
}

#[tokio::test]
async fn of_missed_due_times_the_latest_is_walked_and_the_others_are_logged() {
    let p = Place::with(&[("PFY_CRON_CATCH_UP_WINDOW", "24h")]).await;
    let audience = p.audience(1).await;
    hourly(&p, audience.id).await;
    p.t.advance(5 * 3600);
    p.t.run().await;
    let cycles = p.cycles().await;
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].scheduled_at, p.t.app.now());
    let skipped = p.logs().await.remove(0);
    assert_eq!(skipped.status.as_str(), "skipped");
    assert_eq!(skipped.reason.as_deref(), Some("catch_up_policy"));
    assert_eq!(skipped.action_config.unwrap()["occurrences"], 4);
}

#[tokio::test]
async fn a_rule_that_is_disabled_ends_the_cycle_that_is_being_walked() {
    let p = Place::new().await;
    let audience = p.audience(1500).await;
    let rule = hourly(&p, audience.id).await;
    p.t.advance(3600);
    let now = p.t.app.now();
    p.t.executor.begin_cycles(now).await.unwrap();
    assert!(p.t.executor.walk_cycle(now).await.unwrap());
    p.save(TriggerRule { enabled: false, ..rule }).await;
    p.t.run().await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.processed_users), (CycleStatus::Cancelled, 1000));
    assert!(cycle.error_message.is_some());
}

#[tokio::test]
async fn users_that_the_condition_leaves_out_are_handled_and_get_nothing() {
    let p = Place::new().await;
    let audience = p.audience(4).await;
    let rule = hourly(&p, audience.id).await;
    let condition = "user.id.endsWith('1')";
    let mut config = rule.source_config.clone();
    config["condition"] = condition.into();
    p.save(TriggerRule { source_config: config, ..rule }).await;
    p.t.advance(3600);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.processed_users, cycle.failed_users), (4, 0));
}

#[tokio::test]
async fn an_empty_audience_completes_at_once() {
    let p = Place::new().await;
    let audience = p.audience(0).await;
    hourly(&p, audience.id).await;
    p.t.advance(3600);
    p.t.run().await;
    let cycle = p.cycles().await.remove(0);
    assert_eq!((cycle.status, cycle.total_users), (CycleStatus::Completed, 0));
    assert_eq!(cycle.completed_at, Some(cycle.started_at));
    assert!(cycle.started_at - cycle.scheduled_at < Duration::seconds(1));
}

#[tokio::test]
async fn what_a_cycle_queues_counts_from_its_due_time_whenever_a_users_turn_comes() {
    let p = Place::new().await;
    let audience = p.audience(1).await;
    let rule = hourly(&p, audience.id).await;
    let mut config = text("Hi");
    config["expiresAfter"] = "30m".into();
    p.save(TriggerRule { action_config: config, ..rule }).await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    p.t.advance(3000);
    p.t.run().await;
    assert!(p.sent().is_empty());
    assert_eq!(p.said().await, [("held_back", Some("expired".to_owned()))]);
}

#[tokio::test]
async fn a_cycle_that_is_due_while_the_one_before_is_walked_is_logged_and_left_out() {
    let p = Place::new().await;
    let audience = p.audience(1500).await;
    hourly(&p, audience.id).await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    p.t.executor.walk_cycle(p.t.app.now()).await.unwrap();
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    assert_eq!(p.cycles().await.len(), 1);
    let log = p.logs().await.pop().unwrap();
    assert_eq!((log.status.as_str(), log.reason.as_deref()), ("skipped", Some("still_walking")));
    p.t.run().await;
    assert_eq!(p.sent().len(), 1500);
}

#[tokio::test]
async fn of_due_times_that_come_together_one_begins_a_cycle_and_the_others_are_logged() {
    let p = Place::new().await;
    let audience = p.audience(2).await;
    let rule = hourly(&p, audience.id).await;
    let config = json!({"cronExpression": "*/10 * * * * *", "audienceId": audience.id});
    p.save(TriggerRule { source_config: config, ..rule }).await;
    p.t.advance(40);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    assert_eq!(p.cycles().await.len(), 1);
    let logs = p.logs().await;
    assert!(logs.iter().all(|log| log.reason.as_deref() == Some("still_walking")));
    assert_eq!(logs.len(), 3);
}

#[tokio::test]
async fn a_pause_as_long_as_the_period_lets_every_cycle_fire_however_late_one_is_walked() {
    let p = Place::new().await;
    let audience = p.audience(2).await;
    let rule = hourly(&p, audience.id).await;
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..rule }).await;
    p.t.advance(3_600 + 7);
    p.t.run().await;
    p.t.advance(3_600 - 7);
    p.t.run().await;
    assert_eq!(p.cycles().await.len(), 2);
    assert_eq!(p.sent().len(), 4);
}

#[tokio::test]
async fn a_due_rule_that_is_not_understood_any_more_is_logged_and_not_due_again() {
    let p = Place::new().await;
    let audience = p.audience(1).await;
    let rule = hourly(&p, audience.id).await;
    let broken = TriggerRule { action_config: json!({"messages": 7}), ..rule };
    let tx = p.t.app.store.begin().await.unwrap();
    rule::update(&*tx, &broken).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    p.t.advance(7_200);
    p.t.run().await;
    p.t.advance(3_600);
    p.t.run().await;
    assert_eq!(p.said().await, [("failed", Some("rule_invalid".to_owned()))]);
    assert_eq!(p.cycles().await.len(), 0);
}

#[tokio::test]
async fn another_zone_of_the_server_starts_the_windows_of_rules_that_name_none() {
    let p = Place::new().await;
    let audience = p.audience(1).await;
    let here = hourly(&p, audience.id).await;
    let mut config = here.source_config.clone();
    config["timeZone"] = "Europe/Berlin".into();
    let there = TriggerRule { id: TriggerRuleId::new(), source_config: config, ..here.clone() };
    let there = p.save(there).await;
    p.t.advance(60);
    let bangkok = Zone::parse("Asia/Bangkok").unwrap();
    p.t.app.set_server_zone(&p.t.caller, &bangkok).await.unwrap();
    let find = |id| p.t.app.trigger_rule(Scope::Everything, id);
    let now = Some(p.t.app.now());
    let moved = find(here.id).await.unwrap();
    assert_eq!((moved.evaluated_at, moved.next_fire_at), (now, now));
    assert_eq!(find(there.id).await.unwrap().next_fire_at, there.next_fire_at);
}

#[tokio::test]
async fn a_rule_that_is_enabled_by_a_process_whose_clock_is_behind_is_not_evaluated_twice() {
    let p = Place::new().await;
    let audience = p.audience(1).await;
    let rule = hourly(&p, audience.id).await;
    p.t.advance(3600);
    p.t.run().await;
    let evaluated_at = p.t.app.now();
    p.t.advance(-5);
    for enabled in [false, true] {
        let update = UpdateTriggerRule { enabled: Some(enabled), ..Default::default() };
        p.t.app.update_trigger_rule(&p.t.caller, rule.id, update).await.unwrap();
    }
    let after = p.t.app.trigger_rule(Scope::Everything, rule.id).await.unwrap();
    let next = evaluated_at + Duration::hours(1);
    assert_eq!((after.evaluated_at, after.next_fire_at), (Some(evaluated_at), Some(next)));
    p.t.advance(5);
    p.t.run().await;
    assert_eq!(p.sent().len(), 1);
}

#[tokio::test]
async fn a_cycle_ends_when_its_rule_is_given_another_audience_or_none() {
    for (source, with_audience) in [("schedule", true), ("form_submitted", false)] {
        let p = Place::new().await;
        let (old, new) = (p.audience(3).await, p.audience(2).await);
        let rule = hourly(&p, old.id).await;
        p.t.advance(3600);
        p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
        let config = json!({"cronExpression": "0 0 * * * *", "audienceId": new.id});
        let update = UpdateTriggerRule {
            source_type: Some(source.into()),
            source_config: Some(if with_audience { config } else { json!({}) }),
            action_config: Some(text("New")),
            ..Default::default()
        };
        p.t.app.update_trigger_rule(&p.t.caller, rule.id, update).await.unwrap();
        p.t.run().await;
        assert_eq!(p.sent(), []);
        let cycle = p.cycles().await.remove(0);
        let ended = (cycle.status, cycle.error_message.as_deref());
        assert_eq!(ended, (CycleStatus::Cancelled, Some("rule_changed")));
        p.t.advance(3600);
        p.t.run().await;
        assert_eq!(p.sent().len(), if with_audience { 2 } else { 0 });
    }
}
