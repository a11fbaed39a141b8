//! Each way a call can go wrong.

use super::*;
use crate::line::Outcome;
use crate::line::stand_in::Fault;

const HTTP: Outcome = Outcome::Retry { reason: "http_status" };

#[tokio::test]
async fn an_error_before_it_was_accepted_is_tried_again_and_then_done() {
    let pair = Pair::start().await;
    pair.platform.fail_next(2, Fault::ErrorBefore);
    let key = Uuid::now_v7();
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(pair.call(&hello(), key).await.outcome);
    }
    assert_eq!(outcomes, [HTTP, HTTP, Outcome::Done]);
    assert_eq!(pair.platform.accepted().len(), 1);
    let seen = pair.platform.requests();
    let same = |seen: &crate::line::stand_in::Seen| (seen.retry_key.clone(), seen.body.clone());
    assert_eq!(seen.iter().map(|seen| seen.status).collect::<Vec<_>>(), [500, 500, 200]);
    assert!(seen.iter().all(|other| same(other) == same(&seen[0])), "{seen:?}");
}

#[tokio::test]
async fn an_error_after_it_was_accepted_makes_no_second_message() {
    let pair = Pair::start().await;
    pair.platform.fail_next(1, Fault::ErrorAfter);
    let key = Uuid::now_v7();
    assert_eq!(pair.call(&hello(), key).await.outcome, HTTP);
    let again = pair.call(&hello(), key).await;
    assert_eq!((again.outcome, again.status), (Outcome::AlreadyDone, Some(409)));
    let [accepted] = &pair.platform.accepted()[..] else { panic!("not one") };
    assert_eq!(again.accepted_request_id.as_ref(), Some(&accepted.request_id));
    assert_ne!(again.request_id, again.accepted_request_id);
}

#[tokio::test]
async fn silence_after_it_was_accepted_is_a_time_out_and_makes_no_second_message() {
    let pair = Pair::with_timeout(Duration::from_secs(1)).await;
    pair.platform.fail_next(1, Fault::SilenceAfter);
    let key = Uuid::now_v7();
    let silent = pair.call(&hello(), key).await;
    assert_eq!(silent.outcome, Outcome::Retry { reason: "timeout" });
    assert_eq!(silent.status, None);
    let patient = client(pair.platform.base_url(), AMPLE).unwrap();
    let again = patient.call(&pair.channel, &hello(), key, Duration::MAX).await;
    assert_eq!(again.outcome, Outcome::AlreadyDone);
    assert_eq!(pair.platform.accepted().len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_tried_again() {
    let pair = Pair::start().await;
    pair.platform.fail_next(1, Fault::CutAfter);
    let key = Uuid::now_v7();
    let cut = pair.call(&hello(), key).await;
    assert!(matches!(cut.outcome, Outcome::Retry { .. }), "{cut:?}");
    assert_eq!(cut.status, None);
    assert_eq!(pair.call(&hello(), key).await.outcome, Outcome::AlreadyDone);
    assert_eq!(pair.platform.accepted().len(), 1);
}

#[tokio::test]
async fn nobody_at_the_address_is_tried_again() {
    let platform = StandIn::start([TOKEN]).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop((platform, listener));
    let answer = client(&base, AMPLE)
        .unwrap()
        .call(&channel(TOKEN), &hello(), Uuid::now_v7(), Duration::MAX)
        .await;
    assert_eq!(answer.outcome, Outcome::Retry { reason: "connect" });
    assert!(answer.message.is_some());
}

#[tokio::test]
async fn the_two_limits_are_told_apart() {
    let pair = Pair::start().await;
    pair.platform.fail_next(1, Fault::RateLimited);
    pair.platform.fail_next(1, Fault::MonthlyLimit);
    let key = Uuid::now_v7();
    let rate = pair.call(&hello(), key).await;
    assert_eq!((rate.outcome, rate.status), (Outcome::RateLimited, Some(429)));
    assert_eq!(pair.call(&hello(), key).await.outcome, Outcome::MonthlyLimit);
    assert_eq!(pair.call(&hello(), key).await.outcome, Outcome::Done);
}

#[tokio::test]
async fn the_monthly_limit_holds_until_the_month_ends_and_not_for_rich_menus() {
    let pair = Pair::start().await;
    pair.platform.use_up_month();
    for _ in 0..2 {
        let answer = pair.once(&hello()).await;
        assert_eq!(answer.outcome, Outcome::MonthlyLimit);
        assert_eq!(answer.message.as_deref(), Some("You have reached your monthly limit."));
    }
    assert_eq!(pair.once(&link("richmenu-a")).await.outcome, Outcome::Done);
    pair.platform.reset_month();
    assert_eq!(pair.once(&hello()).await.outcome, Outcome::Done);
    assert_eq!(pair.platform.accepted().len(), 1);
}

#[tokio::test]
async fn a_token_that_does_not_hold_is_unauthorized() {
    let pair = Pair::start().await;
    let other = channel("another");
    for call in [hello(), link("richmenu-a"), unlink()] {
        let answer = pair.client.call(&other, &call, Uuid::now_v7(), Duration::MAX).await;
        assert_eq!((answer.outcome, answer.status), (Outcome::Unauthorized, Some(401)));
    }
    pair.platform.allow_token("another");
    let answer = pair.client.call(&other, &hello(), Uuid::now_v7(), Duration::MAX).await;
    assert_eq!(answer.outcome, Outcome::Done);
    pair.platform.revoke_token(TOKEN);
    assert_eq!(pair.once(&hello()).await.outcome, Outcome::Unauthorized);
    pair.platform.fail_next(1, Fault::Unauthorized);
    let answer = pair.client.call(&other, &hello(), Uuid::now_v7(), Duration::MAX).await;
    assert_eq!(answer.outcome, Outcome::Unauthorized);
}

#[tokio::test]
async fn what_the_platform_will_never_do_is_refused_with_its_reasons() {
    let pair = Pair::start().await;
    let answer = pair.once(&push(json!([{ "type": "text" }, { "text": "no type" }]))).await;
    let Outcome::Refused { reason } = &answer.outcome else { panic!("{answer:?}") };
    let said = "The request body has 2 error(s) (messages[0].text: May not be empty; \
                messages[1].type: May not be empty)";
    assert_eq!(reason, &format!("the LINE platform answered 400: {said}"));
    assert_eq!(answer.message.as_deref(), Some(said));
    assert!(answer.request_id.is_some());
    assert!(matches!(pair.once(&link("unknown")).await.outcome, Outcome::Refused { .. }));
    assert!(pair.platform.accepted().is_empty());
}
