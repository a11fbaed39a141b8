//! The loop that empties the outbox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trigger_manager::error::Error;
use trigger_manager::pg_source::{OutboxRow, Refused, Source, SqlArgs, run};

use super::Customer;
use crate::client::PATIENCE;

/// Longer than any test: what arrives was hinted at.
const NEVER: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(20);

/// A running loop. Its handler fails `failures` times, and refuses the payload 13.
struct Loop {
    handed: UnboundedReceiver<OutboxRow>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Loop {
    fn start(shop: &Customer, poll_interval: Duration, failures: u32) -> Self {
        let (tell, handed) = unbounded_channel();
        let source = Source { url: shop.url.clone(), poll_interval };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let left = AtomicU32::new(failures);
            let handler = |rows: Vec<OutboxRow>| {
                let fails = left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok();
                let unlucky = rows.iter().filter(|row| row.payload == 13);
                let refused = unlucky.map(|row| Refused { id: row.id, reason: "13".to_owned() });
                let refused: Vec<_> = refused.collect();
                for row in rows {
                    tell.send(row).unwrap();
                }
                async move { if fails { Err(Error::Busy) } else { Ok(refused) } }
            };
            run(&source, handler, &stopped).await;
        });
        Self { handed, stop, task }
    }

    async fn next(&mut self) -> OutboxRow {
        timeout(PATIENCE, self.handed.recv()).await.expect("nothing was handed on").unwrap()
    }

    /// Ends it, when what it does is done.
    async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it goes on").unwrap();
    }
}

#[tokio::test]
async fn what_is_there_and_what_comes_is_handed_on_once_and_hints_wake_it() {
    let Some(mut shop) = Customer::with_users().await else { return };
    shop.fill(1).await;
    let mut looped = Loop::start(&shop, NEVER, 0);
    assert_eq!(looped.next().await.payload, 1);
    for name in ["Ann", "Bob"] {
        shop.run(&format!("INSERT INTO users (line_id, name) VALUES ('x', '{name}')")).await;
        assert_eq!(looped.next().await.payload["newValue"], name);
    }
    looped.stop().await;
    assert_eq!(shop.count("trigger_manager.outbox").await, 0);
}

#[tokio::test]
async fn without_hints_the_interval_finds_it() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    let mut looped = Loop::start(&shop, OFTEN, 0);
    for _ in 0..3 {
        shop.fill(1).await;
        looped.next().await;
    }
    looped.stop().await;
}

#[tokio::test]
async fn what_a_failing_handler_got_is_handed_on_again() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(1).await;
    let mut looped = Loop::start(&shop, OFTEN, 2);
    let first = looped.next().await;
    assert_eq!(looped.next().await, first);
    assert_eq!(looped.next().await, first);
    looped.stop().await;
    assert_eq!(shop.count("trigger_manager.outbox").await, 0);
}

#[tokio::test]
async fn what_the_handler_refuses_does_not_hold_up_the_others() {
    let Some(mut shop) = Customer::with_outbox().await else { return };
    shop.fill(20).await;
    let mut looped = Loop::start(&shop, OFTEN, 0);
    for number in 1..=20 {
        assert_eq!(looped.next().await.payload, number);
    }
    looped.stop().await;
    assert_eq!(shop.count("trigger_manager.outbox").await, 0);
    assert_eq!(shop.count("trigger_manager.outbox_refused WHERE payload = '13'").await, 1);
}

#[tokio::test]
async fn an_outbox_that_comes_later_and_connections_that_are_cut_are_found_again() {
    let Some(mut shop) = Customer::new().await else { return };
    let mut looped = Loop::start(&shop, OFTEN, 0);
    shop.run(&SqlArgs::default().sql().unwrap()).await;
    for _ in 0..2 {
        shop.fill(1).await;
        looped.next().await;
        shop.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    }
    looped.stop().await;
}
