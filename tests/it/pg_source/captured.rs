//! Which changes of a table make which rows.

use serde_json::{Value, json};
use trigger_manager::pg_source::{EventKind, SqlArgs};

use super::{Customer, LINE_OA, PERSON, Said, users};

fn change(attribute: &str, old: Value, new: Value) -> Value {
    json!({ "attribute": attribute, "oldValue": old, "newValue": new })
}

fn bookings() -> SqlArgs {
    let map = ["bookingId=id", "status=state", "startsAt=starts"];
    SqlArgs {
        table: Some("public.bookings".to_owned()),
        kind: Some(EventKind::BookingEvent),
        map: map.map(str::to_owned).to_vec(),
        ..users()
    }
}

const BOOKINGS: &str = "CREATE TABLE bookings (
    id int PRIMARY KEY, line_id text, state text, starts timestamptz, note text)";

#[tokio::test]
async fn an_insert_makes_a_row_for_each_attribute_that_has_a_value() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let insert = format!("INSERT INTO users (line_id, name) VALUES ('{PERSON}', 'Ann')");
    shop.run(&insert).await;
    let expected = Said {
        kind: "attribute_changed".to_owned(),
        line_oa: Some(LINE_OA),
        person: Some(PERSON.to_owned()),
        payload: change("name", Value::Null, json!("Ann")),
    };
    assert_eq!(shop.said().await, [expected]);
}

#[tokio::test]
async fn an_update_makes_a_row_for_each_attribute_that_changed_and_none_for_others() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let insert = format!(
        "INSERT INTO users (line_id, name, plan) VALUES ('{PERSON}', 'Ann', '{{\"a\": 1}}')"
    );
    shop.run(&insert).await;
    shop.said().await;
    shop.run("UPDATE users SET name = 'Ann', plan = '{ \"a\":1 }', id = id").await;
    assert_eq!(shop.said().await, [], "nothing changed");
    shop.run("UPDATE users SET name = NULL, plan = '{\"a\": 2}', id = 99").await;
    let expected = [
        change("name", json!("Ann"), Value::Null),
        change("plan", json!({ "a": 1 }), json!({ "a": 2 })),
    ];
    assert_eq!(shop.payloads().await, expected);
    shop.run("DELETE FROM users").await;
    assert_eq!(shop.said().await, []);
}

#[tokio::test]
async fn only_the_attributes_that_are_named_count() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run("ALTER TABLE users ADD \"Tier, new\" text").await;
    let attributes = Some("name,\"Tier, new\"".to_owned());
    shop.run(&SqlArgs { attributes, ..users() }.sql().unwrap()).await;
    let insert = format!(
        "INSERT INTO users (line_id, plan, \"Tier, new\") VALUES ('{PERSON}', '1', 'gold')"
    );
    shop.run(&insert).await;
    let expected = [change("Tier, new", Value::Null, json!("gold"))];
    assert_eq!(shop.payloads().await, expected);
}

#[tokio::test]
async fn a_value_longer_than_a_notification_may_be_goes_through_whole() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let long = "x".repeat(9 * 1024);
    let insert = format!("INSERT INTO users (line_id, name) VALUES ('{PERSON}', '{long}')");
    shop.run(&insert).await;
    assert_eq!(shop.payloads().await, [change("name", Value::Null, json!(long))]);
}

#[tokio::test]
async fn a_row_without_a_user_makes_none() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run("INSERT INTO users (line_id, name) VALUES (NULL, 'Ann'), ('', 'Bob')").await;
    assert_eq!(shop.said().await, []);
}

#[tokio::test]
async fn what_is_rolled_back_leaves_nothing() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let insert = format!("INSERT INTO users (line_id, name) VALUES ('{PERSON}', 'Ann')");
    shop.run(&format!("BEGIN; {insert}; ROLLBACK")).await;
    assert_eq!(shop.said().await, []);
}

#[tokio::test]
async fn other_events_carry_the_columns_that_are_mapped() {
    let Some(mut shop) = Customer::new().await else { return };
    shop.run("CREATE TABLE forms (id int, line_id text, answers jsonb, secret text)").await;
    let forms = SqlArgs {
        table: Some("public.forms".to_owned()),
        kind: Some(EventKind::FormSubmitted),
        map: vec!["submissionId=id".to_owned(), "answers=answers".to_owned()],
        ..users()
    };
    shop.run(&forms.sql().unwrap()).await;
    shop.run(&format!("INSERT INTO forms VALUES (5, '{PERSON}', '{{\"q\": [1]}}', 's')")).await;
    shop.run("UPDATE forms SET id = 6").await;
    let said = shop.said().await;
    assert_eq!(said.len(), 1, "an update is no submission: {said:?}");
    assert_eq!(said[0].kind, "form_submitted");
    assert_eq!(said[0].payload, json!({ "submissionId": 5, "answers": { "q": [1] } }));
    shop.run(&SqlArgs { map: Vec::new(), ..forms }.sql().unwrap()).await;
    shop.run(&format!("INSERT INTO forms VALUES (7, '{PERSON}', NULL, 's')")).await;
    let whole = json!({ "id": 7, "answers": null, "secret": "s" });
    assert_eq!(shop.payloads().await, [whole], "without a map it is the whole row");
}

