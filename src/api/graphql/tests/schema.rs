//! The schema as clients see it.

use serde_json::Value;

use super::*;

const STORED: &str = include_str!("../../../../schema.graphql");

/// What GraphiQL and most generators of clients ask.
const INTROSPECTION: &str = "
    query IntrospectionQuery {
        __schema {
            queryType { name kind } mutationType { name kind } subscriptionType { name kind }
            types { ...FullType }
            directives { name description locations args { ...InputValue } }
        }
    }
    fragment FullType on __Type {
        kind name description specifiedByURL
        fields(includeDeprecated: true) {
            name description args { ...InputValue } type { ...TypeRef }
            isDeprecated deprecationReason
        }
        inputFields { ...InputValue }
        interfaces { ...TypeRef }
        enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
        possibleTypes { ...TypeRef }
    }
    fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
    fragment TypeRef on __Type {
        kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
        ofType { kind name ofType { kind name ofType { kind name ofType { kind name
        ofType { kind name } } } } } } } } }
    }";

#[test]
fn the_stored_schema_is_the_one_that_the_program_prints() {
    assert!(
        crate::api::graphql::sdl() == STORED,
        "schema.graphql is old; write it anew with the program's subcommand schema"
    );
}

#[tokio::test]
async fn everything_has_a_description() {
    let server = Server::new().await;
    let answer = server.anonymous(INTROSPECTION).await.json();
    assert!(answer.get("errors").is_none(), "{answer}");
    let mut missing = Vec::new();
    for kind in answer["data"]["__schema"]["types"].as_array().unwrap() {
        let name = kind["name"].as_str().unwrap();
        let built_in = ["Boolean", "Float", "ID", "Int", "String"].contains(&name);
        if built_in || name.starts_with("__") {
            continue;
        }
        note(&mut missing, name, kind);
        for part in ["fields", "inputFields", "enumValues"] {
            for member in kind[part].as_array().into_iter().flatten() {
                let path = format!("{name}.{}", member["name"].as_str().unwrap());
                note(&mut missing, &path, member);
                for argument in member["args"].as_array().into_iter().flatten() {
                    let path = format!("{path}({})", argument["name"].as_str().unwrap());
                    note(&mut missing, &path, argument);
                }
            }
        }
    }
    assert!(missing.is_empty(), "no description: {missing:#?}");
}

fn note(missing: &mut Vec<String>, path: &str, described: &Value) {
    if described["description"].as_str().is_none_or(str::is_empty) {
        missing.push(path.to_owned());
    }
}

#[tokio::test]
async fn introspection_can_be_switched_off() {
    let server = Server::with(&[("PFY_GRAPHQL_INTROSPECTION", "false")]).await;
    for query in ["{ __schema { types { name } } }", "{ __type(name: \"Query\") { name } }"] {
        let answer = server.anonymous(query).await;
        assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED");
        assert!(answer.text.contains("introspection is switched off"), "{}", answer.text);
    }
    assert!(server.anonymous("{ __typename }").await.json()["errors"].is_null());
}
