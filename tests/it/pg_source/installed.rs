//! Applying the SQL, taking it away, and what its defects may do to the table's own users: nothing.

use sea_orm::sqlx::Connection;
use sea_orm::sqlx::postgres::{PgConnection, PgListener};
use trigger_manager::pg_source::SqlArgs;

use super::{Customer, PERSON, users};

fn insert(name: &str) -> String {
    format!("INSERT INTO public.users (line_id, name) VALUES ('{PERSON}', '{name}')")
}

#[tokio::test]
async fn it_may_be_applied_again_and_keeps_what_is_in_the_outbox() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run(&insert("Ann")).await;
    shop.run(&users().sql().unwrap()).await;
    shop.run(&insert("Bob")).await;
    assert_eq!(shop.said().await.len(), 2, "one row for each insert");
}

#[tokio::test]
async fn a_column_that_is_not_there_is_refused_and_nothing_is_left() {
    let Some(mut shop) = Customer::new().await else { return };
    shop.run("CREATE TABLE users (id int, line_id text)").await;
    let wrong = SqlArgs { attributes: Some("nmae".to_owned()), ..users() };
    let error = shop.tried(&wrong.sql().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("nmae"), "{error}");
    assert_eq!(shop.count("pg_namespace WHERE nspname = 'trigger_manager'").await, 0);
}

#[tokio::test]
async fn a_broken_outbox_does_not_fail_the_tables_own_changes() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run("DROP TABLE trigger_manager.outbox").await;
    shop.run(&insert("Ann")).await;
    shop.run(&format!("BEGIN; {}; UPDATE users SET name = 'Cid'; COMMIT", insert("Bob"))).await;
    assert_eq!(shop.count("users WHERE name = 'Cid'").await, 2);
}

#[tokio::test]
async fn a_column_that_is_gone_does_not_fail_the_tables_own_changes() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.run("ALTER TABLE users RENAME line_id TO line_user").await;
    shop.run("INSERT INTO users (line_user, name) VALUES ('x', 'Ann')").await;
    assert_eq!(shop.count("users").await, 1);
    assert_eq!(shop.said().await, []);
}

#[tokio::test]
async fn a_locked_outbox_does_not_hold_up_the_tables_own_changes() {
    let Some(mut shop) = Customer::with_users().await else { return };
    // Where a wait of 2 s is none: the function's own bound, shortened.
    shop.run("ALTER FUNCTION trigger_manager.capture() SET lock_timeout = '1ms'").await;
    let db = PgConnection::connect(&shop.url).await.unwrap();
    let mut other = Customer { url: shop.url.clone(), db };
    other.run("BEGIN; LOCK TABLE trigger_manager.outbox").await;
    shop.run(&insert("Ann")).await;
    other.run("ROLLBACK").await;
    assert_eq!(shop.count("users").await, 1);
}

#[tokio::test]
async fn the_hint_names_the_row_on_the_channel_of_its_type() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let mut listener = PgListener::connect(&shop.url).await.unwrap();
    listener.listen("attribute_changed").await.unwrap();
    shop.run(&SqlArgs { no_notify: true, ..users() }.sql().unwrap()).await;
    shop.run(&insert("Ann")).await;
    shop.run(&users().sql().unwrap()).await;
    shop.run(&insert("Bob")).await;
    let heard = listener.recv().await.unwrap();
    let count = shop.count("trigger_manager.outbox").await;
    let id: i64 = heard.payload().parse().unwrap();
    let of_row =
        format!("trigger_manager.outbox WHERE id = {id} AND payload ->> 'newValue' = 'Bob'");
    assert_eq!((count, shop.count(&of_row).await), (2, 1), "{heard:?}");
}

#[tokio::test]
async fn uninstalling_leaves_the_table_as_it_was_and_may_be_repeated() {
    let Some(mut shop) = Customer::with_users().await else { return };
    let (table, kind) = (users().table, users().kind);
    let one = SqlArgs { table, kind, uninstall: true, ..SqlArgs::default() };
    let all = SqlArgs { uninstall: true, ..SqlArgs::default() };
    for _ in 0..2 {
        shop.run(&one.sql().unwrap()).await;
    }
    shop.run(&insert("Ann")).await;
    assert_eq!(shop.said().await, []);
    shop.run(&users().sql().unwrap()).await;
    for _ in 0..2 {
        shop.run(&all.sql().unwrap()).await;
    }
    shop.run(&insert("Bob")).await;
    let left = "pg_trigger WHERE tgrelid = 'users'::regclass AND NOT tgisinternal";
    assert_eq!(shop.count(left).await, 0);
    assert_eq!(shop.count("pg_namespace WHERE nspname = 'trigger_manager'").await, 0);
}
