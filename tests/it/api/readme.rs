//! What the README tells to type.

use serde_json::Value;
use uuid::Uuid;

use crate::served::{Role, Served};

const README: &str = include_str!("../../../README.md");

/// The bodies of the README's calls of `gql`, as its shell makes them.
fn documents() -> Vec<Value> {
    let calls = README.lines().filter_map(|line| line.trim().strip_prefix("gql "));
    let bodies = calls.filter(|call| call.contains("query")).map(|call| {
        let quote = call.chars().next().unwrap();
        let inside = call.trim_matches(quote);
        let text = match quote {
            '\'' => inside.to_owned(),
            _ => {
                let id = Uuid::now_v7().to_string();
                let text = inside.replace("\\\\", "\u{0}").replace("\\\"", "\"");
                let text = text.replace('\u{0}', "\\");
                ["$PROJECT", "$APPLICATION", "$LINE_OA", "$RULE"]
                    .iter()
                    .fold(text, |text, name| text.replace(name, &id))
            }
        };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    bodies.collect()
}

#[tokio::test]
async fn every_document_of_the_readme_fits_the_schema() {
    let served = Served::new().await;
    let documents = documents();
    assert!(documents.len() >= 5, "{documents:?}");
    for document in documents {
        let answer = served.client(Role::Anonymous).post("/graphql", &document).await;
        // It fits, and only the credentials are missing.
        assert_eq!(answer.code(), "UNAUTHENTICATED", "{document}: {}", answer.body);
    }
}
