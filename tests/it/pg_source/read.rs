//! Taking rows out of the outbox.

use std::collections::BTreeSet;

use serde_json::json;
use trigger_manager::pg_source::{PAYLOAD_READ_MAX, REFUSED_KEPT, Reader, Refused};

use super::{Customer, LINE_OA, PERSON};

#[tokio::test]
async fn rows_are_taken_in_their_order_and_are_gone_when_done() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(3).await;
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    assert!(reader.has_rows().await.unwrap());
    let batch = reader.take(2).await.unwrap();
    let payloads: Vec<_> = batch.rows.iter().map(|row| row.payload.clone()).collect();
    assert_eq!(payloads, [json!(1), json!(2)]);
    let row = &batch.rows[0];
    assert_eq!(row.event_type, "form_submitted");
    assert_eq!((row.line_oa_id, row.user_id.as_deref()), (Some(LINE_OA), Some(PERSON)));
    batch.done(Vec::new()).await.unwrap();
    assert_eq!(shop.count("trigger_manager.outbox").await, 1);
    reader.take(2).await.unwrap().done(Vec::new()).await.unwrap();
    assert!(!reader.has_rows().await.unwrap());
    assert!(reader.take(2).await.unwrap().is_empty());
}

#[tokio::test]
async fn two_readers_never_hold_the_same_row() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(5).await;
    let mut one = Reader::connect(&shop.url).await.unwrap();
    let mut other = Reader::connect(&shop.url).await.unwrap();
    let first = one.take(3).await.unwrap();
    let second = other.take(3).await.unwrap();
    let ids = first.rows.iter().chain(&second.rows).map(|row| row.id);
    assert_eq!(ids.collect::<BTreeSet<_>>().len(), 5);
    first.done(Vec::new()).await.unwrap();
    second.done(Vec::new()).await.unwrap();
    assert_eq!(shop.count("trigger_manager.outbox").await, 0);
}

#[tokio::test]
async fn a_batch_that_is_let_go_is_taken_again_with_the_same_event_ids() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(2).await;
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    let before = reader.take(10).await.unwrap().rows.clone();
    let again = reader.take(10).await.unwrap();
    assert_eq!(again.rows, before);
}

#[tokio::test]
async fn refused_rows_are_kept_aside_with_the_reason() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(3).await;
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    let batch = reader.take(10).await.unwrap();
    let id = batch.rows[1].id;
    let refused = |id| Refused { id, reason: "no such LINE OA\0".to_owned() };
    batch.done(vec![refused(id), refused(-1)]).await.unwrap();
    assert_eq!(shop.count("trigger_manager.outbox").await, 0);
    let kept = "trigger_manager.outbox_refused WHERE payload = '2' AND reason = 'no such LINE OA '";
    assert_eq!(shop.count(kept).await, 1);
    assert_eq!(shop.count("trigger_manager.outbox_refused").await, 1);
}

#[tokio::test]
async fn only_the_newest_refused_rows_are_kept() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.run(
        "INSERT INTO trigger_manager.outbox_refused
            (id, event_id, type, occurred_at, payload, created_at, reason)
        SELECT 0, gen_random_uuid(), 'x', now(), '{}', now(), 'r' FROM generate_series(1, 10005)",
    )
    .await;
    shop.fill(1).await;
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    let batch = reader.take(1).await.unwrap();
    let id = batch.rows[0].id;
    batch.done(vec![Refused { id, reason: "last".to_owned() }]).await.unwrap();
    assert_eq!(shop.count("trigger_manager.outbox_refused").await, REFUSED_KEPT);
    assert_eq!(shop.count("trigger_manager.outbox_refused WHERE reason = 'last'").await, 1);
}

#[tokio::test]
async fn rows_that_cannot_be_read_do_not_hold_up_the_others() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let unreadable =
        ["1e400".to_owned(), deep, format!("\"{}\"", "x".repeat(PAYLOAD_READ_MAX as usize))];
    for payload in &unreadable {
        let insert = "INSERT INTO trigger_manager.outbox (type, payload) VALUES ('x', '";
        shop.run(&format!("{insert}{payload}')")).await;
    }
    shop.fill(1).await;
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    let batch = reader.take(10).await.unwrap();
    assert_eq!(batch.rows.len(), 1);
    batch.done(Vec::new()).await.unwrap();
    let read = "trigger_manager.outbox_refused WHERE reason LIKE 'the payload can''t be read%'";
    assert_eq!(shop.count(read).await, 2);
    let long = "trigger_manager.outbox_refused WHERE reason LIKE 'the payload is longer than%'";
    assert_eq!(shop.count(long).await, 1);
    shop.run("INSERT INTO trigger_manager.outbox (type, payload) VALUES ('x', '1e400')").await;
    let only_unreadable = reader.take(10).await.unwrap();
    assert!(only_unreadable.rows.is_empty() && !only_unreadable.is_empty());
    only_unreadable.done(Vec::new()).await.unwrap();
    assert!(!reader.has_rows().await.unwrap());
}

#[tokio::test]
async fn without_an_outbox_the_error_says_what_to_apply() {
    let Some(shop) = Customer::new().await else { return };
    let mut reader = Reader::connect(&shop.url).await.unwrap();
    let error = reader.has_rows().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("trigger-manager pg-source sql"), "{cause}");
}
