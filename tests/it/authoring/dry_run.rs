//! Dry runs: each gate, what it saw, and the action, without anything being done.

use serde_json::{Value, json};

use super::{create, draft, form_sent, message, queued, update, with};
use crate::client::Answer;
use crate::served::{LINE_USER, Role, Served};

const TEST: &str = "query($id: ID, $input: CreateTriggerRuleInput, $event: SampleEventInput) {
    testTriggerRule(id: $id, input: $input, event: $event) { wouldFire heldUntil
        withoutValue
        gates { gate passed saw reason } action { type config executeAt expiresAt } } }";

async fn ask(served: &Served, variables: Value) -> Answer {
    served.client(Role::Member).graphql(TEST, variables).await
}

async fn tried(served: &Served, variables: Value) -> Value {
    ask(served, variables).await.data()["testTriggerRule"].take()
}

/// The user of the world sends form `f`.
fn form() -> Value {
    json!({ "userId": LINE_USER, "payload": { "form_id": "f", "answers": { "name": "Ada" } } })
}

fn gate<'a>(run: &'a Value, name: &str) -> &'a Value {
    let mut gates = run["gates"].as_array().unwrap().iter();
    gates.find(|gate| gate["gate"] == name).unwrap_or_else(|| panic!("no {name}: {run}"))
}

fn failed(run: &Value) -> Vec<&str> {
    let gates = run["gates"].as_array().unwrap().iter();
    gates
        .filter(|gate| gate["passed"] == false)
        .map(|gate| gate["gate"].as_str().unwrap())
        .collect()
}

/// All that a dry run could leave behind.
async fn everything(served: &Served) -> Value {
    let query = "{ auditLogs { totalCount } triggerRules { nodes { id updatedAt } }
        lineOas { nodes { users { nodes { userId } } } } }";
    served.administrator().data(query, Value::Null).await
}

#[tokio::test]
async fn a_rule_that_is_not_saved_answers_each_gate_and_the_rendered_action_and_leaves_no_trace() {
    let served = Served::new().await;
    let before = everything(&served).await;
    let action = with(
        message("Hello {{ event.payload.answers.name }}"),
        json!({ "delay": "1h", "expiresAfter": "1d" }),
    );
    let condition = json!({ "condition": "event.payload.answers.name == 'Ada'" });
    let input = with(draft(&served), json!({ "actionConfig": action, "sourceConfig": condition }));
    let run = tried(&served, json!({ "input": input, "event": form() })).await;
    let names: Vec<_> = run["gates"].as_array().unwrap().iter().map(|gate| &gate["gate"]).collect();
    let asked = [
        "enabled",
        "scope",
        "source",
        "condition",
        "user",
        "expiry",
        "action",
        "frequency",
        "cooldown",
        "waiting",
    ];
    assert_eq!(names, asked);
    assert_eq!(run["wouldFire"], true, "{run}");
    assert_eq!(run["heldUntil"], Value::Null);
    let done = json!({
        "type": "send_message", "config": message("Hello Ada"),
        "executeAt": "2026-03-02T13:00:30Z", "expiresAt": "2026-03-03T13:00:30Z",
    });
    assert_eq!(run["action"], done);
    assert_eq!(gate(&run, "condition")["saw"], "it is true");
    assert!(run["gates"].as_array().unwrap().iter().all(|gate| gate["reason"].is_null()));
    assert_eq!(everything(&served).await, before);
    let unknown = json!({ "userId": "U000000000000000000000000000000aa",
        "payload": { "formId": "f", "answers": { "name": "Ada" } } });
    let run = tried(&served, json!({ "input": input, "event": unknown })).await;
    assert_eq!(run["wouldFire"], true, "the user need not be known");
    assert_eq!(everything(&served).await, before, "nor becomes known");
}

