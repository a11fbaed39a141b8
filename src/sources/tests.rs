use serde_json::{Value, json};

use super::*;

/// Configurations of a type: accepted ones as given and as stored, refused ones with the path.
struct Examples {
    name: &'static str,
    accepted: Vec<(Value, Value)>,
    refused: Vec<(Value, &'static str)>,
}

const AUDIENCE: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn same(config: Value) -> (Value, Value) {
    (config.clone(), config)
}

fn change_examples() -> Examples {
    let with = |operator: &str| json!({"attribute": "tier", "operator": operator});
    Examples {
        name: "attribute_changed",
        accepted: vec![
            (json!({"attribute": "tier"}), with("changed")),
            same(json!({"attribute": "tier", "operator": "changed_to", "value": "gold"})),
            same(json!({"attribute": "tier", "operator": "changed_to", "value": null})),
            same(json!({"attribute": "n", "operator": "gte", "value": 1.5})),
            same(
                json!({"attribute": "n", "operator": "contains", "value": "x", "condition": "true"}),
            ),
        ],
        refused: vec![
            (json!({}), "sourceConfig.attribute"),
            (json!({"attribute": ""}), "sourceConfig.attribute"),
            (with("rises"), "sourceConfig.operator"),
            (json!({"attribute": "tier", "valeu": 1}), "sourceConfig.valeu"),
            (json!({"attribute": "tier", "condition": 5}), "sourceConfig.condition"),
        ],
    }
}

fn schedule_examples() -> Examples {
    Examples {
        name: "schedule",
        accepted: vec![
            same(json!({"cronExpression": "0 0 9 * * *", "audienceId": AUDIENCE})),
            same(
                json!({"cronExpression": "@daily", "timeZone": "Asia/Bangkok", "audienceId": AUDIENCE}),
            ),
        ],
        refused: vec![
            (json!({"cronExpression": "0 0 9 * * *"}), "sourceConfig.audienceId"),
            (json!({"cronExpression": "", "audienceId": AUDIENCE}), "sourceConfig.cronExpression"),
            (json!({"cronExpression": "@daily", "audienceId": "x"}), "sourceConfig.audienceId"),
        ],
    }
}

fn examples() -> Vec<Examples> {
    vec![
        change_examples(),
        Examples {
            name: "form_submitted",
            accepted: vec![
                same(json!({})),
                (json!({"form_id": 42}), json!({"formId": "42"})),
                (json!({"formId": null}), json!({})),
            ],
            refused: vec![
                (json!({"formId": ""}), "sourceConfig.formId"),
                (json!({"formId": 1.5}), "sourceConfig.formId"),
                (json!([]), "sourceConfig"),
                (json!({"condition": ""}), "sourceConfig.condition"),
            ],
        },
        Examples {
            name: "campaign_click",
            accepted: vec![same(json!({})), same(json!({"campaignId": "c", "linkId": "l"}))],
            refused: vec![(json!({"url": "https://example.com"}), "sourceConfig.url")],
        },
        Examples {
            name: "friend_track_event_inserted",
            accepted: vec![
                (json!({}), json!({"firstOnly": false})),
                (json!({"first_only": true}), json!({"firstOnly": true})),
            ],
            refused: vec![(json!({"firstOnly": "yes"}), "sourceConfig.firstOnly")],
        },
        Examples {
            name: "booking_event",
            accepted: vec![
                same(json!({})),
                (
                    json!({"status": "confirmed", "offset": "-24h"}),
                    json!({"status": "confirmed", "offset": "-1d"}),
                ),
            ],
            refused: vec![
                (json!({"offset": "1 day before"}), "sourceConfig.offset"),
                (json!({"offset": -3600}), "sourceConfig.offset"),
            ],
        },
        schedule_examples(),
    ]
}

#[test]
fn each_type_accepts_what_is_right_and_stores_it_complete() {
    for Examples { name, accepted, .. } in examples() {
        for (given, stored) in accepted {
            let parsed = find(name).unwrap().parse_config(&given);
            let parsed = parsed.unwrap_or_else(|misfit| panic!("{name} {given}: {misfit}"));
            assert_eq!(parsed.config, stored, "{name} {given}");
            let again = find(name).unwrap().parse_config(&stored).unwrap();
            assert_eq!((again.config, again.key), (stored, parsed.key), "{name} {given}");
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
            assert!(validator.is_valid(&stored), "{name} {stored}");
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
    for (name, config, path, reason) in [
        (
            "attribute_changed",
            json!({"attribute": "a", "operator": "eq"}),
            "value",
            "required with the operator eq",
        ),
        ("attribute_changed", json!({"attribute": "a", "value": 1}), "value", "left out"),
        (
            "attribute_changed",
            json!({"attribute": "a", "operator": "gt", "value": true}),
            "value",
            "a number or a text",
        ),
        (
            "form_submitted",
            json!({"condition": "event.payload.total >"}),
            "condition",
            "line 1, column",
        ),
        ("form_submitted", json!({"form_id": "a", "formId": "b"}), "formId", "give it once"),
        (
            "schedule",
            json!({"cronExpression": "9 * * *", "audienceId": AUDIENCE}),
            "cronExpression",
            "field",
        ),
        (
            "schedule",
            json!({"cronExpression": "@daily", "timeZone": "+07", "audienceId": AUDIENCE}),
            "timeZone",
            "IANA",
        ),
    ] {
        let misfit = find(name).unwrap().parse_config(&config).unwrap_err();
        assert_eq!(misfit.path, format!("sourceConfig.{path}"), "{misfit}");
        assert!(misfit.reason.contains(reason), "{misfit}");
    }
}

#[test]
fn an_unknown_type_is_refused_with_those_that_are_known() {
    let error = find("form_sent").unwrap_err();
    assert_eq!((error.code(), error.field()), ("UNKNOWN_SOURCE_TYPE", Some("sourceType")));
    for kind in ALL {
        assert!(error.to_string().contains(kind.name));
        assert!(kind.description.ends_with('.'), "{}", kind.name);
    }
}

fn payload(name: &str, payload: Value) -> ParsedPayload {
    find(name).unwrap().parse_payload(&payload).unwrap_or_else(|misfit| panic!("{misfit}"))
}

/// The source's answer; its key must be one of the event's whenever it matches.
fn meets(name: &str, config: Value, event: Value) -> Result<(), String> {
    let source = find(name).unwrap().parse_config(&config).unwrap();
    let event = payload(name, event);
    let answer = source.matches(&event);
    let found = event.keys.contains(&source.key);
    assert!(found || answer.is_err(), "{name} {config}: {} not in {:?}", source.key, event.keys);
    answer
}

#[test]
fn each_operator_means_what_it_says() {
    let t = |operator: &str, value: Value, old: Value, new: Value| {
        let config = match operator {
            "changed" => json!({"attribute": "a", "operator": operator}),
            _ => json!({"attribute": "a", "operator": operator, "value": value}),
        };
        let event = json!({"attribute": "a", "oldValue": old, "newValue": new});
        meets("attribute_changed", config, event).is_ok()
    };
    let none = Value::Null;
    assert!(t("changed", none.clone(), json!(1), json!(2)));
    assert!(!t("changed", none.clone(), json!(1), json!(1.0)), "the same number");
    let (id, next) = (json!(u64::MAX - 1), json!(u64::MAX));
    assert!(t("changed", none.clone(), id.clone(), next.clone()), "no number is rounded");
    assert!(t("gt", id.clone(), none.clone(), next.clone()) && !t("eq", id, none.clone(), next));
    assert!(t("changed", none.clone(), json!(1), json!("1")), "a number and a text");
    assert!(t("changed_to", json!("gold"), json!("silver"), json!("gold")));
    assert!(!t("changed_to", json!("gold"), json!("gold"), json!("gold")));
    assert!(t("changed_to", none.clone(), json!("gold"), none.clone()), "it was taken away");
    assert!(t("changed_from", json!("gold"), json!("gold"), json!("silver")));
    assert!(!t("changed_from", json!("gold"), json!("gold"), json!("gold")));
    assert!(t("eq", json!(5), json!(5), json!(5)), "whatever it was before");
    assert!(t("ne", json!(5), json!(5), json!(6)) && !t("ne", json!(5), json!(6), json!(5)));
    assert!(
        t("gt", json!(5), none.clone(), json!(5.5)) && !t("gt", json!(5), none.clone(), json!(5))
    );
    assert!(
        t("gte", json!(5), none.clone(), json!(5)) && t("lte", json!(5), none.clone(), json!(5))
    );
    assert!(
        t("lt", json!(5), none.clone(), json!(-1)) && !t("lt", json!(5), none.clone(), json!("1"))
    );
    assert!(!t("gt", json!(5), none.clone(), none.clone()), "nothing is not greater");
    let (early, late) = (json!("2026-05-01T09:00:00+07:00"), json!("2026-05-01T03:00:00Z"));
    assert!(t("gt", early.clone(), none.clone(), late.clone()), "instants are compared");
    assert!(!t("gt", late, none.clone(), early));
    assert!(t("gt", json!("apple"), none.clone(), json!("banana")));
    assert!(t("contains", json!("ol"), none.clone(), json!("gold")));
    assert!(t("contains", json!(2), none.clone(), json!([1, 2])));
    assert!(!t("contains", json!("a"), none.clone(), json!({"a": 1})));
}

#[test]
fn why_an_event_is_not_the_right_one_is_said_with_what_was_seen() {
    let said = |name, config, event| meets(name, config, event).unwrap_err();
    let config = json!({"attribute": "tier", "operator": "changed_to", "value": "gold"});
    let event = json!({"attribute": "tier", "old_value": "gold", "new_value": "silver"});
    let reason = said("attribute_changed", config, event);
    assert_eq!(reason, r#""gold" became "silver", not changed_to "gold""#);
    let reason = said("form_submitted", json!({"formId": "a"}), json!({"formId": "b"}));
    assert_eq!(reason, "the form is b, not a");
    let config = json!({"linkId": "l"});
    assert_eq!(
        said("campaign_click", config.clone(), json!({"campaignId": 1, "linkId": "m"})),
        "the link is m, not l"
    );
    assert!(said("campaign_click", config, json!({"campaignId": 1})).contains("names no link"));
    let reason = said(
        "friend_track_event_inserted",
        json!({"firstOnly": true}),
        json!({"isUnblocked": true}),
    );
    assert!(reason.contains("came back"));
    let reason =
        said("booking_event", json!({"offset": "1h"}), json!({"bookingId": 1, "status": "new"}));
    assert!(reason.contains("no startsAt"));
}

#[test]
fn an_event_is_met_by_open_and_by_narrow_rules() {
    let click = json!({"campaignId": "c", "linkId": "l", "url": "https://example.com"});
    for config in [
        json!({}),
        json!({"campaignId": "c"}),
        json!({"linkId": "l"}),
        json!({"campaignId": "c", "linkId": "l"}),
    ] {
        assert_eq!(meets("campaign_click", config, click.clone()), Ok(()));
    }
    assert_eq!(meets("form_submitted", json!({}), json!({"form_id": 7})), Ok(()));
    assert_eq!(meets("form_submitted", json!({"formId": "7"}), json!({"form_id": 7})), Ok(()));
    assert_eq!(
        meets("friend_track_event_inserted", json!({}), json!({"isUnblocked": true})),
        Ok(())
    );
    assert_eq!(
        meets("booking_event", json!({"status": "x"}), json!({"bookingId": 1, "status": "x"})),
        Ok(())
    );
}

#[test]
fn keys_of_several_parts_are_not_taken_for_each_other() {
    let key = |config| find("campaign_click").unwrap().parse_config(&config).unwrap().key;
    let keys = [
        key(json!({})),
        key(json!({"campaignId": "a"})),
        key(json!({"linkId": "a"})),
        key(json!({"campaignId": "a\",\"b"})),
        key(json!({"campaignId": "a", "linkId": "b"})),
        key(json!({"campaignId": "null", "linkId": "a"})),
    ];
    let different: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{keys:?}");
}

#[test]
fn a_booking_says_when_it_is_due_and_what_it_is_about() {
    let source = find("booking_event").unwrap().parse_config(&json!({"offset": "-1d"})).unwrap();
    let booking = payload(
        "booking_event",
        json!({"booking_id": 9, "status": "new", "starts_at": "2026-05-02T16:00:00+07:00"}),
    );
    assert_eq!(source.due_at(&booking), "2026-05-01T09:00:00Z".parse().ok());
    assert_eq!(booking.subject.as_deref(), Some("9"));
    let now = find("booking_event").unwrap().parse_config(&json!({})).unwrap();
    assert_eq!(now.due_at(&booking), None);
}

#[test]
fn a_payload_keeps_what_is_not_known_and_is_respelt_once() {
    let given = json!({"form_id": "f", "shop_name": "x", "answers": {"q_1": true}});
    let parsed = payload("form_submitted", given.clone());
    let normal = parsed.normal(&given);
    assert_eq!(*normal, json!({"formId": "f", "shopName": "x", "answers": {"q_1": true}}));
    let again = payload("form_submitted", normal.clone());
    assert!(std::ptr::eq(again.normal(normal), normal), "nothing is copied");
}

#[test]
fn a_payload_that_does_not_fit_is_refused_with_its_path() {
    for (name, given, path) in [
        ("attribute_changed", json!({}), "payload.attribute"),
        ("form_submitted", json!({"formId": "f", "answers": 1}), "payload.answers"),
        ("campaign_click", json!({"linkId": "l"}), "payload.campaignId"),
        ("friend_track_event_inserted", json!({"isUnblocked": 1}), "payload.isUnblocked"),
        (
            "booking_event",
            json!({"bookingId": 1, "status": "x", "startsAt": "soon"}),
            "payload.startsAt",
        ),
        ("booking_event", json!(null), "payload"),
    ] {
        let kind = find(name).unwrap();
        let misfit = kind.parse_payload(&given).unwrap_err();
        assert_eq!(misfit.path, path, "{misfit}");
        let schema =
            jsonschema::options().should_validate_formats(true).build(&kind.payload_schema());
        assert!(!schema.unwrap().is_valid(&given), "{name} {given}");
    }
}

#[test]
fn a_schedule_is_met_by_no_event_and_says_when_and_for_whom() {
    let kind = find("schedule").unwrap();
    assert!(!kind.accepts_events && ALL.iter().filter(|kind| !kind.accepts_events).count() == 1);
    let tick = kind.parse_payload(&json!({"scheduledAt": "2026-05-01T02:00:00Z"})).unwrap();
    assert!(tick.keys.is_empty());
    let config = json!({"cronExpression": "0 0 9 * * *", "timeZone": "Asia/Bangkok", "audienceId": AUDIENCE});
    let timetable = kind.parse_config(&config).unwrap().timetable.unwrap();
    let next =
        timetable.schedule.next(&timetable.zone.unwrap(), "2026-05-01T00:00:00Z".parse().unwrap());
    assert_eq!(next, "2026-05-01T02:00:00Z".parse().ok());
    assert_eq!(timetable.audience_id.to_string(), AUDIENCE);
}
