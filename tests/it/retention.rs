//! How long what is kept: each setting is about its own rows.

use serde_json::json;
use trigger_manager::app::{UpdateTrigger, UpdateTriggerRule};
use trigger_manager::domain::rule::TriggerRule;
use trigger_manager::executor::RetainReport;

use crate::rules::place::{Place, text};

/// A day more for each.
const SETTINGS: [(&str, &str); 6] = [
    ("PFY_RETENTION_DELIVERED", "1d"),
    ("PFY_RETENTION_FAILED", "2d"),
    ("PFY_RETENTION_EVENTS", "3d"),
    ("PFY_RETENTION_HELD_BACK", "4d"),
    ("PFY_RETENTION_LOG", "5d"),
    ("PFY_RETENTION_AUDIT", "6d"),
];

/// One of each: an occurrence that was delivered and one that was cancelled, an action that was done and
/// one that was cancelled, a cycle that was completed and one that was cancelled, events, and rows of each
/// log.
async fn history() -> Place {
    let p = Place::with(&SETTINGS).await;
    let (app, caller) = (p.t.app.clone(), p.t.caller.clone());
    let backend = p.t.register("a").await;
    let trigger = p.t.trigger("0 0 0 1 1 *").await;
    app.run_trigger(&caller, trigger.id).await.unwrap();
    p.t.run().await;
    app.delete_backend(&caller, backend.id).await.unwrap();
    app.run_trigger(&caller, trigger.id).await.unwrap();
    let off = UpdateTrigger { enabled: Some(false), ..Default::default() };
    p.t.update(trigger.id, off).await;

    p.save(TriggerRule { cooldown_seconds: 60, ..p.draft() }).await;
    p.form_sent(1).await;
    p.form_sent(1).await;
    let later =
        p.on_forms("send_message", json!({"messages": text("Hi")["messages"], "delay": "1h"}));
    let later = later.await;
    p.form_sent(2).await;
    app.delete_trigger_rule(&caller, later.id).await.unwrap();

    let audience = p.audience(1).await;
    let hourly = crate::rules::cycles::hourly(&p, audience.id).await;
    p.t.advance(3600);
    p.t.run().await;
    p.t.advance(3600);
    p.t.executor.begin_cycles(p.t.app.now()).await.unwrap();
    let off = UpdateTriggerRule { enabled: Some(false), ..Default::default() };
    app.update_trigger_rule(&caller, hourly.id, off).await.unwrap();
    p
}

#[tokio::test]
async fn each_kind_of_row_is_kept_for_as_long_as_its_own_setting_says() {
    let p = history().await;
    let mut gone = Vec::new();
    p.t.advance(60);
    for day in 0..=7 {
        let report = p.t.executor.retain(p.t.app.now()).await.unwrap();
        let RetainReport { occurrences, actions, cycles, events, held_back, .. } = report;
        let kinds = [
            ("occurrences", occurrences),
            ("actions", actions),
            ("cycles", cycles),
            ("events", events),
            ("held back", held_back),
            ("log", report.logs.min(1)),
            ("audit", report.audits.min(1)),
        ];
        let kinds = kinds.into_iter().filter(|(_, count)| *count > 0);
        gone.extend(kinds.map(|(kind, count)| (day, kind, count)));
        p.t.advance(24 * 3600);
    }
    let expected = [
        (1, "occurrences", 1),
        (1, "actions", 3),
        (1, "cycles", 1),
        (2, "occurrences", 1),
        (2, "actions", 1),
        (2, "cycles", 1),
        (3, "events", 3),
        (4, "held back", 1),
        (5, "log", 1),
        (6, "audit", 1),
    ];
    assert_eq!(gone, expected);
}