#[tokio::test]
async fn gates_behind_one_that_is_not_passed_are_asked_too() {
    let served = Served::new().await;
    let config = json!({ "formId": "g", "condition": "event.payload.answers.name == 'Bob'" });
    let rule = create(&served, json!({ "sourceConfig": config })).await;
    let event = json!({ "payload": { "formId": "f", "answers": { "name": "Ada" } } });
    let run = tried(&served, json!({ "id": rule["id"], "event": event })).await;
    assert_eq!(run["wouldFire"], false);
    assert_eq!(failed(&run), ["enabled", "source", "condition", "user"]);
    let told = |name: &str| (gate(&run, name)["saw"].clone(), gate(&run, name)["reason"].clone());
    assert_eq!(told("enabled"), (json!("the rule is disabled"), json!("disabled")));
    assert_eq!(told("source"), (json!("the form is f, not g"), json!("source")));
    assert_eq!(told("condition"), (json!("it is false"), json!("condition")));
    assert_eq!(told("user").1, "no_user");
    assert_eq!(run["action"]["config"], message("Thank you"), "what it would do");
    let other = json!({ "type": "friend_track_event_inserted", "userId": LINE_USER });
    let run = tried(&served, json!({ "id": rule["id"], "event": other })).await;
    assert!(failed(&run).contains(&"source"), "{run}");
}

#[tokio::test]
async fn frequency_and_cooldown_tell_when_it_fired_last_and_until_when_they_hold() {
    let served = Served::new().await;
    let action = with(message("Hi"), json!({ "delay": "1h" }));
    let other = json!({ "enabled": true, "cooldownSeconds": 7200, "actionConfig": action });
    let rule = create(&served, other).await;
    let ask = json!({ "id": rule["id"], "event": form() });
    let run = tried(&served, ask.clone()).await;
    assert_eq!(failed(&run), Vec::<&str>::new(), "{run}");
    assert!(gate(&run, "frequency")["saw"].as_str().unwrap().starts_with("once_per_hour"));
    form_sent(&served, "f").await;
    execute(&served, "UPDATE scheduled_action SET status = 'completed'").await;
    let run = tried(&served, ask.clone()).await;
    assert_eq!(failed(&run), ["frequency", "cooldown"]);
    assert_eq!(run["heldUntil"], "2026-03-02T14:00:30Z", "the longer of the two");
    let saw = gate(&run, "frequency")["saw"].as_str().unwrap();
    assert!(saw.contains("last fired at 2026-03-02T12:00:30"), "{saw}");
    served.test.advance(3600);
    assert_eq!(failed(&tried(&served, ask.clone()).await), ["cooldown"]);
    served.test.advance(3600);
    let run = tried(&served, ask.clone()).await;
    assert_eq!((&run["wouldFire"], &run["heldUntil"]), (&json!(true), &Value::Null));
    update(&served, &rule["id"], json!({ "frequency": "ONCE" })).await;
    let run = tried(&served, ask).await;
    assert_eq!(failed(&run), ["frequency"]);
    assert_eq!(run["heldUntil"], Value::Null, "for ever");
    assert!(gate(&run, "frequency")["saw"].as_str().unwrap().contains("for ever"));
}

#[tokio::test]
async fn what_waits_for_the_user_holds_back_unless_the_rule_has_no_limit() {
    let served = Served::new().await;
    let action = with(message("Hi"), json!({ "delay": "3d" }));
    let rule = create(&served, json!({ "enabled": true, "actionConfig": action })).await;
    form_sent(&served, "f").await;
    assert_eq!(queued(&served, &rule["id"]).await.len(), 1);
    served.test.advance(3600);
    let ask = json!({ "id": rule["id"], "event": form() });
    let run = tried(&served, ask.clone()).await;
    assert_eq!(failed(&run), ["waiting"], "{run}");
    let saw = gate(&run, "waiting")["saw"].as_str().unwrap();
    assert!(saw.contains("2026-03-05T12:00:30"), "{saw}");
    assert_eq!(queued(&served, &rule["id"]).await.len(), 1, "nothing more is queued");
    update(&served, &rule["id"], json!({ "frequency": "EVERY_TIME" })).await;
    assert_eq!(tried(&served, ask).await["wouldFire"], true);
}

