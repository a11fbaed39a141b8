//! Secrets: tokens, passwords, signing secrets and their hashes.

use serde_json::{Value, json};
use trigger_manager::secrets::hash_token;

use super::{QUESTIONS, asking};
use crate::introspect::Schema;
use crate::served::{PASSWORD, Role, Served};

#[tokio::test]
async fn no_answer_audit_row_or_error_shows_a_secret() {
    let mut served = Served::new().await;
    let schema = Schema::of(served.administrator()).await;
    let mut shown = with_secrets(&mut served).await;
    for field in schema.fields("Query") {
        let variables =
            match QUESTIONS.iter().find(|(path, ..)| path.starts_with(&format!("{field}."))) {
                Some((path, thing, _)) if !path.contains("filter") => {
                    asking(&served, path, json!(served.id(thing)))
                }
                _ if field == "cronPreview" => json!({ "expression": "@daily" }),
                _ => json!({}),
            };
        let selection = schema.everything("Query", field, 2);
        let document = schema.document("Query", field, &variables, &selection);
        for role in [Role::Administrator, Role::Machine] {
            shown.push(served.client(role).graphql(&document, variables.clone()).await.body);
        }
    }
    let logs = "{ auditLogs(first: 200) { totalCount nodes { action before after } } }";
    let logs = served.administrator().data(logs, Value::Null).await;
    let rows = logs["auditLogs"]["nodes"].as_array().unwrap();
    assert_eq!(json!(rows.len()), logs["auditLogs"]["totalCount"], "all rows are looked at");
    shown.push(logs.to_string());
    shown.push(served.monitor.get("/metrics").await.body);
    for body in &shown {
        for secret in &served.secrets {
            assert!(!body.contains(secret.as_str()), "shows {secret}: {body}");
            let hash = hash_token(secret).to_string();
            assert!(!body.contains(&hash), "shows a hash: {body}");
        }
        for sign in ["$argon2", "Hash\"", "Encrypted\""] {
            assert!(!body.contains(sign), "shows {sign}: {body}");
        }
    }
    let names = shown.iter().filter(|body| body.contains("\"tokenPrefix\""));
    assert!(names.count() > 0, "the answers are those of all fields");
}

/// Does what handles secrets, and answers what was said where none may be shown.
async fn with_secrets(served: &mut Served) -> Vec<String> {
    let anonymous = served.client(Role::Anonymous).clone();
    let sign_in = "mutation($password: String!) {
        signIn(email: \"owner@example.com\", password: $password) { token } }";
    let mut session = anonymous.data(sign_in, json!({ "password": PASSWORD })).await;
    let session = session["signIn"]["token"].take().as_str().unwrap().to_owned();
    served.secrets.push(session.clone());
    let wrong =
        ["pfy_a-wrong-token-that-nobody-made", "muser_neither-was-this-one-made-here", "e.y.J"];
    served.secrets.extend(wrong.map(str::to_owned));
    let mut shown =
        vec![anonymous.bearer(&session).graphql("{ me { id } }", Value::Null).await.body];
    let wrong_password = "not this one, whatever it is";
    served.secrets.push(wrong_password.to_owned());
    shown.push(anonymous.graphql(sign_in, json!({ "password": wrong_password })).await.body);
    for token in wrong {
        let client = anonymous.bearer(token);
        shown.push(client.graphql("{ me { id } }", Value::Null).await.body);
        shown.push(client.get("/api/machine/check").await.body);
    }
    let rotate = "mutation($id: ID!) { rotateMachineUserToken(id: $id) { token } }";
    let id = json!({ "id": served.id("anotherMachineUser") });
    let mut rotated = served.administrator().data(rotate, id).await;
    let token = rotated["rotateMachineUserToken"]["token"].take();
    served.secrets.push(token.as_str().unwrap().to_owned());
    let update = "mutation($id: ID!, $input: UpdateLineOaInput!) {
        updateLineOa(id: $id, input: $input) { id name channelId pausedReason updatedAt } }";
    for (field, value) in [
        ("channelSecret", "a-new-channel-secret"),
        ("channelAccessToken", "a-new-channel-access-token"),
        ("channelSecret", "one that has spaces"),
        ("channelAccessToken", "another that has spaces"),
    ] {
        served.secrets.push(value.to_owned());
        let variables = json!({ "id": served.id("lineOa"), "input": { field: value } });
        let answer = served.client(Role::Maintainer).graphql(update, variables).await;
        assert_eq!(answer.code().is_empty(), !value.contains(' '), "{}", answer.body);
        shown.push(answer.body);
    }
    let url = served.test.receiver.url("/one");
    let given = "a-token-of-the-backends-own";
    for (field, value) in
        [("token", given), ("token", "too short"), ("signingSecret", "whsec_short-and-wrong")]
    {
        served.secrets.push(value.to_owned());
        let body = json!({ "name": "one", "callbackUrl": url, field: value });
        shown.push(
            served.client(Role::Machine).post("/api/machine/register-backend", &body).await.body,
        );
    }
    shown
}

#[tokio::test]
async fn only_answers_that_make_a_secret_have_a_field_for_one() {
    let served = Served::new().await;
    let schema = Schema::of(served.administrator()).await;
    let mut found = Vec::new();
    for object in schema.objects() {
        let name = object["name"].as_str().unwrap();
        for field in schema.fields(name) {
            let lower = field.to_lowercase();
            let secret = ["token", "secret", "password", "hash", "encrypted", "credential"];
            if name != "Mutation" && secret.iter().any(|word| lower.contains(word)) {
                found.push(format!("{name}.{field}"));
            }
        }
    }
    found.sort();
    let allowed = [
        "MachineUser.tokenPrefix",
        "MachineUserWithToken.token",
        "PersonalAccessToken.tokenPrefix",
        "PersonalAccessTokenWithToken.personalAccessToken",
        "PersonalAccessTokenWithToken.token",
        "Query.personalAccessTokens",
        "Session.token",
    ];
    assert_eq!(found, allowed);
}
