//! Input that does not fit: a code, the field, a sentence of what would be right, and nothing
//! written.

use serde_json::{Value, json};

use crate::served::{Role, Served};
use crate::store_contract::world::execute;

const CREATE: &str =
    "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";

fn input(served: &Served, field: &str, value: Value) -> Value {
    let mut input = json!({
        "applicationId": served.id("application"), "name": "A", "runKey": "a",
        "cronExpression": "0 0 9 * * *",
    });
    input[field] = value;
    json!({ "input": input })
}

/// How many triggers and audit rows there are.
async fn written(served: &Served) -> Value {
    let query = "{ triggers { totalCount } auditLogs { totalCount } }";
    served.administrator().data(query, Value::Null).await
}

#[tokio::test]
async fn each_field_of_a_trigger_is_refused_with_code_field_and_sentence() {
    let served = Served::new().await;
    let long = "x".repeat(101);
    let cases = [
        ("name", json!(""), "INVALID", "required"),
        ("name", json!(" \t "), "INVALID", "required"),
        ("name", json!(long), "INVALID", "at most 100 characters, it has 101"),
        ("name", json!("a\u{1}b"), "INVALID", "control characters"),
        ("description", json!("x".repeat(1001)), "INVALID", "at most 1000 characters, it has 1001"),
        ("runKey", json!(""), "INVALID", "required"),
        ("runKey", json!(long), "INVALID", "at most 100 characters, it has 101"),
        ("cronExpression", json!(""), "CRON_FIELD_COUNT", "got 0"),
        ("cronExpression", json!("0 9 * * 1-5"), "CRON_FIELD_COUNT", "got 5"),
        ("cronExpression", json!("0 0 9 * * * 2026"), "CRON_FIELD_COUNT", "got 7"),
        ("cronExpression", json!("0 0 0 * * 7"), "CRON_OUT_OF_RANGE", "Sunday is written 0"),
        ("cronExpression", json!("60 * * * * *"), "CRON_OUT_OF_RANGE", "second"),
        ("cronExpression", json!("0 5* * * * *"), "CRON_SYNTAX", "minute"),
        ("cronExpression", json!("0 0 17-9 * * *"), "CRON_REVERSED_RANGE", "hour"),
        ("cronExpression", json!(", * * * * *"), "CRON_SYNTAX", "second"),
        ("cronExpression", json!("0 0 0 30 2 *"), "CRON_NEVER_FIRES", "never"),
        ("cronExpression", json!("0 0 0 L * *"), "CRON_UNSUPPORTED", "day of month"),
        ("cronExpression", json!("@every 5m"), "CRON_UNSUPPORTED", "@hourly"),
        ("cronExpression", json!("TZ=UTC 0 0 9 * * *"), "CRON_UNSUPPORTED", "timeZone"),
        ("cronExpression", json!("* ".repeat(200)), "CRON_TOO_LONG", "256"),
        ("timeZone", json!("Europe/Atlantis"), "UNKNOWN_TIME_ZONE", "Europe/Atlantis"),
        ("timeZone", json!(""), "UNKNOWN_TIME_ZONE", "zone"),
    ];
    let before = written(&served).await;
    for (field, value, code, part) in cases {
        let what = format!("{field} {value}");
        let variables = input(&served, field, value);
        let answer = served.client(Role::Maintainer).graphql(CREATE, variables).await;
        let error = answer.json()["errors"][0].take();
        assert_eq!(error["extensions"]["code"], code, "{what}: {error}");
        assert_eq!(error["extensions"]["field"], field, "{what}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part) && message.len() > 15, "{what}: {message}");
    }
    assert_eq!(written(&served).await, before, "nothing is written");
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_before_anything_runs() {
    let served = Served::new().await;
    let before = written(&served).await;
    for (field, value) in [
        ("name", Value::Null),
        ("name", json!(5)),
        ("enabled", json!("yes")),
        ("catchUp", json!("SOMETIMES")),
        ("colour", json!("red")),
        ("description", json!("a\u{0}b")),
    ] {
        let variables = input(&served, field, value);
        let answer = served.client(Role::Maintainer).graphql(CREATE, variables).await;
        let code = answer.code();
        assert!(
            ["BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED"].contains(&code.as_str()),
            "{answer:?}"
        );
        let null = answer.body.contains("null character");
        assert!(answer.body.contains(field) || null, "{answer:?}");
    }
    assert_eq!(written(&served).await, before, "nothing is written");
}

#[tokio::test]
async fn a_refused_change_leaves_the_trigger_as_it_was() {
    let served = Served::new().await;
    let update = "mutation($id: ID!, $input: UpdateTriggerInput!) {
        updateTrigger(id: $id, input: $input) { id } }";
    let read = "query($id: ID!) { trigger(id: $id) {
        name cronExpression timeZone enabled nextRunAt updatedAt } }";
    let id = json!({ "id": served.id("trigger") });
    let (before, rows) =
        (served.administrator().data(read, id.clone()).await, written(&served).await);
    for (input, field) in [
        (json!({ "name": "B", "cronExpression": "* * *" }), "cronExpression"),
        (json!({ "name": "B", "timeZone": "Mars/Olympus" }), "timeZone"),
        (json!({ "enabled": false, "runKey": " " }), "runKey"),
    ] {
        let variables = json!({ "id": served.id("trigger"), "input": input });
        let answer = served.client(Role::Maintainer).graphql(update, variables).await;
        assert_eq!(answer.json()["errors"][0]["extensions"]["field"], field, "{answer:?}");
    }
    assert_eq!(served.administrator().data(read, id).await, before);
    assert_eq!(written(&served).await, rows);
}

