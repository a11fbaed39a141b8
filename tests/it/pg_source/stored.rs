//! From a customer's table to a stored event, by a process that runs an executor.

use std::time::Duration;

use sea_orm::ConnectionTrait;
use serde_json::json;
use tokio::time::timeout;
use trigger_manager::app::CreateLineOa;
use trigger_manager::clock::{Clock, SystemClock};
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::event::{Event, EventOrigin};
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::pg_source::SqlArgs;
use trigger_manager::serve::Server;
use trigger_manager::store::event;

use super::{Customer, PERSON, users};
use crate::app::TestApp;
use crate::client::PATIENCE;
use crate::harness::administration;

/// A process that reads the customer's outbox, and a table whose changes are told of to a LINE OA
/// that it knows.
async fn process(shop: &mut Customer) -> (TestApp, Server) {
    let t = TestApp::with(&[
        ("PFY_RUN_MODE", "executor"),
        ("PFY_CRON_METRICS_PORT", "0"),
        ("PFY_PG_SOURCE_DATABASE_URL", &shop.url),
        ("PFY_PG_SOURCE_POLL_INTERVAL", "100ms"),
    ])
    .await;
    // Rows bear the time of the customer's database.
    t.clock.advance(SystemClock.now() - t.clock.now());
    let new = CreateLineOa {
        project_id: t.application.project_id,
        name: "Shop".into(),
        channel_id: "1".into(),
        channel_secret: "a-secret".into(),
        channel_access_token: "a-token".into(),
    };
    let line_oa = t.app.create_line_oa(&t.caller, new).await.unwrap();
    shop.run("CREATE TABLE people (id serial PRIMARY KEY, line_id text, plan text)").await;
    let args = SqlArgs {
        table: Some("public.people".to_owned()),
        line_oa_id: Some(line_oa.id.0),
        ..users()
    };
    shop.run(&args.sql().unwrap()).await;
    let server = Server::start(t.app.clone()).await.unwrap();
    (t, server)
}

async fn stored(t: &TestApp) -> Vec<Event> {
    let (db, filter) = (t.app.store.read(), event::Filter::default());
    let request = PageRequest { limit: 200, ..Default::default() };
    let page = event::list(db, Scope::Everything, &filter, Direction::Ascending, &request);
    page.await.unwrap().rows.into_iter().map(|(_, event)| event).collect()
}

/// Waits until the outbox is empty and this many events are stored.
async fn until(t: &TestApp, shop: &mut Customer, count: usize) -> Vec<Event> {
    let looking = async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        loop {
            pause.tick().await;
            let left = shop.count("trigger_manager.outbox").await;
            let events = stored(t).await;
            if left == 0 && events.len() == count {
                return events;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("the events were not stored")
}

#[tokio::test]
async fn a_row_of_a_customers_table_becomes_an_event_once_and_its_user_is_known() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    let (t, server) = process(&mut shop).await;
    shop.run(&format!("INSERT INTO people (line_id, plan) VALUES ('{PERSON}', 'gold')")).await;
    let event = until(&t, &mut shop, 1).await.remove(0);
    assert_eq!(event.event_type, "attribute_changed");
    assert_eq!(event.origin, EventOrigin::Postgres);
    assert!(event.event_id.starts_with("pg:"), "{event:?}");
    assert_eq!(event.user_id.as_deref(), Some(PERSON));
    let payload = json!({ "attribute": "plan", "oldValue": null, "newValue": "gold" });
    assert_eq!(event.payload, payload);
    let person = [(event.line_oa_id, PERSON.to_owned())];
    let known = trigger_manager::store::line::users_by_ids(t.app.store.read(), &person);
    assert_eq!(known.await.unwrap().len(), 1);
    // Handed on once more, as after a crash before the row was removed.
    let again = format!(
        "INSERT INTO trigger_manager.outbox (event_id, type, line_oa_id, user_id, payload)
            VALUES ('{}', 'attribute_changed', '{}', '{PERSON}', '{payload}')",
        &event.event_id[3..],
        event.line_oa_id
    );
    shop.run(&again).await;
    assert_eq!(until(&t, &mut shop, 1).await[0].id, event.id);
    server.stop().await;
}

#[tokio::test]
async fn rows_that_can_not_be_events_are_kept_aside_with_the_reason() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    let (t, server) = process(&mut shop).await;
    let line_oa = shop_line_oa(&t).await;
    let rows = [
        ("schedule", format!("'{line_oa}'"), PERSON, "{}"),
        ("form_submitted", "NULL".to_owned(), PERSON, "{}"),
        ("form_submitted", format!("'{}'", uuid::Uuid::now_v7()), PERSON, "{}"),
        ("form_submitted", format!("'{line_oa}'"), "ada", "{}"),
        ("form_submitted", format!("'{line_oa}'"), PERSON, "[]"),
        ("form_submitted", format!("'{line_oa}'"), PERSON, r#"{"formId":1,"submissionId":2}"#),
    ];
    for (kind, line_oa, user, payload) in rows {
        let row = format!(
            "INSERT INTO trigger_manager.outbox (type, line_oa_id, user_id, payload)
                VALUES ('{kind}', {line_oa}, '{user}', '{payload}')"
        );
        shop.run(&row).await;
    }
    until(&t, &mut shop, 1).await;
    let sql = "SELECT string_agg(reason, E'\\n' ORDER BY id) FROM trigger_manager.outbox_refused";
    let reasons: String = sea_orm::sqlx::query_scalar(sql).fetch_one(&mut shop.db).await.unwrap();
    let reasons: Vec<_> = reasons.lines().collect();
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    let starts = [
        "type must be one of",
        "line_oa_id is required",
        "LINE OA not found",
        "user_id",
        "payload",
    ];
    for (reason, start) in reasons.iter().zip(starts) {
        assert!(reason.starts_with(start), "{reason}");
    }
    server.stop().await;
}

async fn shop_line_oa(t: &TestApp) -> String {
    let request = PageRequest { limit: 1, ..Default::default() };
    let page = t.app.line_oas(Scope::Everything, None, &request).await.unwrap();
    page.rows[0].1.id.to_string()
}

#[tokio::test]
async fn a_database_that_is_away_is_waited_for_and_what_it_holds_is_stored_once() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    let (t, server) = process(&mut shop).await;
    let name = shop.url.rsplit('/').next().unwrap().to_owned();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let connection = administration().await;
    let allow = |yes: bool| format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {yes}");
    connection.execute_unprepared(&allow(false)).await.unwrap();
    shop.run(others).await;
    shop.run(&format!("INSERT INTO people (line_id, plan) VALUES ('{PERSON}', 'gold')")).await;
    // Nobody but this test is connected, so nobody takes the row.
    assert_eq!(shop.count("trigger_manager.outbox").await, 1);
    assert!(stored(&t).await.is_empty());
    connection.execute_unprepared(&allow(true)).await.unwrap();
    until(&t, &mut shop, 1).await;
    server.stop().await;
}
