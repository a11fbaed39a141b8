//! Filters, orders and pages.

use chrono::Duration;
use serde_json::{Value, json};
use trigger_manager::domain::cycle::CycleStatus;
use trigger_manager::store::cycle;

use super::ask;
use crate::served::{LINE_USER, Served, within};

const STRANGER: &str = "U000000000000000000000000000000ff";

/// The ids that a list answers, in its order, after its total was checked.
async fn listed(served: &Served, list: &str, filter: Value) -> Vec<String> {
    let kind = match list {
        "triggerLogs" => "TriggerLogFilter",
        "scheduledActions" => "ScheduledActionFilter",
        "scheduledTriggerExecutions" => "ScheduledTriggerExecutionFilter",
        _ => "EventFilter",
    };
    let (more, line_oa) = match list {
        "events" => (", $lineOa: ID!", "lineOaId: $lineOa, "),
        _ => ("", ""),
    };
    let query = format!(
        "query($filter: {kind}{more}) {{ {list}({line_oa}filter: $filter) {{
            totalCount nodes {{ id }} }} }}"
    );
    let mut variables = json!({ "filter": filter });
    if list == "events" {
        variables["lineOa"] = json!(served.id("lineOa"));
    }
    let data = ask(served, &query, variables).await;
    let nodes = data[list]["nodes"].as_array().unwrap();
    assert_eq!(data[list]["totalCount"], nodes.len(), "{list} {filter}");
    nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_are_found_by_each_filter() {
    let served = Served::new().await;
    let first = served.id("event").to_owned();
    served.test.advance(10);
    let mut other = served.new_event("second");
    (other.event_type, other.user_id) = ("booking_event".into(), Some(STRANGER.into()));
    within!(served, |tx| trigger_manager::store::event::insert(&*tx, &[other.clone()]));
    let (other, later) = (other.id.to_string(), served.test.app.now());
    let both = vec![other.clone(), first.clone()];
    for (filter, expected) in [
        (json!({}), both.clone()),
        (json!({ "statuses": [] }), both),
        (json!({ "userId": LINE_USER }), vec![first.clone()]),
        (json!({ "type": "booking_event" }), vec![other.clone()]),
        (json!({ "eventId": "first" }), vec![first.clone()]),
        (json!({ "statuses": ["PENDING", "FAILED"] }), vec![other.clone()]),
        (json!({ "since": later }), vec![other.clone()]),
        (json!({ "until": later }), vec![first.clone()]),
        (json!({ "until": later, "type": "booking_event" }), vec![]),
    ] {
        assert_eq!(listed(&served, "events", filter.clone()).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn queued_work_is_found_by_each_filter() {
    let served = Served::new().await;
    served.test.advance(10);
    let mut push = served.new_push();
    push.concern.user_id = Some(STRANGER.into());
    (push.cause.trigger_rule_id, push.cause.event_id) = (None, None);
    served.queue(&[&push]).await;
    let (push, later) = (push.id.to_string(), served.test.app.now());
    let waiting = served.id("waitingAction").to_owned();
    let cancelled = served.id("cancelledAction").to_owned();
    let calls = vec![cancelled.clone(), waiting.clone()];
    let all = vec![push.clone(), cancelled.clone(), waiting.clone()];
    let id = |name: &str| json!(served.id(name));
    for (filter, expected) in [
        (json!({ "lineOaId": id("lineOa") }), all),
        (json!({ "triggerRuleId": id("rule") }), calls.clone()),
        (json!({ "eventId": id("event") }), calls.clone()),
        (json!({ "userId": STRANGER }), vec![push.clone()]),
        (json!({ "workflowId": id("workflow") }), calls.clone()),
        (json!({ "applicationId": id("application") }), calls.clone()),
        (json!({ "actionType": "send_message" }), vec![push.clone()]),
        (json!({ "statuses": ["PENDING"] }), vec![push.clone(), waiting.clone()]),
        (json!({ "since": later }), vec![push.clone()]),
        (json!({ "until": later }), calls),
        (json!({ "actionType": "send_message", "statuses": ["CANCELLED"] }), vec![]),
    ] {
        assert_eq!(listed(&served, "scheduledActions", filter.clone()).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn cycles_are_found_by_each_filter() {
    let served = Served::new().await;
    let first = served.id("execution").to_owned();
    served.test.advance(10);
    let mut other = served.new_cycle();
    (other.status, other.trigger_rule_id) = (CycleStatus::Processing, uuid::Uuid::now_v7().into());
    within!(served, |tx| cycle::insert(&*tx, &other));
    let (other, later) = (other.id.to_string(), served.test.app.now());
    for (filter, expected) in [
        (json!({ "lineOaId": served.id("lineOa") }), vec![other.clone(), first.clone()]),
        (json!({ "triggerRuleId": served.id("rule") }), vec![first.clone()]),
        (json!({ "statuses": ["PROCESSING"] }), vec![other.clone()]),
        (json!({ "since": later }), vec![other.clone()]),
        (json!({ "until": later }), vec![first.clone()]),
    ] {
        let found = listed(&served, "scheduledTriggerExecutions", filter.clone()).await;
        assert_eq!(found, expected, "{filter}");
    }
}

#[tokio::test]
async fn the_log_is_found_by_each_filter_and_reads_newest_first() {
    let served = Served::new().await;
    served.test.advance(10);
    let mut push = served.new_push();
    push.concern.user_id = Some(STRANGER.into());
    (push.cause.trigger_rule_id, push.cause.event_id) = (None, None);
    let mut held = served.new_log(&push);
    (held.status, held.reason) = ("held_back", Some("frequency"));
    served.log(&[held]).await;
    let later = served.test.app.now();
    let all = listed(&served, "triggerLogs", json!({})).await;
    assert_eq!(all.len(), 3);
    let numbers: Vec<i64> = all.iter().map(|id| id.parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a > b), "{numbers:?}");
    let (new, old) = (vec![all[0].clone()], all[1..].to_vec());
    let id = |name: &str| json!(served.id(name));
    for (filter, expected) in [
        (json!({ "lineOaId": id("lineOa") }), all.clone()),
        (json!({ "triggerRuleId": id("rule") }), old.clone()),
        (json!({ "userId": STRANGER }), new.clone()),
        (json!({ "eventId": id("event") }), old.clone()),
        (json!({ "scheduledActionId": push.id }), new.clone()),
        (json!({ "statuses": ["HELD_BACK", "ERROR"] }), new.clone()),
        (json!({ "reason": "frequency" }), new.clone()),
        (json!({ "since": later }), new.clone()),
        (json!({ "until": later }), old),
        (json!({ "reason": "frequency", "statuses": ["QUEUED"] }), vec![]),
    ] {
        assert_eq!(listed(&served, "triggerLogs", filter.clone()).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn a_user_shows_what_happened_to_them_here_and_nothing_of_others() {
    let served = Served::new().await;
    let mut other = served.new_event("second");
    other.user_id = Some(STRANGER.into());
    served.store_event(&other).await;
    let mut push = served.new_push();
    push.concern.user_id = Some(STRANGER.into());
    served.queue(&[&push]).await;
    served.log(&[served.new_log(&push)]).await;
    let query = "query($lineOa: ID!, $user: String!) {
        lineUser(lineOaId: $lineOa, userId: $user) {
            events { nodes { id } }
            scheduledActions(filter: { statuses: [PENDING] }) { nodes { id } }
            logs { totalCount } } }";
    let variables = json!({ "lineOa": served.id("lineOa"), "user": LINE_USER });
    let data = ask(&served, query, variables).await;
    let expected = json!({
        "events": { "nodes": [{ "id": served.id("event") }] },
        "scheduledActions": { "nodes": [{ "id": served.id("waitingAction") }] },
        "logs": { "totalCount": 2 },
    });
    assert_eq!(data["lineUser"], expected);
}

#[tokio::test]
async fn pages_of_each_list_walk_it_both_ways_without_gap_or_repeat() {
    let served = Served::new().await;
    for number in 0..4 {
        served.store_event(&served.new_event(&format!("more {number}"))).await;
        let mut cycle = served.new_cycle();
        cycle.scheduled_at += Duration::seconds(number + 1);
        within!(served, |tx| cycle::insert(&*tx, &cycle));
        let call = served.new_call();
        served.queue(&[&call]).await;
        served.log(&[served.new_log(&call)]).await;
    }
    let line_oa = format!("lineOaId: \"{}\", ", served.id("lineOa"));
    for (list, more, field) in [
        ("events", line_oa.as_str(), "RECEIVED_AT"),
        ("scheduledActions", "", "CREATED_AT"),
        ("scheduledTriggerExecutions", "", "SCHEDULED_AT"),
        ("triggerLogs", "", "CREATED_AT"),
    ] {
        let mut all = listed(&served, list, json!({})).await;
        let (mut forwards, mut after) = (Vec::new(), Value::Null);
        loop {
            let query = format!(
                "query($after: String) {{ {list}({more}first: 2, after: $after,
                    order: {{ field: {field}, direction: ASC }}) {{
                    nodes {{ id }} pageInfo {{ hasNextPage endCursor }} }} }}"
            );
            let page = ask(&served, &query, json!({ "after": after })).await[list].take();
            let nodes = page["nodes"].as_array().unwrap().iter();
            forwards.extend(nodes.map(|node| node["id"].as_str().unwrap().to_owned()));
            after = page["pageInfo"]["endCursor"].clone();
            if page["pageInfo"]["hasNextPage"] == false {
                break;
            }
        }
        let query = format!("{{ {list}({more}last: 2) {{ nodes {{ id }} }} }}");
        let last = ask(&served, &query, Value::Null).await[list]["nodes"].take();
        let oldest = [all[all.len() - 2].clone(), all[all.len() - 1].clone()];
        assert_eq!(last, json!([{ "id": oldest[0] }, { "id": oldest[1] }]), "{list}");
        all.reverse();
        assert_eq!(forwards, all, "{list}");
        assert!(all.len() >= 5, "{list}");
    }
}

#[tokio::test]
async fn a_filter_that_can_be_no_text_is_refused_with_its_field() {
    let served = Served::new().await;
    let text = "x".repeat(101);
    for (query, field) in [
        ("scheduledActions(filter: { userId: $text })", "userId"),
        ("triggerLogs(filter: { reason: $text })", "reason"),
    ] {
        let query = format!("query($text: String) {{ {query} {{ totalCount }} }}");
        let client = served.client(crate::served::Role::Member);
        let answer = client.graphql(&query, json!({ "text": text })).await;
        assert_eq!(answer.code(), "INVALID", "{}", answer.body);
        assert_eq!(answer.json()["errors"][0]["extensions"]["field"], field);
    }
}

/// What hangs on one thing, with a condition that names it and one that names another: the outer
/// query, the list, and the conditions.
const NESTED: [(&str, &str, &str, [&str; 2]); 14] = [
    ("triggerRule(id: $rule)", "logs", "triggerRuleId", ["$rule", "$other"]),
    ("triggerRule(id: $rule)", "scheduledActions", "triggerRuleId", ["$rule", "$other"]),
    ("triggerRule(id: $rule)", "executions", "triggerRuleId", ["$rule", "$other"]),
    ("event(id: $event)", "scheduledActions", "eventId", ["$event", "$other"]),
    ("event(id: $event)", "logs", "eventId", ["$event", "$other"]),
    ("scheduledAction(id: $action)", "logs", "scheduledActionId", ["$action", "$other"]),
    ("scheduledTriggerExecution(id: $execution)", "logs", "eventId", ["$execution", "$other"]),
    (
        "lineUser(lineOaId: $lineOa, userId: $user)",
        "scheduledActions",
        "lineOaId",
        ["$lineOa", "$other"],
    ),
    (
        "lineUser(lineOaId: $lineOa, userId: $user)",
        "scheduledActions",
        "userId",
        ["$user", "\"U1\""],
    ),
    ("lineUser(lineOaId: $lineOa, userId: $user)", "logs", "lineOaId", ["$lineOa", "$other"]),
    ("lineUser(lineOaId: $lineOa, userId: $user)", "logs", "userId", ["$user", "\"U1\""]),
    ("lineUser(lineOaId: $lineOa, userId: $user)", "events", "userId", ["$user", "\"U1\""]),
    ("trigger(id: $trigger)", "occurrences", "triggerId", ["$trigger", "$other"]),
    ("backend(id: $backend)", "deliveries", "backendId", ["$backend", "$other"]),
];

#[tokio::test]
async fn a_condition_on_what_a_list_hangs_on_must_hold_like_any_other() {
    let served = Served::new().await;
    let mut of_cycle = served.new_push();
    of_cycle.cause.event_id = None;
    let mut log = served.new_log(&of_cycle);
    log.event_id = Some(served.id("execution").parse().unwrap());
    served.log(&[log]).await;
    for (outer, list, condition, [own, other]) in NESTED {
        let own = format!("(filter: {{ {condition}: {own} }})");
        let other = format!("(filter: {{ {condition}: {other} }})");
        let declared = [
            ("rule", "ID!"),
            ("event", "ID!"),
            ("action", "ID!"),
            ("execution", "ID!"),
            ("lineOa", "ID!"),
            ("user", "String!"),
            ("trigger", "ID!"),
            ("backend", "ID!"),
            ("other", "ID!"),
        ];
        let body = format!(
            "{{ it: {outer} {{ all: {list} {{ totalCount }} own: {list}{own} {{ totalCount }}
                other: {list}{other} {{ totalCount nodes {{ id }} }} }} }}"
        );
        let used: Vec<_> = declared
            .iter()
            .filter(|(name, _)| body.contains(&format!("${name}")))
            .map(|(name, kind)| format!("${name}: {kind}"))
            .collect();
        let query = format!("query({}) {body}", used.join(", "));
        let variables = json!({
            "rule": served.id("rule"), "event": served.id("event"),
            "action": served.id("waitingAction"), "execution": served.id("execution"),
            "lineOa": served.id("lineOa"), "user": LINE_USER, "trigger": served.id("trigger"),
            "backend": served.id("backend"), "other": uuid::Uuid::now_v7(),
        });
        let it = ask(&served, &query, variables).await["it"].take();
        assert!(it["all"]["totalCount"].as_u64().unwrap() > 0, "{outer} {list}: {it}");
        assert_eq!(it["own"], it["all"], "{outer} {list} {condition}");
        assert_eq!(
            it["other"],
            json!({ "totalCount": 0, "nodes": [] }),
            "{outer} {list} {condition}"
        );
    }
}