#[tokio::test]
async fn a_preview_shows_what_saving_would_do() {
    let served = Served::new().await;
    let query = "query($expression: String!, $zone: String, $after: DateTime) {
        cronPreview(expression: $expression, timeZone: $zone, after: $after, count: 2) {
            description timeZone occurrences { at local offset } error { code message field } } }";
    let anonymous = served.client(Role::Anonymous);
    let variables = json!({
        "expression": "0 30 2 * * *", "zone": "Europe/Berlin", "after": "2026-03-28T12:00:00Z",
    });
    let mut data = anonymous.data(query, variables).await;
    let preview = data["cronPreview"].take();
    // On the 29th the clock jumps from 2 to 3: the first instant after the gap.
    assert_eq!(
        preview["occurrences"],
        json!([
            { "at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00", "offset": "+02:00" },
            { "at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00", "offset": "+02:00" },
        ])
    );
    assert_eq!((&preview["timeZone"], &preview["error"]), (&json!("Europe/Berlin"), &Value::Null));
    assert!(preview["description"].is_string());
    for (expression, zone, field) in [
        ("0 9 * * 1-5", json!(null), "cronExpression"),
        ("@daily", json!("Mars/Olympus"), "timeZone"),
    ] {
        let variables = json!({ "expression": expression, "zone": zone });
        let mut data = anonymous.data(query, variables.clone()).await;
        let preview = data["cronPreview"].take();
        assert_eq!(preview["occurrences"], json!([]));
        // The same error as saving gives.
        let mut saved = input(&served, "cronExpression", json!(expression));
        saved["input"]["timeZone"] = zone;
        let saved = served.client(Role::Maintainer).graphql(CREATE, saved).await;
        let error = &saved.json()["errors"][0];
        assert_eq!(
            preview["error"],
            json!({
                "code": error["extensions"]["code"], "message": error["message"], "field": field,
            })
        );
    }
}

#[tokio::test]
async fn lists_without_pages_count_towards_the_rows_of_a_query() {
    let served = Served::new().await;
    let rows =
        "INSERT INTO trigger_log (trigger_on, status, scheduled_action_id, attempt, created_date)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        SELECT 'trigger', 'error', a.id, n.i, a.created_at FROM n, scheduled_action a
        WHERE a.trigger_id IS NOT NULL";
    execute(&served.test.app.store, rows).await;
    let asked = |times: usize| {
        let lists = (0..times).map(|n| format!("a{n}: attempts {{ number }} "));
        let lists = lists.collect::<String>();
        format!("query($id: ID!) {{ delivery(id: $id) {{ {lists} }} }}")
    };
    let id = json!({ "id": served.id("delivery") });
    let answer = served.client(Role::Member).graphql(&asked(20), id.clone()).await;
    assert!(answer.json().get("errors").is_none(), "{answer:?}");
    let answer = served.client(Role::Member).graphql(&asked(21), id).await;
    let error = answer.json()["errors"][0].take();
    assert_eq!(error["extensions"]["code"], "INVALID", "{error}");
    assert!(error["message"].as_str().unwrap().contains("more than 20000 rows"), "{error}");
}

#[tokio::test]
async fn a_method_that_a_path_does_not_take_and_a_field_that_is_given_twice_have_a_code() {
    let served = Served::new().await;
    let client = served.administrator();
    for path in ["/healthz", "/graphql", "/graphiql"] {
        let answer = client.delete(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "METHOD_NOT_ALLOWED"), "{path}");
    }
    let before = written(&served).await;
    let id = served.id("trigger");
    let twice = format!(
        "mutation {{ updateTrigger(id: \"{id}\", input: {{name: \"A\", name: \"B\"}}) {{ id }} }}"
    );
    let answer = client.graphql(&twice, Value::Null).await;
    assert_eq!(answer.code(), "GRAPHQL_VALIDATION_FAILED", "{}", answer.json());
    assert!(answer.json().to_string().contains("the field name twice"));
    assert_eq!(written(&served).await, before);
}
