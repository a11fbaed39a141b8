//! What the README tells to type.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::served::{Role, Served};

const README: &str = include_str!("../../../README.md");

/// All documents of the README: what it gives to `gql` in a line, files that it writes for it, and
/// what it shows as GraphQL.
fn documents() -> Vec<Value> {
    let mut all = in_a_line();
    all.extend(in_files());
    all.extend(shown());
    all
}

/// The bodies that the README's shell writes into files, as it makes them.
fn in_files() -> Vec<Value> {
    let files = README.split("<<JSON\n").skip(1).filter_map(|rest| rest.split("JSON\n").next());
    let files = files.map(|text| {
        let text = with_ids(&text.replace("\\$", "\0")).replace('\0', "$");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    files.collect()
}

/// What the README shows as GraphQL: a document, or a mutation a line.
fn shown() -> Vec<Value> {
    let blocks = README.split("```graphql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let apart = |block: &str| match block.starts_with("mutation") {
        true => block.lines().map(str::to_owned).collect(),
        false => vec![block.to_owned()],
    };
    let documents = blocks.flat_map(apart);
    documents
        .map(|text| json!({ "query": text.replace('…', &Uuid::now_v7().to_string()) }))
        .collect()
}

/// The text with an id where the shell would put one.
fn with_ids(text: &str) -> String {
    let id = Uuid::now_v7().to_string();
    let names = ["$PROJECT", "$APPLICATION", "$LINE_OA", "$RULE"];
    names.iter().fold(text.to_owned(), |text, name| text.replace(name, &id))
}

/// The bodies of the README's calls of `gql`, as its shell makes them.
fn in_a_line() -> Vec<Value> {
    let calls = README.lines().filter_map(|line| line.trim().strip_prefix("gql "));
    let bodies = calls.filter(|call| call.contains("query")).map(|call| {
        let quote = call.chars().next().unwrap();
        let inside = call.trim_matches(quote);
        let text = match quote {
            '\'' => inside.to_owned(),
            _ => {
                let text = inside.replace("\\\\", "\u{0}").replace("\\\"", "\"");
                with_ids(&text.replace('\u{0}', "\\"))
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
    let kinds = [in_a_line().len(), in_files().len(), shown().len()];
    assert!(kinds[0] >= 5 && kinds[1] >= 3 && kinds[2] >= 6, "{kinds:?}");
    for document in documents {
        let answer = served.client(Role::Anonymous).post("/graphql", &document).await;
        // It fits, and only the credentials are missing, if any are needed.
        let open = ["cronPreview", "signIn"]
            .iter()
            .any(|open| document["query"].as_str().unwrap().contains(open));
        let fits =
            answer.code() == "UNAUTHENTICATED" || open && !answer.code().starts_with("GRAPHQL");
        assert!(fits, "{document}: {}", answer.body);
    }
}