#[tokio::test]
async fn what_is_too_late_is_held_back_by_expiry() {
    let served = Served::new().await;
    let booking = json!({ "sourceType": "booking_event", "sourceConfig": { "offset": "-1d" } });
    let input = with(draft(&served), booking);
    let at = |starts: &str| {
        json!({ "userId": LINE_USER,
            "payload": { "bookingId": "b", "status": "booked", "startsAt": starts } })
    };
    let late = json!({ "input": input, "event": at("2026-03-02T13:00:00Z") });
    let run = tried(&served, late).await;
    assert_eq!(failed(&run), ["expiry"]);
    assert_eq!(gate(&run, "expiry")["reason"], "expired");
    assert_eq!(gate(&run, "subject")["passed"], true);
    let early = json!({ "input": input, "event": at("2026-03-09T13:00:00Z") });
    let run = tried(&served, early).await;
    assert_eq!(
        (&run["wouldFire"], &run["action"]["executeAt"]),
        (&json!(true), &json!("2026-03-08T13:00:00Z"))
    );
}

#[tokio::test]
async fn what_can_not_be_rendered_says_where_and_why() {
    let served = Served::new().await;
    let action = json!({ "actionConfig": message("{{ event.payload.answers.missing.name }}") });
    let input = with(draft(&served), action);
    let run = tried(&served, json!({ "input": input, "event": form() })).await;
    assert_eq!(failed(&run), ["action"], "{run}");
    assert_eq!(gate(&run, "action")["reason"], "not_rendered");
    let saw = gate(&run, "action")["saw"].as_str().unwrap();
    assert!(saw.starts_with("actionConfig.messages[0].text"), "{saw}");
    assert_eq!(run["action"], Value::Null);
}

#[tokio::test]
async fn a_resume_of_a_workflow_that_is_gone_would_fail() {
    let served = Served::new().await;
    let ask = json!({ "id": served.id("triggerRule"), "event": form() });
    assert_eq!(tried(&served, ask.clone()).await["wouldFire"], true);
    let delete = "mutation($id: ID!) { deleteWorkflow(id: $id) { id } }";
    super::maintainer(&served).data(delete, json!({ "id": served.id("workflow") })).await;
    let run = tried(&served, ask).await;
    assert_eq!(failed(&run), ["workflow"]);
    assert_eq!(gate(&run, "workflow")["reason"], "workflow_deleted");
}

#[tokio::test]
async fn a_rule_by_the_schedule_is_tried_without_an_event() {
    let served = Served::new().await;
    let config = json!({ "cronExpression": "@daily", "audienceId": served.id("audience") });
    let other = json!({
        "sourceType": "schedule", "sourceConfig": config,
        "actionConfig": message("{{ event.payload.scheduledAt }} {{ user.id }}"),
    });
    let input = with(draft(&served), other);
    let run = tried(&served, json!({ "input": input })).await;
    assert_eq!(failed(&run), ["user"], "no user is named: {run}");
    let event = json!({ "userId": LINE_USER });
    let run = tried(&served, json!({ "input": input, "event": event })).await;
    assert_eq!(run["wouldFire"], true, "{run}");
    let text = run["action"]["config"]["messages"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("2026-03-02T12:00:30") && text.ends_with(LINE_USER), "{text}");
}

#[tokio::test]
async fn a_rule_by_the_schedule_does_not_fire_for_who_is_not_in_its_audience() {
    let served = Served::new().await;
    let config = json!({ "cronExpression": "@daily", "audienceId": served.id("audience") });
    let other = json!({
        "sourceType": "schedule", "sourceConfig": config, "actionConfig": message("Hello"),
    });
    let input = with(draft(&served), other);
    let stranger = "U99999999999999999999999999999999";
    let run = tried(&served, json!({ "input": input, "event": { "userId": stranger } })).await;
    assert_eq!((failed(&run), &run["wouldFire"]), (vec!["audience"], &json!(false)), "{run}");
    assert_eq!(gate(&run, "audience")["reason"], "audience");
    let run = tried(&served, json!({ "input": input, "event": { "userId": LINE_USER } })).await;
    assert_eq!(gate(&run, "audience")["passed"], true, "{run}");
}

