//! What is kept for how long: each setting is that of its rows, and of no others.

use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::executor::RetainReport;

use crate::receiver::Answer;
use crate::rules::place::Place;

const SETTINGS: [(&str, &str); 7] = [
    ("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "1"),
    ("PFY_RETENTION_DELIVERED", "1d"),
    ("PFY_RETENTION_FAILED", "2d"),
    ("PFY_RETENTION_HELD_BACK", "3d"),
    ("PFY_RETENTION_LOG", "4d"),
    ("PFY_RETENTION_EVENTS", "5d"),
    ("PFY_RETENTION_AUDIT", "6d"),
];

/// What was deleted, by name.
fn deleted(report: RetainReport) -> Vec<&'static str> {
    let RetainReport { occurrences, actions, cycles, .. } = report;
    let RetainReport { events, held_back, logs, audits, rule_states, executors, .. } = report;
    let all = [
        ("occurrences", occurrences),
        ("actions", actions),
        ("cycles", cycles),
        ("events", events),
        ("held back", held_back),
        ("log", logs),
        ("audit", audits),
        ("rule states", rule_states),
        ("executors", executors),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect()
}

/// Two runs, one delivered and one failed, a user who was sent something and one event later was not.
async fn furnish(p: &Place) {
    p.t.register("a").await;
    let trigger = p.t.trigger("0 0 0 29 2 *").await;
    p.t.receiver.next("/a", [Answer::Status(200), Answer::Status(500)]);
    for _ in 0..2 {
        p.t.app.run_trigger(&p.t.caller, trigger.id).await.unwrap();
        p.t.run().await;
    }
    p.save(TriggerRule { frequency: Frequency::Once, ..p.draft() }).await;
    for _ in 0..2 {
        p.form_sent(1).await;
    }
}

#[tokio::test]
async fn each_setting_says_how_long_its_rows_are_kept_and_no_others() {
    let p = Place::with(&SETTINGS).await;
    furnish(&p).await;
    p.t.advance(12 * 3600);
    let days = [
        vec![],
        // What ended well.
        vec!["occurrences", "actions"],
        // What failed.
        vec!["occurrences"],
        vec!["held back"],
        vec!["log"],
        vec!["events"],
        vec!["audit"],
    ];
    for (day, expected) in days.into_iter().enumerate() {
        let report = p.t.executor.retain(p.t.app.now()).await.unwrap();
        assert_eq!(deleted(report), expected, "after {day} and a half days: {report:?}");
        p.t.advance(24 * 3600);
    }
}
