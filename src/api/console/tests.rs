use axum::body::Body;
use axum::http::Request;
use axum::http::header::{ACCEPT_ENCODING, LOCATION};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

async fn ask(path: &str, headers: &[(HeaderName, &str)]) -> Response {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    router::<()>().oneshot(request).await.unwrap()
}

async fn body(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn text(path: &str) -> String {
    let plain = body(ask(path, &[]).await).await;
    String::from_utf8(plain.to_vec()).unwrap()
}

fn header(response: &Response, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// The paths that the page refers to.
async fn references() -> Vec<String> {
    let html = text("/graphiql").await;
    let found = html.split(['"', '\'']).filter_map(|part| part.strip_prefix("./graphiql/assets/"));
    found.map(|name| format!("/graphiql/assets/{name}")).collect()
}

async fn a_script() -> String {
    references().await.into_iter().find(|path| path.ends_with(".js")).unwrap()
}

#[tokio::test]
async fn the_page_and_its_alias_are_the_same() {
    assert_eq!(text("/graphiql").await, text("/gql").await);
    let response = ask("/gql", &[]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(header(&response, CONTENT_TYPE), "text/html; charset=utf-8");
    assert!(text("/graphiql").await.contains("<title>Trigger Manager</title>"));
}

#[tokio::test]
async fn everything_the_page_refers_to_is_in_the_binary() {
    let references = references().await;
    assert!(references.len() >= 4, "{references:?}");
    for path in references {
        let response = ask(&path, &[]).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_ne!(header(&response, CONTENT_TYPE), "application/octet-stream", "{path}");
    }
}

#[tokio::test]
async fn the_page_names_no_other_origin_and_has_no_inline_script() {
    let html = text("/graphiql").await;
    assert!(!html.contains("//"), "{html}");
    assert!(html.split("<script").skip(1).all(|script| script.contains("></script>")), "{html}");
}

#[test]
fn every_embedded_file_is_gzip_of_a_known_kind_with_a_fixed_time_stamp() {
    let mut count = 0;
    for name in Dist::iter() {
        let path = name.strip_suffix(".gz").unwrap();
        assert_ne!(media_type(path), "application/octet-stream", "{name}");
        let data = Dist::get(&name).unwrap().data;
        assert_eq!(data[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "{name}");
        assert!(!inflate(&data).unwrap().is_empty(), "{name}");
        count += 1;
    }
    assert!(count > 10, "{count} files");
}

#[tokio::test]
async fn gzip_is_sent_as_it_is_and_inflated_for_others() {
    let path = a_script().await;
    let packed = ask(&path, &[(ACCEPT_ENCODING, "br, gzip")]).await;
    let plain = ask(&path, &[(ACCEPT_ENCODING, "identity")]).await;
    assert_eq!(header(&packed, CONTENT_ENCODING), "gzip");
    assert_eq!(header(&plain, CONTENT_ENCODING), "");
    for response in [&packed, &plain] {
        assert_eq!(header(response, VARY), "accept-encoding");
        assert_eq!(header(response, CONTENT_TYPE), "text/javascript; charset=utf-8");
    }
    assert_ne!(header(&packed, ETAG), header(&plain, ETAG));
    let (packed, plain) = (body(packed).await, body(plain).await);
    assert!(packed.len() < plain.len());
    assert_eq!(inflate(&packed).unwrap(), plain);
}

#[test]
fn gzip_is_accepted_when_it_is_named_or_covered_and_not_refused() {
    let accepts = |value: &'static str| {
        accepts_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]))
    };
    for value in ["gzip", "GZIP", "br, gzip", "gzip;q=0.5", "gzip; q=0.001", "*", "br;q=0,*;q=0.1"]
    {
        assert!(accepts(value), "{value}");
    }
    for value in ["", "identity", "br", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", "gzip;q=x"] {
        assert!(!accepts(value), "{value}");
    }
    assert!(!accepts_gzip(&HeaderMap::new()));
}

#[tokio::test]
async fn a_known_tag_is_answered_with_304_and_no_body() {
    for path in ["/graphiql".to_owned(), a_script().await] {
        let gzip = (ACCEPT_ENCODING, "gzip");
        let first = ask(&path, std::slice::from_ref(&gzip)).await;
        let tag = header(&first, ETAG).to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()]
        {
            let again = ask(&path, &[gzip.clone(), (IF_NONE_MATCH, &known)]).await;
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{known}");
            for name in [ETAG, CACHE_CONTROL, VARY] {
                assert_eq!(header(&again, name.clone()), header(&first, name));
            }
            assert!(body(again).await.is_empty());
        }
    }
}

#[tokio::test]
async fn a_tag_of_another_file_or_coding_is_not_known() {
    let tag = header(&ask("/graphiql", &[(ACCEPT_ENCODING, "gzip")]).await, ETAG).to_owned();
    let plain = ask("/graphiql", &[(IF_NONE_MATCH, &tag)]).await;
    assert_eq!(plain.status(), StatusCode::OK);
    let other = ask(&a_script().await, &[(ACCEPT_ENCODING, "gzip"), (IF_NONE_MATCH, &tag)]).await;
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn hashed_files_are_kept_for_ever_and_the_page_is_asked_for_anew() {
    assert_eq!(header(&ask("/graphiql", &[]).await, CACHE_CONTROL), "no-cache");
    let script = ask(&a_script().await, &[]).await;
    assert_eq!(header(&script, CACHE_CONTROL), "public, max-age=31536000, immutable");
}

#[tokio::test]
async fn an_unknown_file_is_404_and_not_kept() {
    let climbing = "/graphiql/assets/..%2F..%2Fgraphiql.html";
    for path in ["/graphiql/assets/none.js", climbing, "/graphiql/assets/../../Cargo.toml"] {
        let response = ask(path, &[]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(header(&response, CACHE_CONTROL), "no-cache", "{path}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    for path in ["/graphiql", "/gql", "/gql/", &a_script().await, "/graphiql/assets/none"] {
        let response = ask(path, &[]).await;
        let policy = header(&response, CONTENT_SECURITY_POLICY);
        for rule in ["default-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe-eval"), "{policy}");
        assert_eq!(header(&response, X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        assert_eq!(header(&response, X_FRAME_OPTIONS), "DENY", "{path}");
        assert_eq!(header(&response, REFERRER_POLICY), "no-referrer", "{path}");
    }
}

#[tokio::test]
async fn the_licences_of_what_is_shipped_can_be_read() {
    let response = ask("/graphiql/licenses", &[]).await;
    assert_eq!(header(&response, CONTENT_TYPE), "text/markdown; charset=utf-8");
    let licences = text("/graphiql/licenses").await;
    for library in ["graphiql", "monaco-editor", "react", "graphql-ws"] {
        assert!(licences.contains(&format!("## {library} - ")), "{library}");
    }
}

#[tokio::test]
async fn a_trailing_slash_leads_back_to_the_page() {
    for (path, page) in [("/graphiql/", "../graphiql"), ("/gql/", "../gql")] {
        let response = ask(path, &[]).await;
        assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(header(&response, LOCATION), page);
    }
}

#[tokio::test]
async fn a_head_request_tells_the_length_and_sends_nothing() {
    let request = Request::head("/graphiql").body(Body::empty()).unwrap();
    let response = router::<()>().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let length = text("/graphiql").await.len().to_string();
    assert_eq!(header(&response, HeaderName::from_static("content-length")), length);
    assert!(body(response).await.is_empty());
}
