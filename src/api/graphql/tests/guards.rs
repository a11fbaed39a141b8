//! Documents that would cost too much.

use std::fmt::Write;

use super::*;

async fn refused(server: &Server, document: &str) -> String {
    let answer = server.anonymous(document).await;
    assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED", "{}", answer.text);
    answer.json()["errors"][0]["message"].as_str().unwrap().to_owned()
}

/// `f0` spreads `f1` twice, and so on; the last one holds `end`.
fn doubling(count: usize, end: &str) -> String {
    let mut document = "{ ...f0 }".to_owned();
    for n in 0..count {
        let next = n + 1;
        write!(document, " fragment f{n} on Query {{ ...f{next} ...f{next} }}").unwrap();
    }
    write!(document, " fragment f{count} on Query {{ {end} }}").unwrap();
    document
}

#[tokio::test]
async fn fragments_that_double_are_counted_and_not_expanded() {
    let server = Server::new().await;
    for count in [12, 30, 190] {
        for end in ["__typename", "...nowhere"] {
            let message = refused(&server, &doubling(count, end)).await;
            assert!(message.contains("with fragments expanded"), "{message}");
        }
    }
}

#[tokio::test]
async fn fragments_nobody_spreads_are_counted_too() {
    let server = Server::new().await;
    let document = doubling(30, "__typename").replacen("...f0", "__typename", 1);
    assert!(refused(&server, &document).await.contains("with fragments expanded"));
}

#[tokio::test]
async fn all_operations_of_a_document_count() {
    let server = Server::with(&[("PFY_GRAPHQL_MAX_COMPLEXITY", "100")]).await;
    let operation = |n| format!("query q{n} {{ {} }} ", "__typename ".repeat(60));
    assert!(server.anonymous(&operation(1)).await.json()["errors"].is_null());
    let answer = refused(&server, &(operation(1) + &operation(2))).await;
    assert!(answer.contains("fields, with fragments expanded; at most 100"), "{answer}");
}

#[tokio::test]
async fn fragments_that_contain_themselves_are_refused() {
    let server = Server::new().await;
    let one = "{ ...a } fragment a on Query { ...a }";
    let two = "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }";
    for document in [one, two] {
        assert!(refused(&server, document).await.contains("contains itself"));
    }
}

#[tokio::test]
async fn a_chain_of_thousands_of_fragments_takes_no_stack() {
    let server = Server::with(&[("PFY_GRAPHQL_MAX_TOKENS", "1000000")]).await;
    let mut document = "{...f0}".to_owned();
    for n in 0..1500 {
        write!(document, "fragment f{n} on Query{{...f{}}}", n + 1).unwrap();
    }
    assert!(refused(&server, &document).await.contains("levels deep"));
}

#[tokio::test]
async fn brackets_that_nest_without_end_never_reach_the_parser() {
    let most = ("PFY_GRAPHQL_MAX_TOKENS", "1000000");
    let server = Server::with(&[most]).await;
    for piece in ["{a", "[", "{a(b:", "{a(b:[", "{a(b:{c:"] {
        let document = piece.repeat(60 * 1024 / piece.len());
        assert!(refused(&server, &document).await.contains("nested brackets"), "{piece}");
    }
    // As deep as the scan lets through: parsed, and found to be no document.
    for piece in ["{a", "{a(b:[[[[[", "{a(b:{c:[{d:"] {
        let open = piece.matches(['{', '[', '(']).count();
        let answer = server.anonymous(&piece.repeat(100 / open)).await;
        assert_eq!(answer.code(), "GRAPHQL_PARSE_FAILED", "{piece}");
    }
}

#[tokio::test]
async fn each_limit_is_named_when_it_is_passed() {
    let server = Server::with(&[
        ("PFY_GRAPHQL_MAX_DEPTH", "3"),
        ("PFY_GRAPHQL_MAX_COMPLEXITY", "10"),
        ("PFY_GRAPHQL_MAX_ALIASES", "2"),
        ("PFY_GRAPHQL_MAX_TOKENS", "60"),
        ("PFY_GRAPHQL_MAX_DIRECTIVES", "2"),
    ])
    .await;
    let passes = "{ cronPreview(expression: \"@daily\") { occurrences { at } } }";
    assert!(server.anonymous(passes).await.json()["errors"].is_null());
    for (document, limit) in [
        ("{ a { b { c { d } } } }", "levels of fields; at most 3"),
        ("{ a a a a a a a a a a a }", "fields, with fragments expanded; at most 10"),
        ("{ a: b c: d e: f }", "aliases; at most 2"),
        ("{ a @x @y @z }", "directives; at most 2"),
        (&"{ a ".repeat(31), "tokens; at most 60"),
    ] {
        let message = refused(&server, document).await;
        assert!(message.contains(limit), "{document}: {message}");
    }
}

#[tokio::test]
async fn a_document_that_is_no_graphql_says_where() {
    let server = Server::new().await;
    let answer = server.anonymous("{ me { }").await;
    assert_eq!(answer.code(), "GRAPHQL_PARSE_FAILED");
    assert_eq!(answer.json()["errors"][0]["locations"][0]["line"], 1);
    assert!(answer.json().get("data").is_none());
}

#[tokio::test]
async fn the_operation_is_the_one_that_is_named() {
    let server = Server::new().await;
    let both = "query a { __typename } query b { b: __typename }";
    let named = async |name: Value| {
        let body = json!({ "query": both, "operationName": name }).to_string();
        server.post(body, &[]).await
    };
    assert_eq!(named("b".into()).await.json()["data"], json!({ "b": "Query" }));
    for name in [Value::Null, "".into(), "c".into()] {
        assert_eq!(named(name).await.code(), "GRAPHQL_VALIDATION_FAILED");
    }
    let body = json!({ "query": "{ __typename }", "operationName": "" }).to_string();
    assert_eq!(server.post(body, &[]).await.json()["data"], json!({ "__typename": "Query" }));
}

#[tokio::test]
async fn lists_in_lists_do_not_multiply_without_end() {
    let server = Server::new().await;
    let application = server.application("p").await;
    for n in 0..101 {
        server.trigger(&application, &format!("t{n}")).await;
    }
    let query = "query($n: Int) { triggers(first: 101) {
        nodes { name occurrences(first: $n) { nodes { id } } }
    } }";
    let refused = server.ask(query, json!({ "n": 200 })).await;
    assert_eq!(refused.code(), "INVALID");
    assert!(refused.text.contains("more than 20000 rows"), "{}", refused.text);
    assert!(server.ask(query, json!({ "n": 10 })).await.json()["errors"].is_null());
}
