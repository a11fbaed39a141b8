//! One occurrence, many backends.

use trigger_manager::domain::trigger::OccurrenceStatus;

use crate::app::TestApp;
use crate::receiver::Answer;

#[tokio::test]
async fn every_active_backend_of_the_application_is_called_once() {
    let t = TestApp::new().await;
    for name in ["a", "b", "c"] {
        t.register(name).await;
    }
    t.trigger("*/10 * * * * *").await;
    t.advance(10);
    t.run().await;
    for path in ["/a", "/b", "/c"] {
        assert_eq!(t.receiver.received_at(path).len(), 1, "{path}");
    }
    let occurrence = t.occurrences().await.remove(0);
    assert_eq!(occurrence.status, OccurrenceStatus::Delivered);
    assert_eq!((occurrence.deliveries, occurrence.delivered), (3, 3));
}

#[tokio::test]
async fn a_failing_backend_is_tried_again_and_the_others_are_not() {
    let t = TestApp::new().await;
    let ids = [t.register("good").await.id, t.register("bad").await.id];
    t.trigger("0 0 * * * *").await;
    t.receiver.next("/bad", [Answer::Status(500), Answer::Status(500)]);
    t.advance(3600);
    t.heartbeat(&ids).await;
    t.run().await;
    t.live(40, &ids).await;
    assert_eq!(t.receiver.received_at("/good").len(), 1);
    assert_eq!(t.receiver.received_at("/bad").len(), 3);
}

#[tokio::test]
async fn an_occurrence_that_some_backends_took_ends_as_partially_delivered() {
    let t = TestApp::with(&[("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "2")]).await;
    let ids = [t.register("good").await.id, t.register("bad").await.id];
    t.trigger("0 0 * * * *").await;
    t.receiver.always("/bad", Answer::Status(500));
    t.advance(3600);
    t.heartbeat(&ids).await;
    t.run().await;
    t.live(10, &ids).await;
    let occurrence = t.occurrences().await.remove(0);
    assert_eq!(occurrence.status, OccurrenceStatus::PartiallyDelivered);
    assert_eq!((occurrence.delivered, occurrence.failed), (1, 1));
    assert_eq!(t.receiver.received_at("/bad").len(), 2);
}

#[tokio::test]
async fn an_occurrence_waits_for_a_backend_and_is_delivered_when_one_registers() {
    let t = TestApp::new().await;
    t.trigger("0 0 * * * *").await;
    t.advance(3600);
    t.run().await;
    let waiting = t.occurrences().await.remove(0);
    assert_eq!(waiting.status, OccurrenceStatus::Pending);
    assert!(waiting.next_attempt_at.is_some());
    t.advance(600);
    t.run().await;
    t.register("late").await;
    t.run().await;
    assert_eq!(t.receiver.received_at("/late").len(), 1);
    assert_eq!(t.occurrences().await[0].status, OccurrenceStatus::Delivered);
}

#[tokio::test]
async fn a_backend_of_another_application_is_not_called() {
    let t = TestApp::new().await;
    t.register("a").await;
    let other = trigger_manager::app::CreateApplication {
        project_id: t.application.project_id,
        slug: "other".into(),
        name: "Other".into(),
    };
    let other = t.app.create_application(&t.caller, other).await.unwrap();
    let new = trigger_manager::app::CreateTrigger {
        application_id: other.id,
        name: "Other".into(),
        description: String::new(),
        run_key: "other".into(),
        cron_expression: "* * * * * *".into(),
        time_zone: None,
        enabled: true,
        catch_up: Default::default(),
    };
    t.app.create_trigger(&t.caller, new).await.unwrap();
    t.advance(1);
    t.run().await;
    assert!(t.receiver.received().is_empty());
}

#[tokio::test]
async fn what_waited_for_many_backends_is_fanned_out_in_several_transactions() {
    let t = TestApp::new().await;
    t.trigger("* * * * * *").await;
    t.advance(60);
    t.run().await;
    for number in 0..100 {
        t.register(&format!("backend-{number}")).await;
    }
    let look = async || t.executor.fan_out_waiting(t.app.now()).await.unwrap();
    assert_eq!([look().await, look().await, look().await], [50, 10, 0]);
    assert_eq!(t.occurrences().await.iter().map(|one| one.deliveries).sum::<i32>(), 6_000);
}
