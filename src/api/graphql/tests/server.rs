//! What holds for every route.

use axum::routing::get;

use super::*;

#[tokio::test]
async fn an_answer_carries_the_requests_id() {
    let server = Server::new().await;
    let answer = server.get("/healthz", &[("x-request-id", "Ab9-_.")]).await;
    assert_eq!(answer.header("x-request-id"), "Ab9-_.");
    for wrong in ["", "a b", "a\"b", &"a".repeat(65)] {
        let answer = server.get("/healthz", &[("x-request-id", wrong)]).await;
        let id = answer.header("x-request-id");
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{wrong:?}: {id:?}");
    }
}

#[tokio::test]
async fn a_process_is_ready_while_its_database_answers() {
    let server = Server::new().await;
    assert_eq!(server.get("/readyz", &[]).await.json(), json!({ "status": "ok" }));
    server.app.store.clone().close().await.unwrap();
    let answer = server.get("/readyz", &[]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json(), json!({ "status": "unavailable" }));
    assert_eq!(server.get("/healthz", &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_path_without_a_route_is_a_problem_document() {
    let server = Server::new().await;
    let answer = server.get("/nowhere", &[]).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.json()["status"], 404);
    assert_eq!(answer.json()["title"], "Not Found");
    assert_eq!(answer.json()["instance"], "/nowhere");
}

#[tokio::test]
async fn requests_are_counted_by_the_pattern_of_their_route() {
    let server = Server::new().await;
    server.anonymous("{ __typename }").await;
    server.get("/graphiql/assets/secret-in-a-path", &[]).await;
    server.get("/secret-in-a-path", &[]).await;
    let metrics = server.app.metrics.encode();
    assert!(metrics.contains("route=\"/graphql\""), "{metrics}");
    assert!(metrics.contains("route=\"unmatched\""), "{metrics}");
    assert!(!metrics.contains("secret-in-a-path"), "{metrics}");
}

#[tokio::test]
async fn the_page_can_be_switched_off() {
    let with = Server::new().await;
    assert_eq!(with.get("/graphiql", &[]).await.status, StatusCode::OK);
    let without = Server::with(&[("PFY_GRAPHQL_GRAPHIQL", "false")]).await;
    assert_eq!(without.get("/graphiql", &[]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask() {
    let origin = "https://console.example.com";
    let server = Server::with(&[("PFY_CORS_ALLOWED_ORIGINS", origin)]).await;
    let asked = async |origin: &str| {
        let request = Request::options("/graphql")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type");
        server.send(request.body(Body::empty()).unwrap()).await
    };
    let asked_first = asked(origin).await;
    assert_eq!(asked_first.header("access-control-allow-origin"), origin);
    assert!(!asked_first.header("x-request-id").is_empty(), "a preflight has an id, too");
    let other = asked("https://evil.example").await;
    assert_eq!(other.header("access-control-allow-origin"), "");
}

async fn boom() {
    panic!("SELECT secret")
}

#[tokio::test]
async fn who_is_not_answered_in_time_or_at_all_is_told_so_and_pages_of_allowed_origins_too() {
    let origin = "https://console.example.com";
    let mut server = Server::with(&[("PFY_CORS_ALLOWED_ORIGINS", origin)]).await;
    let stuck = async || std::future::pending::<()>().await;
    let routes = Router::new().route("/boom", get(boom)).route("/stuck", get(stuck));
    let routes = routes.route("/graphql", get(stuck));
    server.router = crate::api::around(Arc::clone(&server.app), routes);
    // Time runs to the next timer by itself.
    tokio::time::pause();
    for (path, status, after) in [("/boom", 500, ""), ("/stuck", 503, "1"), ("/graphql", 503, "1")]
    {
        let answer = server.get(path, &[("origin", origin)]).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), origin, "{path}");
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.contains("retry-after") && exposed.contains("x-request-id"), "{exposed}");
        assert_eq!(answer.header("retry-after"), after, "{path}");
        let (id, body) = (answer.header("x-request-id"), answer.json());
        if path == "/graphql" {
            let extensions = json!({ "code": "BUSY", "requestId": id, "retryAfterSeconds": 1 });
            assert_eq!(body["errors"][0]["extensions"], extensions);
        } else {
            assert_eq!((&body["instance"], &body["requestId"]), (&json!(path), &json!(id)));
        }
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_with_the_requests_id() {
    let mut server = Server::new().await;
    let routes = Router::new().route("/graphql", get(boom)).route("/boom", get(boom));
    server.router = crate::api::around(Arc::clone(&server.app), routes);
    for path in ["/graphql", "/boom"] {
        let answer = server.get(path, &[]).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!answer.text.contains("SELECT"), "{}", answer.text);
        assert!(answer.text.contains(answer.header("x-request-id")), "{}", answer.text);
        assert!(answer.text.contains("\"INTERNAL\""), "{}", answer.text);
    }
}
