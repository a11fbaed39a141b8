//! What events and cycles cost the database, counted.

use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::store::Engine;

use super::place::Place;

#[tokio::test]
async fn a_thousand_events_cost_a_counted_number_of_statements_and_commits() {
    let p = Place::new().await;
    for number in 0..100 {
        let form = format!("f{number}");
        let source_config = serde_json::json!({"formId": form});
        let frequency = Frequency::OncePerHour;
        p.save(TriggerRule { source_config, frequency, ..p.draft() }).await;
    }
    p.save(TriggerRule { frequency: Frequency::OncePerHour, ..p.draft() }).await;
    let events: Vec<_> = (0..1000).map(|number| p.form(number)).collect();
    p.happens(&events).await;
    let traffic = p.t.app.store.traffic().clone();
    let (statements, commits) = (traffic.statements(), traffic.commits());
    let now = p.t.app.now();
    while p.t.executor.take_events(now).await.unwrap().events > 0 {}
    let commits = traffic.commits() - commits;
    // What is left after a full batch is shared by those that work beside each other.
    let at_most = match p.t.app.store.engine() {
        Engine::Sqlite => 2,
        Engine::Postgres => 4,
    };
    assert!((2..=at_most).contains(&commits), "{commits}: one for 500 events");
    let statements = traffic.statements() - statements;
    assert!(statements <= 12 * at_most, "{statements}");
    assert_eq!(p.actions().await.len(), 1000);
}

#[tokio::test]
async fn a_cycle_costs_one_commit_for_a_thousand_users() {
    let p = Place::new().await;
    let audience = p.audience(3000).await;
    super::cycles::hourly(&p, audience.id).await;
    p.t.advance(3600);
    let traffic = p.t.app.store.traffic().clone();
    let now = p.t.app.now();
    p.t.executor.begin_cycles(now).await.unwrap();
    let (statements, commits) = (traffic.statements(), traffic.commits());
    while p.t.executor.walk_cycle(now).await.unwrap() {}
    assert!(traffic.commits() - commits <= 4, "{}", traffic.commits() - commits);
    assert!(traffic.statements() - statements <= 40, "{}", traffic.statements() - statements);
    assert_eq!(p.actions().await.len(), 3000);
}
