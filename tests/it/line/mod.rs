//! LINE OAs, their users and audiences, and workflows, over the API.

mod attributes;

use sea_orm::{ConnectionTrait, DbBackend, Statement};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::client::Client;
use crate::served::{LINE_USER, Role, Served};

fn maintainer(served: &Served) -> &Client {
    served.client(Role::Maintainer)
}

/// Rows of a statement that is the same on both engines.
async fn rows(served: &Served, sql: &str) -> Vec<sea_orm::QueryResult> {
    let store = &served.test.app.store;
    let backend = match store.engine() {
        trigger_manager::store::Engine::Sqlite => DbBackend::Sqlite,
        trigger_manager::store::Engine::Postgres => DbBackend::Postgres,
    };
    store.read().query_all_raw(Statement::from_string(backend, sql)).await.unwrap()
}

const UPDATE: &str = "mutation($id: ID!, $input: UpdateLineOaInput!) {
    updateLineOa(id: $id, input: $input) { name channelId pausedUntil pausedReason } }";

#[tokio::test]
async fn credentials_are_stored_so_that_only_this_server_reads_them_and_only_for_this_account() {
    let served = Served::new().await;
    let stored = "SELECT channel_secret, channel_access_token FROM line_oa";
    let row = rows(&served, stored).await.remove(0);
    for column in ["channel_secret", "channel_access_token"] {
        let text: String = row.try_get("", column).unwrap();
        assert!(served.secrets.iter().all(|secret| !text.contains(secret.as_str())), "{text}");
    }
    let app = &served.test.app;
    let id = served.id("lineOa").parse().unwrap();
    let (_, open) = app.line_credentials(&[id]).await.unwrap().remove(0);
    assert_eq!(open.channel_secret.expose_secret(), "secret-of-the-channel");
    assert_eq!(open.channel_access_token.expose_secret(), "token-of-the-channel+/=");
    let (_, sealed) =
        trigger_manager::store::line::credentials(app.store.read(), &[id]).await.unwrap().remove(0);
    let swapped = trigger_manager::store::line::LineSecrets {
        channel_secret: sealed.channel_access_token.clone(),
        channel_access_token: sealed.channel_secret.clone(),
    };
    assert!(app.open_line_secrets(id, &swapped).is_err(), "each is bound to its column");
    let another = trigger_manager::domain::id::LineOaId::new();
    assert!(app.open_line_secrets(another, &sealed).is_err(), "and to its account");
}

#[tokio::test]
async fn new_credentials_end_a_pause_and_the_audit_log_says_only_that_they_are_new() {
    let served = Served::new().await;
    let id = served.id("lineOa");
    let now = served.test.app.now();
    let tx = served.test.app.store.begin().await.unwrap();
    let until = now + chrono::Duration::days(3);
    let account = id.parse().unwrap();
    let paused = trigger_manager::store::line::pause(&*tx, account, until, "unauthorized", now);
    assert!(paused.await.unwrap());
    tx.commit_unaudited().await.unwrap();
    let change = async |input: Value| {
        let mut data = maintainer(&served).data(UPDATE, json!({ "id": id, "input": input })).await;
        data["updateLineOa"].take()
    };
    assert_eq!(change(json!({ "name": "Renamed" })).await["pausedReason"], "unauthorized");
    let renewed = change(json!({ "channelAccessToken": "quite-another-token" })).await;
    let nothing = Value::Null;
    assert_eq!((&renewed["pausedUntil"], &renewed["pausedReason"]), (&nothing, &nothing));
    assert_eq!(renewed["name"], "Renamed");
    let log = "query($id: ID!) { auditLogs(filter: { entityId: $id }, first: 1) {
        nodes { action before after projectId applicationId } } }";
    let log = served.administrator().data(log, json!({ "id": id })).await;
    let row = &log["auditLogs"]["nodes"][0];
    assert_eq!(row["after"]["channelAccessTokenChanged"], true);
    assert!(row["after"].get("channelSecretChanged").is_none(), "{row}");
    assert!(!row.to_string().contains("quite-another-token"), "{row}");
    assert_eq!((row["before"]["pausedReason"].as_str()), Some("unauthorized"));
    assert_eq!(row["projectId"], served.id("project"));
}

