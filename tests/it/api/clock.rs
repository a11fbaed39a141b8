//! A server whose clock is wrong. Only PostgreSQL has a clock to compare it with.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use trigger_manager::clock::{Clock, SystemClock};
use trigger_manager::store::Engine;

use crate::served::{Role, Served};

const CREATE: &str =
    "mutation($application: ID!) { createTrigger(input: {applicationId: $application,
    name: \"A\", runKey: \"a\", cronExpression: \"@daily\", enabled: true}) { id } }";

#[tokio::test]
async fn a_server_whose_clock_is_wrong_changes_nothing_until_it_is_right() {
    let served = Served::new().await;
    let app = &served.test.app;
    let heartbeat = json!({ "name": "no such backend" });
    let variables = json!({ "application": served.id("application") });
    let machine = served.client(Role::Machine);
    let create = async || served.administrator().graphql(CREATE, variables.clone()).await;
    let beat = async || machine.post("/api/machine/heartbeat", &heartbeat).await;

    // The clock of these tests stands in another month.
    app.check_clock().await.unwrap();
    let is_compared = app.store.engine() == Engine::Postgres;
    assert_eq!(app.clock_holds().is_err(), is_compared);
    if is_compared {
        let refused = create().await;
        assert_eq!(refused.code(), "BUSY", "{}", refused.json());
        assert!(refused.json().to_string().contains("differ by more than 5 s"));
        let refused = beat().await;
        assert_eq!((refused.status, refused.code().as_str()), (503, "BUSY"));
        let seen = served.administrator().data("{ triggers { totalCount } }", Value::Null).await;
        assert!(seen["triggers"]["totalCount"].is_number(), "who only reads may");
        for method in [Method::GET, Method::HEAD] {
            let seen = machine.try_send(method, "/api/machine/check", Bytes::new()).await.unwrap();
            assert_eq!(seen.status, 200, "who only reads may");
        }
    }

    served.test.clock.set(SystemClock.now());
    app.check_clock().await.unwrap();
    assert!(create().await.data()["createTrigger"]["id"].is_string());
    assert_eq!(beat().await.status, 404, "the clock is no reason any more");
}
