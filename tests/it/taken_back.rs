//! Work that its own executor held for too long: it was taken back, and claimed once more.

use crate::app::TestApp;

/// A process that stood still holds it twice when it goes on, and both come to an end together.
#[tokio::test]
async fn what_an_executor_holds_twice_counts_once() {
    let t = TestApp::new().await;
    t.register("a").await;
    t.trigger("30 0 12 2 3 *").await;
    t.advance(30);
    assert_eq!(t.executor.pass(t.app.now(), 1000).await.unwrap().deliveries, 1);
    // Longer than its lease, and than it is tried.
    t.advance(24 * 3600);
    let report = t.run().await;
    assert_eq!(report.reaped, 1);
    let occurrences = t.occurrences().await;
    let [one] = &occurrences[..] else { panic!("{occurrences:?}") };
    assert_eq!((one.deliveries, one.delivered, one.failed), (1, 0, 1));
    assert!(t.receiver.received().is_empty());
}