#[tokio::test]
async fn what_can_be_no_channel_or_credential_is_refused_on_its_field_and_not_repeated() {
    let served = Served::new().await;
    let (long, longer) = ("x".repeat(201), "x".repeat(4001));
    for (field, bad) in [
        ("name", ""),
        ("channelId", ""),
        ("channelId", "12a"),
        ("channelId", "١٢٣"),
        ("channelId", "123456789012345678901"),
        ("channelSecret", ""),
        ("channelSecret", "with space"),
        ("channelSecret", &long),
        ("channelAccessToken", "ümlaut-in-it"),
        ("channelAccessToken", "line\nbreak"),
        ("channelAccessToken", &longer),
    ] {
        let variables = json!({ "id": served.id("lineOa"), "input": { field: bad } });
        let answer = maintainer(&served).graphql(UPDATE, variables).await;
        assert_eq!(answer.code(), "INVALID", "{field} {bad:?}");
        assert_eq!(answer.json()["errors"][0]["extensions"]["field"], field);
        assert!(bad.len() < 5 || !answer.body.contains(bad), "{}", answer.body);
    }
    let create = "mutation($input: CreateLineOaInput!) { createLineOa(input: $input) { id } }";
    let project = "{ projects { nodes { id slug } } }";
    let projects = served.client(Role::Outsider).data(project, Value::Null).await;
    let input = json!({
        "projectId": projects["projects"]["nodes"][0]["id"], "name": "Mine",
        "channelId": "1234567890", "channelSecret": "s", "channelAccessToken": "t",
    });
    let taken = served.client(Role::Outsider).graphql(create, json!({ "input": input })).await;
    assert_eq!(taken.code(), "CONFLICT");
    let error = &taken.json()["errors"][0];
    assert_eq!(error["extensions"]["field"], "channelId");
    assert_eq!(error["message"], "this channel is in use");
}

const ADD: &str = "mutation($input: AudienceMembersInput!) {
    addAudienceMembers(input: $input) { added audience { memberCount } } }";
const REMOVE: &str = "mutation($input: AudienceMembersInput!) {
    removeAudienceMembers(input: $input) { removed audience { memberCount } } }";

fn users(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("Ua{n:031x}")).collect()
}

#[tokio::test]
async fn ten_thousand_members_are_added_and_removed_in_a_call_and_once_more_is_nothing() {
    let served = Served::new().await;
    let store = &served.test.app.store;
    let change = async |query: &str, name: &str, users: &[String]| {
        let input = json!({ "audienceId": served.id("audience"), "userIds": users });
        let before = store.traffic().statements();
        let mut data = maintainer(&served).data(query, json!({ "input": input })).await;
        (data[name].take(), store.traffic().statements() - before)
    };
    // A token's first use is noted: not while statements are counted.
    maintainer(&served).data("{ me { id } }", Value::Null).await;
    let (one, all) = (users(1), users(10_000));
    let (first, small) = change(ADD, "addAudienceMembers", &one).await;
    assert_eq!(first, json!({ "added": 1, "audience": { "memberCount": 2 } }));
    let (added, large) = change(ADD, "addAudienceMembers", &all).await;
    assert_eq!(added, json!({ "added": 9_999, "audience": { "memberCount": 10_001 } }));
    assert_eq!(small, large, "the same number of statements");
    let (again, _) = change(ADD, "addAudienceMembers", &all).await;
    assert_eq!(again["added"], 0);
    let (removed, _) = change(REMOVE, "removeAudienceMembers", &all).await;
    assert_eq!(removed, json!({ "removed": 10_000, "audience": { "memberCount": 1 } }));
    let (again, _) = change(REMOVE, "removeAudienceMembers", &all).await;
    assert_eq!(again["removed"], 0);
}