#[tokio::test]
async fn a_booking_is_an_event_when_it_is_made_and_when_what_is_mapped_changes() {
    let Some(mut shop) = Customer::new().await else { return };
    shop.run(BOOKINGS).await;
    shop.run(&bookings().sql().unwrap()).await;
    let starts = "2026-05-01T09:00:00+00:00";
    shop.run("SET TIME ZONE 'UTC'").await;
    shop.run(&format!("INSERT INTO bookings VALUES (1, '{PERSON}', 'new', '{starts}')")).await;
    shop.run("UPDATE bookings SET note = 'window seat'").await;
    shop.run("UPDATE bookings SET state = 'confirmed'").await;
    let payload = |status| json!({ "bookingId": 1, "status": status, "startsAt": starts });
    assert_eq!(shop.payloads().await, [payload("new"), payload("confirmed")]);
}

#[tokio::test]
async fn the_line_oa_may_stand_in_a_column_and_what_is_none_stays_empty() {
    let Some(mut shop) = Customer::new().await else { return };
    shop.run(BOOKINGS).await;
    let line_oa_column = Some("note".to_owned());
    let args = SqlArgs { line_oa_id: None, line_oa_column, ..bookings() };
    shop.run(&args.sql().unwrap()).await;
    for (id, note) in [(1, LINE_OA.to_string()), (2, "none".to_owned())] {
        let insert =
            format!("INSERT INTO bookings (id, line_id, note) VALUES ({id}, '{PERSON}', '{note}')");
        shop.run(&insert).await;
    }
    let line_oas: Vec<_> = shop.said().await.into_iter().map(|said| said.line_oa).collect();
    assert_eq!(line_oas, [Some(LINE_OA), None]);
}

#[tokio::test]
async fn names_and_values_may_hold_any_sign() {
    let Some(mut shop) = Customer::new().await else { return };
    let (schema, table) = (r#"S "one".x"#, r#"t'; DROP TABLE \ $capture$ DO"#);
    let (user, value) = (r#"us"er\'"#, r#"\"] ,'ä$$ %s"#);
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let full = format!("{}.{}", quoted(schema), quoted(table));
    shop.run(&format!("CREATE SCHEMA {}", quoted(schema))).await;
    shop.run(&format!("CREATE TABLE {full} ({} text, {} text)", quoted(user), quoted(value))).await;
    let attributes = SqlArgs {
        table: Some(full.clone()),
        user_column: Some(user.to_owned()),
        attributes: Some(quoted(value)),
        ..users()
    };
    let clicks = SqlArgs {
        kind: Some(EventKind::CampaignClick),
        attributes: None,
        map: vec![format!("it's \"\\={value}")],
        ..attributes.clone()
    };
    // A legacy setting, in which a backslash means something in every literal.
    shop.run("SET standard_conforming_strings = off").await;
    for args in [attributes, clicks] {
        shop.run(&args.sql().unwrap()).await;
    }
    shop.run("SET standard_conforming_strings = on").await;
    shop.run(&format!("INSERT INTO {full} VALUES ('{PERSON}', 'a''b\\')")).await;
    let expected = [change(value, Value::Null, json!("a'b\\")), json!({ "it's \"\\": "a'b\\" })];
    assert_eq!(shop.payloads().await, expected);
}

#[tokio::test]
async fn functions_of_the_same_names_in_the_way_are_not_called() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run(
        "CREATE SCHEMA evil;
        CREATE FUNCTION evil.to_jsonb(anyelement) RETURNS jsonb LANGUAGE sql AS 'SELECT ''{}''::jsonb';
        CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
        CREATE TEMPORARY TABLE pg_index (indrelid oid);
        SET search_path = evil, pg_temp, pg_catalog, public",
    )
    .await;
    shop.run(&users().sql().unwrap()).await;
    let insert = format!("INSERT INTO public.users (line_id, name) VALUES ('{PERSON}', 'Ann')");
    shop.run(&insert).await;
    assert_eq!(shop.payloads().await, [change("name", Value::Null, json!("Ann"))]);
}
