use serde_json::{Value, json};

use super::*;
use crate::domain::rule::fixture::{USER, at, event, rule, user};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn text(text: &str) -> Value {
    json!({"messages": [{"type": "text", "text": text}]})
}

/// Configurations of a type: accepted ones as given and as stored, refused ones with the path.
struct Examples {
    name: &'static str,
    accepted: Vec<(Value, Value)>,
    refused: Vec<(Value, &'static str)>,
}

fn same(config: Value) -> (Value, Value) {
    (config.clone(), config)
}

fn message_examples() -> Examples {
    let many = |n: usize| json!({"messages": vec![json!({"type": "sticker"}); n]});
    let timed = |key: &str, value: Value| {
        let mut config = text("hi");
        config[key] = value;
        config
    };
    Examples {
        name: "send_message",
        accepted: vec![
            same(text("Hello {{ user.attributes.name }}")),
            same(many(5)),
            (timed("delay", json!("90m")), timed("delay", json!("1h30m"))),
            same(timed("at", json!("09:00"))),
            (timed("expires_after", json!("1d")), timed("expiresAfter", json!("1d"))),
        ],
        refused: vec![
            (json!({}), "actionConfig.messages"),
            (many(0), "actionConfig.messages"),
            (many(6), "actionConfig.messages"),
            (json!({"messages": [{"text": "hi"}]}), "actionConfig.messages[0].type"),
            (json!({"messages": ["hi"]}), "actionConfig.messages[0]"),
            (timed("delay", json!("soon")), "actionConfig.delay"),
            (timed("delay", json!("-1h")), "actionConfig.delay"),
            (timed("at", json!("9:00")), "actionConfig.at"),
            (timed("later", json!(true)), "actionConfig.later"),
        ],
    }
}

fn examples() -> Vec<Examples> {
    vec![
        message_examples(),
        Examples {
            name: "add_to_audience",
            accepted: vec![(json!({"audience_id": ID}), json!({"audienceId": ID}))],
            refused: vec![
                (json!({}), "actionConfig.audienceId"),
                (json!({"audienceId": "vip"}), "actionConfig.audienceId"),
            ],
        },
        Examples {
            name: "switch_rich_menu",
            accepted: vec![
                same(json!({"richMenuId": "richmenu-1a_B"})),
                same(json!({"richMenuId": null})),
            ],
            refused: vec![
                (json!({}), "actionConfig.richMenuId"),
                (json!({"richMenuId": ""}), "actionConfig.richMenuId"),
                (json!({"richMenuId": "../../x"}), "actionConfig.richMenuId"),
            ],
        },
        Examples {
            name: "resume_workflow",
            accepted: vec![same(json!({})), same(json!({"delay": "3d"}))],
            refused: vec![(json!({"workflowId": ID}), "actionConfig.workflowId")],
        },
        Examples {
            name: "call_backend",
            accepted: vec![
                (
                    json!({"application_id": ID, "run_key": "sync"}),
                    json!({"applicationId": ID, "runKey": "sync", "payload": {}}),
                ),
                same(
                    json!({"applicationId": ID, "runKey": "sync", "payload": {"a_b": "{{ user.id }}"}}),
                ),
            ],
            refused: vec![
                (json!({"applicationId": ID}), "actionConfig.runKey"),
                (json!({"applicationId": ID, "runKey": ""}), "actionConfig.runKey"),
                (
                    json!({"applicationId": ID, "runKey": "x", "payload": []}),
                    "actionConfig.payload",
                ),
            ],
        },
    ]
}

#[test]
fn each_type_accepts_what_is_right_and_stores_it_complete() {
    for Examples { name, accepted, .. } in examples() {
        for (given, stored) in accepted {
            let parsed = find(name).unwrap().parse_config(&given);
            let parsed = parsed.unwrap_or_else(|misfit| panic!("{name} {given}: {misfit}"));
            assert_eq!(parsed.config, stored, "{name} {given}");
            assert_eq!(find(name).unwrap().parse_config(&stored).unwrap().config, stored);
        }
    }
}

#[test]
fn each_type_refuses_what_is_wrong_with_its_path() {
    for Examples { name, refused, .. } in examples() {
        for (given, path) in refused {
            let misfit = find(name).unwrap().parse_config(&given).unwrap_err();
            assert_eq!(misfit.path, path, "{name} {given}: {misfit}");
        }
    }
}

#[test]
fn the_schema_and_the_parser_agree_on_each_example() {
    assert_eq!(examples().len(), ALL.len());
    for Examples { name, accepted, refused } in examples() {
        let schema = find(name).unwrap().config_schema();
        let options = jsonschema::options().should_validate_formats(true);
        let validator = options.build(&schema).unwrap();
        for (given, stored) in accepted {
            assert!(validator.is_valid(&stored), "{name} {stored} {schema}");
            let snake = given != stored && given.to_string().contains('_');
            assert!(snake || validator.is_valid(&given), "{name} {given}");
        }
        for (given, _) in refused {
            assert!(!validator.is_valid(&given), "{name} {given} {schema}");
        }
    }
}

#[test]
fn what_only_the_parser_knows_is_refused_too() {
    let timed = |key: &str, value: &str| {
        let mut config = text("hi");
        config[key] = json!(value);
        config
    };
    for (name, config, path, reason) in [
        ("send_message", text(" "), "messages[0].text", "1 to 5000"),
        ("send_message", text("\u{0}"), "messages[0].text", "U+0000"),
        ("send_message", text(&"x".repeat(5_001)), "messages[0].text", "at most 5000"),
        ("send_message", text("a\n{{ user. }}"), "messages[0].text", "line 2"),
        (
            "send_message",
            json!({"messages": [{"type": "{{ now }}"}]}),
            "messages[0].type",
            "the type of",
        ),
        ("send_message", timed("timeZone", "Asia/Bangkok"), "timeZone", "no at"),
        ("send_message", timed("expiresAfter", "0s"), "expiresAfter", "at least 1s"),
        (
            "call_backend",
            json!({"applicationId": ID, "runKey": "x", "payload": {"a": ["{{ x }}"]}}),
            "payload.a[0]",
            "`x`",
        ),
    ] {
        let misfit = find(name).unwrap().parse_config(&config).unwrap_err();
        assert_eq!(misfit.path, format!("actionConfig.{path}"), "{misfit}");
        assert!(misfit.reason.contains(reason), "{misfit}");
    }
    let mut zone = timed("at", "09:00");
    zone["timeZone"] = json!("+07:00");
    let misfit = find("send_message").unwrap().parse_config(&zone).unwrap_err();
    assert_eq!(misfit.path, "actionConfig.timeZone");
    let huge = json!({"applicationId": ID, "runKey": "x", "payload": {"a": vec![1234; 30_000]}});
    let misfit = find("call_backend").unwrap().parse_config(&huge).unwrap_err();
    assert_eq!(misfit.path, "actionConfig");
}

#[test]
fn an_unknown_type_is_refused_with_those_that_are_known() {
    let error = find("send").unwrap_err();
    assert_eq!((error.code(), error.field()), ("UNKNOWN_ACTION_TYPE", Some("actionType")));
    for kind in ALL {
        assert!(error.to_string().contains(kind.name));
        assert!(kind.description.ends_with('.'), "{}", kind.name);
    }
}

#[test]
fn what_an_action_refers_to_is_known_before_it_is_saved() {
    let needs = |name, config| find(name).unwrap().parse_config(&config).unwrap().needs;
    let audience = needs("add_to_audience", json!({"audienceId": ID}));
    assert_eq!(audience.audience_id, ID.parse().ok());
    let call = needs("call_backend", json!({"applicationId": ID, "runKey": "x"}));
    assert_eq!(call.application_id, ID.parse().ok());
    assert!(needs("resume_workflow", json!({})).workflow);
    assert_eq!(needs("send_message", text("hi")), Needs::default());
}

/// What is queued for an event with the payload `{"n": 1, "bad": …}` of the user Ada.
fn rendered(name: &str, config: Value) -> Result<Value, Misfit> {
    let rule = TriggerRule { name: "the rule".to_owned(), ..rule() };
    let event = event(&rule, "form_submitted", json!({"n": 1, "bad": "\u{0}"}));
    let user = user(&rule, json!({"name": "Ada"}));
    let facts = Facts::new(&event, &event.payload, Some(&user), at(0));
    let firing = Preparing { facts: &facts, rule: &rule, execute_at: at(60) };
    find(name).unwrap().parse_config(&config).unwrap().prepare(&firing)
}

fn work() -> Work {
    Work {
        action_id: ScheduledActionId(uuid::Uuid::from_u128(1)),
        line_oa_id: Some(LineOaId(uuid::Uuid::from_u128(2))),
        user_id: Some(USER.to_owned()),
        rule_id: Some(TriggerRuleId(uuid::Uuid::from_u128(3))),
        event_id: Some(EventId(uuid::Uuid::from_u128(4))),
        workflow_id: Some(WorkflowId(uuid::Uuid::from_u128(5))),
        workflow_node_path: Some("a/b".to_owned()),
    }
}

fn doing(name: &str, config: Value) -> Doing {
    let rendered = rendered(name, config).unwrap();
    let doing = find(name).unwrap().doing(&rendered, &work()).unwrap();
    let again = serde_json::from_str(&rendered.to_string()).unwrap();
    assert_eq!(find(name).unwrap().doing(&again, &work()).unwrap(), doing, "the same each time");
    doing
}

#[test]
fn a_message_is_rendered_when_it_is_queued() {
    let messages = vec![json!({"type": "text", "text": "Hello Ada, 1"})];
    let config = text("Hello {{ user.attributes.name }}, {{ event.payload.n }}");
    assert_eq!(rendered("send_message", config.clone()).unwrap(), json!({"messages": messages}));
    let push = LineCall::Push { to: USER.to_owned(), messages };
    assert_eq!(doing("send_message", config), Doing::Line(push));
}

#[test]
fn a_message_that_can_not_be_rendered_names_its_path() {
    for (template, reason) in
        [("{{ user.attributes.nick }}", "empty"), ("{{ event.payload.bad }}", "U+0000")]
    {
        let misfit = rendered("send_message", text(template)).unwrap_err();
        assert_eq!(misfit.path, "actionConfig.messages[0].text");
        assert!(misfit.reason.contains(reason), "{misfit}");
    }
}

#[test]
fn a_rich_menu_is_linked_or_unlinked() {
    let user_id = USER.to_owned();
    let link = LineCall::LinkRichMenu { user_id: user_id.clone(), rich_menu_id: "m-1".to_owned() };
    assert_eq!(doing("switch_rich_menu", json!({"richMenuId": "m-1"})), Doing::Line(link));
    let unlink = LineCall::UnlinkRichMenu { user_id };
    assert_eq!(doing("switch_rich_menu", json!({"richMenuId": null})), Doing::Line(unlink));
}

#[test]
fn an_audience_is_changed_in_the_database() {
    let effect =
        Effect::AddToAudience { audience_id: ID.parse().unwrap(), user_id: USER.to_owned() };
    assert_eq!(doing("add_to_audience", json!({"audienceId": ID})), Doing::Store(effect));
}

#[test]
fn backends_are_called_with_what_was_fixed_when_it_was_queued() {
    let config = json!({"applicationId": ID, "runKey": "sync", "payload": {"who": "{{ user.attributes.name }}"}});
    let Doing::Backends { application_id, body } = doing("call_backend", config) else { panic!() };
    assert_eq!(application_id, ID.parse().ok());
    let id = |n: u128| uuid::Uuid::from_u128(n);
    let expected = json!({
        "type": "call_backend", "action_id": id(1), "rule_id": id(3), "rule_name": "the rule",
        "run_key": "sync", "line_oa_id": id(2), "user_id": USER, "event_id": id(4),
        "executed_at": "2027-01-15T08:01:00Z", "payload": {"who": "Ada"},
    });
    assert_eq!(body, expected);
}

#[test]
fn a_workflow_is_resumed_at_its_node_with_the_payload_of_the_event() {
    let Doing::Backends { application_id, body } = doing("resume_workflow", json!({})) else {
        panic!()
    };
    assert_eq!(application_id, None);
    let id = |n: u128| uuid::Uuid::from_u128(n);
    let expected = json!({
        "type": "resume_workflow", "action_id": id(1), "workflow_id": id(5), "workflow_node_path": "a/b",
        "user_id": USER, "line_oa_id": id(2), "rule_id": id(3),
        "executed_at": "2027-01-15T08:01:00Z", "payload": {"n": 1, "bad": "\u{0}"},
    });
    assert_eq!(body, expected);
}

#[test]
fn a_row_that_does_not_hold_what_it_must_is_an_error_and_no_crash() {
    for kind in ALL {
        assert!(kind.doing(&json!({"a": 1}), &work()).is_err(), "{}", kind.name);
    }
    let nobody = Work { user_id: None, ..work() };
    let users: Vec<_> = ALL.iter().filter(|kind| kind.needs_user).map(|kind| kind.name).collect();
    assert_eq!(users, ["send_message", "add_to_audience", "switch_rich_menu"]);
    let error = find("send_message").unwrap().doing(&text("hi"), &nobody).unwrap_err();
    assert!(error.contains("no user"));
    let nowhere = Work { workflow_node_path: None, ..work() };
    let queued = ResumeWorkflow::rendered(at(0), &Value::Null);
    assert!(find("resume_workflow").unwrap().doing(&queued, &nowhere).is_err());
}