#[tokio::test]
async fn one_wrong_user_id_is_named_by_its_place_and_nobody_is_added() {
    let served = Served::new().await;
    let mut given = users(5);
    given[3] = "U-is-short".to_owned();
    for query in [ADD, REMOVE] {
        for (users, field) in
            [(&given[..], "userIds[3]"), (&[], "userIds"), (&users(10_001), "userIds")]
        {
            let input = json!({ "audienceId": served.id("audience"), "userIds": users });
            let answer = maintainer(&served).graphql(query, json!({ "input": input })).await;
            assert_eq!(answer.code(), "INVALID", "{}", answer.body);
            let error = &answer.json()["errors"][0];
            assert_eq!(error["extensions"]["field"], field);
            assert!(error["message"].as_str().unwrap().starts_with(field), "{error}");
        }
    }
    let count = "SELECT count(*) FROM line_user";
    let known: i64 = rows(&served, count).await[0].try_get_by_index(0).unwrap();
    assert_eq!(known, 1, "only the one of the world");
}

#[tokio::test]
async fn users_and_audiences_are_found_by_what_is_known_of_them() {
    let served = Served::new().await;
    let ids = json!({ "id": served.id("lineOa"), "audience": served.id("audience") });
    let attributes = "mutation($id: ID!) { setLineUserAttributes(input: { lineOaId: $id,
        userId: \"U000000000000000000000000000000ff\", attributes: {} }) { userId } }";
    maintainer(&served).data(attributes, json!({ "id": served.id("lineOa") })).await;
    let query = "query($id: ID!, $audience: ID!) {
        all: lineUsers(lineOaId: $id) { totalCount nodes { userId followState attributes } }
        inside: lineUsers(lineOaId: $id, filter: { audienceId: $audience }) { nodes { userId } }
        found: lineUsers(lineOaId: $id, filter: { userIdContains: \"FF\" }) { nodes { userId } }
        friends: lineUsers(lineOaId: $id, filter: { followState: FOLLOWING }) { totalCount }
        audiences(lineOaId: $id, filter: { nameContains: \"regu\" },
            order: { field: NAME, direction: DESC }) { nodes { name
                lineOa { id project { id } } members { nodes { userId user { lineOa { id } } } } } }
        none: audiences(lineOaId: $id, filter: { nameContains: \"x\" }) { totalCount } }";
    let data = served.client(Role::Member).data(query, ids).await;
    assert_eq!(data["all"]["totalCount"], 2);
    let world = json!({ "userId": LINE_USER, "followState": "UNKNOWN", "attributes": {} });
    assert_eq!(data["all"]["nodes"][0], world);
    assert_eq!(data["inside"]["nodes"], json!([{ "userId": LINE_USER }]));
    let found = &data["found"]["nodes"];
    assert_eq!(*found, json!([{ "userId": "U000000000000000000000000000000ff" }]));
    assert_eq!(data["friends"]["totalCount"], 0);
    let line_oa = served.id("lineOa");
    let member = json!({ "userId": LINE_USER, "user": { "lineOa": { "id": line_oa } } });
    let audience = json!({
        "name": "Regulars", "members": { "nodes": [member] },
        "lineOa": { "id": line_oa, "project": { "id": served.id("project") } },
    });
    assert_eq!(data["audiences"]["nodes"], json!([audience]));
    assert_eq!(data["none"]["totalCount"], 0);
}

#[tokio::test]
async fn an_audience_of_another_account_is_no_filter_for_this_one() {
    let served = Served::new().await;
    let create = "mutation($id: ID!) { createLineOa(input: { projectId: $id, name: \"Other\",
        channelId: \"2\", channelSecret: \"s\", channelAccessToken: \"t\" }) { id } }";
    let made = maintainer(&served).data(create, json!({ "id": served.id("project") })).await;
    let other = &made["createLineOa"]["id"];
    let set = "mutation($id: ID!, $user: String!) { setLineUserAttributes(input: { lineOaId: $id,
        userId: $user, attributes: {} }) { userId } }";
    maintainer(&served).data(set, json!({ "id": other, "user": LINE_USER })).await;
    let query = "query($id: ID!, $audience: ID!) {
        lineUsers(lineOaId: $id, filter: { audienceId: $audience }) { totalCount } }";
    let variables = json!({ "id": other, "audience": served.id("audience") });
    let data = served.administrator().data(query, variables).await;
    assert_eq!(data["lineUsers"]["totalCount"], 0);
}
