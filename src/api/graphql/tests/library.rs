//! For ordinary requests the edge answers what the library's own service answers.

use async_graphql_axum::GraphQL;

use super::*;
use crate::api::graphql::builder;

#[tokio::test]
async fn an_ordinary_request_is_answered_as_by_the_librarys_own_service() {
    let server = Server::new().await;
    let library = GraphQL::new(builder().data(Arc::clone(&server.app)).finish());
    let preview = "query P($zone: String) { cronPreview(expression: \"0 30 2 * * *\", timeZone: $zone,
        after: \"2026-03-27T00:00:00Z\", count: 3) { description occurrences { at local offset } } }";
    for (query, variables) in [
        ("{ __typename }", json!({})),
        ("{ __schema { queryType { name } } }", json!({})),
        (preview, json!({ "zone": "Europe/Berlin" })),
        (preview, json!({ "zone": null })),
    ] {
        let body = json!({ "query": query, "variables": variables }).to_string();
        let request = Request::post("/").header("content-type", "application/json");
        let theirs = library.clone().oneshot(request.body(Body::from(body.clone())).unwrap());
        let theirs = theirs.await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let theirs: Value = serde_json::from_slice(&theirs).unwrap();
        assert!(theirs["data"].is_object(), "{theirs}");
        assert_eq!(server.post(body, &[]).await.json()["data"], theirs["data"], "{query}");
    }
}
