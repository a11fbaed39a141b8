//! Rules that do not fit: a code, the path of what is wrong, a sentence, and nothing written.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{create, maintainer, message, try_create, try_update};
use crate::client::Answer;
use crate::served::{Role, Served};

async fn written(served: &Served) -> Value {
    let query = "{ triggerRules { totalCount } auditLogs { totalCount } }";
    served.administrator().data(query, Value::Null).await
}

fn told(answer: &Answer) -> (String, String, String) {
    let error = answer.json()["errors"][0].take();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (answer.code(), text(&error["extensions"]["field"]), text(&error["message"]))
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn each_part_of_a_rule_is_refused_with_code_path_and_sentence() {
    let served = Served::new().await;
    let audience = served.id("audience");
    let schedule = |other: Value| {
        let config = json!({ "cronExpression": "@daily", "audienceId": audience });
        json!({ "sourceType": "schedule", "sourceConfig": super::with(config, other) })
    };
    let source = |config: Value| json!({ "sourceConfig": config });
    let action = |config: Value| json!({ "actionConfig": config });
    let resume = |path: Value| {
        json!({
            "actionType": "resume_workflow", "actionConfig": {},
            "workflowId": served.id("workflow"), "workflowNodePath": path,
        })
    };
    let long = "x".repeat(501);
    let cases = [
        (json!({ "name": "" }), "INVALID", "name", "required"),
        (json!({ "name": "x".repeat(101) }), "INVALID", "name", "at most 100"),
        (json!({ "description": "x".repeat(1001) }), "INVALID", "description", "at most 1000"),
        (json!({ "sourceType": "tea" }), "UNKNOWN_SOURCE_TYPE", "sourceType", "booking_event"),
        (json!({ "actionType": "tea" }), "UNKNOWN_ACTION_TYPE", "actionType", "call_backend"),
        (json!({ "cooldownSeconds": -1 }), "INVALID", "cooldownSeconds", "from 0 to"),
        (json!({ "cooldownSeconds": 31_622_401 }), "INVALID", "cooldownSeconds", "31622400"),
        (source(json!([])), "INVALID", "sourceConfig", "object"),
        (source(json!({ "formIds": 1 })), "INVALID", "sourceConfig.formIds", "known are"),
        (source(json!({ "formId": {} })), "INVALID", "sourceConfig.formId", "text"),
        (source(json!({ "condition": "user." })), "INVALID", "sourceConfig.condition", "1"),
        (source(json!({ "formId": 1, "form_id": 1 })), "INVALID", "sourceConfig.formId", "once"),
        (
            json!({ "sourceType": "attribute_changed", "sourceConfig": {} }),
            "INVALID",
            "sourceConfig.attribute",
            "required",
        ),
        (
            schedule(json!({ "cronExpression": "0 9 * * *" })),
            "CRON_FIELD_COUNT",
            "sourceConfig.cronExpression",
            "six fields",
        ),
        (
            schedule(json!({ "timeZone": "Mars/One" })),
            "UNKNOWN_TIME_ZONE",
            "sourceConfig.timeZone",
            "Mars",
        ),
        (
            action(super::with(message("a"), json!({ "at": "09:00", "timeZone": "Mars/One" }))),
            "UNKNOWN_TIME_ZONE",
            "actionConfig.timeZone",
            "Mars",
        ),
        (
            schedule(json!({ "audienceId": "nope" })),
            "INVALID",
            "sourceConfig.audienceId",
            "must be an id such as",
        ),
        (
            json!({
                "actionType": "call_backend",
                "actionConfig": { "applicationId": "nope", "runKey": "r" },
            }),
            "INVALID",
            "actionConfig.applicationId",
            "must be an id such as",
        ),
        (action(json!({})), "INVALID", "actionConfig.messages", "required"),
        (action(message("{{ user")), "INVALID", "actionConfig.messages[0].text", ""),
        (
            action(super::with(message("a"), json!({ "delay": "soon" }))),
            "INVALID",
            "actionConfig.delay",
            "",
        ),
        (
            action(super::with(message("a"), json!({ "expiresAfter": "0s" }))),
            "INVALID",
            "actionConfig.expiresAfter",
            "1s",
        ),
        (
            json!({ "actionType": "resume_workflow", "actionConfig": {} }),
            "INVALID",
            "workflowId",
            "resume_workflow",
        ),
        (resume(Value::Null), "INVALID", "workflowNodePath", "resume_workflow"),
        (resume(json!("")), "INVALID", "workflowNodePath", "500"),
        (resume(json!(long)), "INVALID", "workflowNodePath", "500"),
        (json!({ "workflowNodePath": "a" }), "INVALID", "workflowNodePath", "workflowId"),
    ];
    let rule = create(&served, json!({})).await;
    let before = written(&served).await;
    for (other, code, field, part) in cases {
        for update in [false, true] {
            let answer = match update {
                false => try_create(&served, other.clone()).await,
                true => try_update(&served, &rule["id"], other.clone()).await,
            };
            let (its_code, its_field, message) = told(&answer);
            let what = format!("{other} (update: {update}): {}", answer.body);
            assert_eq!((its_code.as_str(), its_field.as_str()), (code, field), "{what}");
            assert!(message.contains(part) && message.len() > 15, "{what}");
        }
    }
    assert_eq!(written(&served).await, before, "nothing is written");
}

#[tokio::test]
async fn what_another_project_or_line_oa_has_is_like_what_nobody_has_and_the_field_is_named() {
    let served = Served::new().await;
    let other = served.id("otherApplication");
    let outsider = served.client(Role::Outsider);
    let made = outsider
        .data(
            "mutation($id: ID!) { createWorkflow(input: { applicationId: $id, name: \"w\" }) { id } }",
            json!({ "id": other }),
        )
        .await;
    let workflow = made["createWorkflow"]["id"].as_str().unwrap().to_owned();
    let line_oa = "mutation($id: ID!) { createLineOa(input: { projectId: $id, name: \"Other\",
        channelId: \"2\", channelSecret: \"s\", channelAccessToken: \"t\" }) { id } }";
    let made = maintainer(&served).data(line_oa, json!({ "id": served.id("project") })).await;
    let audience = "mutation($id: ID!) {
        createAudience(input: { lineOaId: $id, name: \"a\" }) { id } }";
    let made =
        maintainer(&served).data(audience, json!({ "id": made["createLineOa"]["id"] })).await;
    let audience = made["createAudience"]["id"].as_str().unwrap().to_owned();
    let before = written(&served).await;
    type Refers<'a> = (&'a str, &'a str, fn(&str) -> Value);
    let refers: [Refers<'_>; 4] = [
        ("actionConfig.applicationId", other, |id| {
            json!({
                "actionType": "call_backend",
                "actionConfig": { "applicationId": id, "runKey": "r" },
            })
        }),
        ("workflowId", &workflow, |id| json!({ "workflowId": id })),
        (
            "actionConfig.audienceId",
            &audience,
            |id| json!({ "actionType": "add_to_audience", "actionConfig": { "audienceId": id } }),
        ),
        ("sourceConfig.audienceId", &audience, |id| {
            let config = json!({ "cronExpression": "@daily", "audienceId": id });
            json!({ "sourceType": "schedule", "sourceConfig": config })
        }),
    ];
    for (field, foreign, refer) in refers {
        let missing = Uuid::now_v7().to_string();
        let real = try_create(&served, refer(foreign)).await;
        assert_eq!(real.body, try_create(&served, refer(&missing)).await.body);
        let (code, its_field, message) = told(&real);
        assert_eq!((code.as_str(), its_field.as_str()), ("NOT_FOUND", field), "{message}");
        assert!(message.starts_with(field), "{message}");
    }
    let nonsense = try_create(&served, json!({ "workflowId": "no id" })).await;
    assert_eq!(told(&nonsense).1, "workflowId");
    assert_eq!(written(&served).await, before, "nothing is written");
}

#[tokio::test]
async fn a_new_type_needs_a_configuration_that_fits_it() {
    let served = Served::new().await;
    let rule = create(&served, json!({ "sourceConfig": { "formId": "f" } })).await;
    let answer = try_update(&served, &rule["id"], json!({ "sourceType": "booking_event" })).await;
    assert_eq!(told(&answer).1, "sourceConfig.formId");
    let input = json!({ "sourceType": "booking_event", "sourceConfig": { "status": "booked" } });
    assert_eq!(try_update(&served, &rule["id"], input).await.code(), "");
}

#[tokio::test]
async fn a_null_character_in_a_configuration_is_refused() {
    let served = Served::new().await;
    let before = written(&served).await;
    for other in [
        json!({ "actionConfig": message("a\u{0}b") }),
        json!({ "actionConfig": { "messages": [
            { "type": "flex", "altText": "x", "contents": { "a\u{0}b": 1 } },
        ] } }),
        json!({ "sourceConfig": { "formId": "a\u{0}b" } }),
        json!({ "workflowId": served.id("workflow"), "workflowNodePath": "a\u{0}b" }),
    ] {
        let answer = try_create(&served, other.clone()).await;
        assert!(
            ["INVALID", "BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED"]
                .contains(&answer.code().as_str()),
            "{other}: {}",
            answer.body
        );
    }
    assert_eq!(written(&served).await, before);
}