#[tokio::test]
async fn what_can_not_be_tried_is_refused_on_its_field() {
    let served = Served::new().await;
    let id = served.id("triggerRule");
    let input = draft(&served);
    let event = |other: Value| with(form(), other);
    let long = json!({ "formId": "f", "answers": { "a": "x".repeat(70_000) } });
    let cases = [
        (json!({ "event": form() }), "INVALID", "id"),
        (json!({ "id": id, "input": input, "event": form() }), "INVALID", "id"),
        (json!({ "id": id }), "INVALID", "event"),
        (
            json!({ "id": id, "event": event(json!({ "type": "tea" })) }),
            "UNKNOWN_SOURCE_TYPE",
            "event.type",
        ),
        (
            json!({ "id": id, "event": event(json!({ "userId": "ada" })) }),
            "INVALID",
            "event.userId",
        ),
        (
            json!({ "id": id, "event": event(json!({ "payload": {} })) }),
            "INVALID",
            "event.payload.formId",
        ),
        (json!({ "id": id, "event": event(json!({ "payload": [] })) }), "INVALID", "event.payload"),
        (
            json!({ "id": id, "event": event(json!({ "payload": long })) }),
            "INVALID",
            "event.payload",
        ),
        (
            json!({ "input": with(draft(&served), json!({ "name": "" })), "event": form() }),
            "INVALID",
            "name",
        ),
        (
            json!({ "input": with(draft(&served), json!({ "actionConfig": {} })), "event": form() }),
            "INVALID",
            "actionConfig.messages",
        ),
    ];
    for (variables, code, field) in cases {
        let answer = ask(&served, variables).await;
        assert_eq!(answer.code(), code, "{field}: {}", answer.body);
        let error = &answer.json()["errors"][0];
        assert_eq!(error["extensions"]["field"], field, "{error}");
        assert!(error["message"].as_str().unwrap().len() > 15, "{error}");
    }
}

#[tokio::test]
async fn an_event_that_would_be_refused_when_it_came_is_refused() {
    let served = Served::new().await;
    let deep = (0..70).fold(json!(1), |inner, _| json!({ "a": inner }));
    for (part, field) in [
        (json!({ "occurredAt": "1969-12-31T23:59:59Z" }), "event.occurredAt"),
        (json!({ "occurredAt": "2030-01-01T00:00:00Z" }), "event.occurredAt"),
        (json!({ "payload": { "formId": "f", "answers": deep } }), "event.payload.answers.a.a.a.a"),
    ] {
        let event = with(form(), part);
        let answer = ask(&served, json!({ "id": served.id("triggerRule"), "event": event })).await;
        let expected = json!({ "code": "INVALID", "field": field });
        assert_eq!(answer.json()["errors"][0]["extensions"], expected, "{}", answer.body);
    }
}

async fn execute(served: &Served, sql: &str) {
    use sea_orm::ConnectionTrait;
    let tx = served.test.app.store.begin().await.unwrap();
    tx.execute_unprepared(sql).await.unwrap();
    tx.commit_unaudited().await.unwrap();
}

#[tokio::test]
async fn a_dry_run_names_what_a_template_speaks_of_and_has_no_value() {
    let served = Served::new().await;
    let text = "{{ event.payload.answers.name }} {{ event.payload.answers.nmae }} \
        {{ user.attributes.nick | default('you') }} {{ user.attributes.nick }}";
    let input = with(draft(&served), json!({ "actionConfig": message(text) }));
    let run = tried(&served, json!({ "input": input, "event": form() })).await;
    let missing = json!(["event.payload.answers.nmae", "user.attributes.nick"]);
    assert_eq!((&run["wouldFire"], &run["withoutValue"]), (&json!(true), &missing), "{run}");
    let input = with(draft(&served), json!({ "actionConfig": message("Hello") }));
    let run = tried(&served, json!({ "input": input, "event": form() })).await;
    assert_eq!(run["withoutValue"], json!([]));
}

#[tokio::test]
async fn a_template_that_speaks_of_what_no_event_has_is_not_saved() {
    let served = Served::new().await;
    for (text, right) in [
        ("{{ user.name }}", "`user.name` is not known; user has id, following, attributes"),
        ("{{ event.answers.name }}", "event has id, type, userId, occurredAt, payload"),
        ("{% if now.year %}a{% endif %}", "now has no parts"),
        ("{{ client.name }}", "known are event, user and now"),
    ] {
        let input = with(draft(&served), json!({ "actionConfig": message(text) }));
        let answer = ask(&served, json!({ "input": input, "event": form() })).await;
        let error = &answer.json()["errors"][0];
        let field = "actionConfig.messages[0].text";
        assert_eq!(error["extensions"], json!({ "code": "INVALID", "field": field }), "{error}");
        assert!(error["message"].as_str().unwrap().contains(right), "{error}");
    }
}
