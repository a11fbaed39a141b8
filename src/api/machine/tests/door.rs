//! What is refused before any use case is asked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::api::machine::{BODY_MAX, Problem, problem};
use crate::error::Error;

const REGISTER: &str = "/api/machine/register-backend";

async fn post(api: &Api, kind: Option<&str>, body: impl Into<Body>) -> Answer {
    let mut request = Request::post(REGISTER).header(AUTHORIZATION, &api.auth);
    if let Some(kind) = kind {
        request = request.header(CONTENT_TYPE, kind);
    }
    api.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn without_credentials_that_hold_nothing_is_answered() {
    let api = Api::new().await;
    let routes = [
        (Method::POST, REGISTER),
        (Method::POST, "/api/machine/heartbeat"),
        (Method::DELETE, "/api/machine/backends/x"),
        (Method::GET, "/api/machine/check"),
        (Method::GET, "/api/machine/application/x/tenants"),
        (Method::GET, "/api/machine/applications/x/tenants"),
    ];
    for (method, path) in routes {
        for auth in ["", "Bearer muser_wrong", "Bearer", "Basic cmVwb3J0czp3cm9uZw==", "Digest x"] {
            let answer = api.call(method.clone(), path, auth, None).await;
            let problem = answer.problem(401, "UNAUTHENTICATED");
            assert_eq!(answer.header("www-authenticate"), "Bearer, Basic realm=\"machine\"");
            assert_eq!(problem["instance"], path);
        }
    }
}

#[tokio::test]
async fn a_machine_user_may_use_its_name_and_password() {
    let api = Api::new().await;
    let basic = format!("Basic {}", STANDARD.encode(format!("reports:{PASSWORD}")));
    let answer = api.register_as(&basic, sample()).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
}

#[tokio::test]
async fn what_is_no_json_is_refused_with_its_position() {
    let api = Api::new().await;
    for (body, place) in [
        ("{\n  \"name\": oops }", "line 2 column 11"),
        ("{\"name\": \"w\"", "line 1 column 12"),
        ("", "line 1 column 0"),
        ("name=w", "line 1 column 2"),
        ("{} {}", "line 1 column 4"),
    ] {
        let answer = post(&api, Some("application/json"), body).await;
        let problem = answer.problem(400, "MALFORMED_JSON");
        assert!(problem["detail"].as_str().unwrap().contains(place), "{body}: {problem}");
    }
    let invalid = post(&api, Some("application/json"), vec![b'{', b'"', 0xff, b'"', b'}']).await;
    invalid.problem(400, "MALFORMED_JSON");
    let deep = format!("{{\"name\": {}", "[".repeat(10_000));
    let deep = post(&api, Some("application/json"), deep).await;
    assert!(deep.status.is_client_error());
}

#[tokio::test]
async fn json_that_is_no_object_or_says_a_thing_twice_does_not_fit() {
    let api = Api::new().await;
    for body in ["[]", "[\"w\", \"http://127.0.0.1/\"]", "null", "\"w\"", "7"] {
        let problem = post(&api, Some("application/json"), body).await.problem(422, "INVALID");
        assert_eq!(problem["field"], "body", "{body}");
    }
    let twice = "{\"name\": \"a\", \"callbackUrl\": \"http://127.0.0.1/\", \
                 \"callback_url\": \"http://127.0.0.2/\"}";
    let problem = post(&api, Some("application/json"), twice).await.problem(422, "INVALID");
    assert!(problem["detail"].as_str().unwrap().contains("duplicate"), "{problem}");
    assert!(api.backends().await.is_empty());
}

#[tokio::test]
async fn only_json_is_read() {
    let api = Api::new().await;
    let body = sample().to_string();
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("json")]
    {
        post(&api, kind, body.clone()).await.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"] {
        let answer = post(&api, Some(kind), body.clone()).await;
        assert!(answer.status.is_success(), "{kind}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_of_more_than_64_kib_is_refused_however_it_comes() {
    let api = Api::new().await;
    let body = sample().to_string();
    let body = body.clone() + &" ".repeat(BODY_MAX - body.len());
    let fits = post(&api, Some("application/json"), body.clone()).await;
    assert_eq!(fits.status, StatusCode::CREATED, "{}", fits.text);
    let body = body + " ";
    let whole = post(&api, Some("application/json"), body.clone()).await;
    whole.problem(413, "PAYLOAD_TOO_LARGE");
    let chunks = body.into_bytes();
    let chunks: Vec<_> = chunks.chunks(1000).map(|c| Ok::<_, std::io::Error>(c.to_vec())).collect();
    let stream = Body::from_stream(futures::stream::iter(chunks));
    post(&api, Some("application/json"), stream).await.problem(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_method_that_is_not_there_is_told_which_are() {
    let api = Api::new().await;
    for (method, path, allowed) in [
        (Method::GET, REGISTER, "POST"),
        (Method::PUT, "/api/machine/heartbeat", "POST"),
        (Method::GET, "/api/machine/backends/x", "DELETE"),
        (Method::POST, "/api/machine/check", "GET,HEAD"),
        (Method::POST, "/api/openapi.json", "GET,HEAD"),
    ] {
        let answer = api.call(method, path, &api.auth, None).await;
        answer.problem(405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), allowed, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_problem_too() {
    let api = Api::new().await;
    let paths = ["/api", "/api/", "/api/machine", "/api/machine/register-backend/", "/api/x/y?z=1"];
    for path in paths {
        let problem = api.get(path).await.problem(404, "NOT_FOUND");
        assert_eq!(problem["instance"], path.split('?').next().unwrap());
    }
    api.delete(&api.auth, "%ff").await.problem(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_busy_or_failing_server_says_so_and_no_more() {
    let answer_of = async |error: fn() -> Error| {
        let failing = async move || Err::<(), _>(Problem::from(error()));
        let router: Router = Router::new()
            .route("/api/x", axum::routing::get(failing))
            .layer(axum::middleware::from_fn(problem::render));
        let mut request = Request::get("/api/x").body(Body::empty()).unwrap();
        request.extensions_mut().insert(crate::api::RequestId(REQUEST_ID.into()));
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    };
    let busy = answer_of(|| Error::Busy).await;
    busy.problem(503, "BUSY");
    assert_eq!(busy.header("retry-after"), "1");
    let limited =
        answer_of(|| Error::RateLimited { reason: "too many tries; wait a minute" }).await;
    limited.problem(429, "RATE_LIMITED");
    assert_eq!(limited.header("retry-after"), "60");
    let failed = answer_of(|| Error::internal("no such table: secret_plans")).await;
    assert_eq!(failed.problem(500, "INTERNAL")["detail"], "internal error");
    assert!(!failed.text.contains("secret_plans"));
}
