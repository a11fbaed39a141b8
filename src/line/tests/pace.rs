//! The rate limit of our own.

use futures::FutureExt;

use super::*;
use crate::line::Outcome;
use crate::line::pace::Pace;

#[tokio::test]
async fn a_channel_that_has_had_its_turn_waits_and_others_do_not() {
    let pace = Pace::new(1);
    let (one, other) = (LineOaId::new(), LineOaId::new());
    assert!(pace.turn(one, Duration::ZERO).await);
    assert!(!pace.turn(one, Duration::ZERO).await);
    assert!(pace.turn(other, Duration::ZERO).await);
}

#[tokio::test]
async fn a_turn_comes_while_one_waits() {
    let pace = Pace::new(20);
    let channel = LineOaId::new();
    let started = std::time::Instant::now();
    for _ in 0..4 {
        assert!(pace.turn(channel, AMPLE).await);
    }
    assert!(started.elapsed() >= Duration::from_millis(140), "{:?}", started.elapsed());
}

#[tokio::test]
async fn channels_that_rest_are_forgotten() {
    let pace = Pace::new(100_000);
    for _ in 0..20_000 {
        assert!(pace.turn(LineOaId::new(), AMPLE).await);
    }
    assert!(pace.remembered() <= 1000, "{}", pace.remembered());
}

#[tokio::test]
async fn a_turn_that_does_not_come_in_time_is_a_rate_limit_without_a_request() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let mut config = config(platform.base_url(), SHORT);
    config.rate_limit = 1;
    let client = LineClient::new(egress(&["127.0.0.0/8"]), &config).unwrap();
    let channel = channel(TOKEN);
    // It has had its turn when it is dropped, and sent nothing yet.
    assert!(
        client.call(&channel, &hello(), Uuid::now_v7(), Duration::MAX).now_or_never().is_none()
    );
    let held = client.call(&channel, &hello(), Uuid::now_v7(), Duration::MAX).await;
    assert_eq!((held.outcome, held.status), (Outcome::RateLimited, None));
    assert!(held.message.unwrap().contains("line.rate_limit"));
    assert!(held.elapsed >= SHORT / 2, "{:?}", held.elapsed);
    assert!(platform.requests().is_empty());
}

#[tokio::test]
async fn who_may_not_wait_for_a_turn_makes_no_request() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let mut config = config(platform.base_url(), AMPLE);
    config.rate_limit = 1;
    let client = LineClient::new(egress(&["127.0.0.0/8"]), &config).unwrap();
    let channel = channel(TOKEN);
    let within = Duration::from_millis(1);
    let first = client.call(&channel, &hello(), Uuid::now_v7(), within).await;
    assert_eq!(first.outcome, Outcome::Done);
    let held = client.call(&channel, &hello(), Uuid::now_v7(), within).await;
    assert_eq!((held.outcome, held.status), (Outcome::RateLimited, None));
    assert_eq!(platform.requests().len(), 1);
}
