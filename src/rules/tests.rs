use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::*;
use crate::domain::cron::Zone;
use crate::domain::event::Event;
use crate::domain::id::{LineOaId, TriggerRuleId, WorkflowId};
use crate::domain::line::LineUser;
use crate::domain::rule::TriggerRule;
use crate::domain::rule::fixture::{at, event, rule, user};
use crate::sources;

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn form_rule(config: Value) -> TriggerRule {
    TriggerRule { source_config: config, ..rule() }
}

fn form(rule: &TriggerRule, id: &str) -> Event {
    event(rule, "form_submitted", json!({"formId": id, "answers": {"n": 5}}))
}

fn told(
    rule: &TriggerRule,
    event: &Event,
    user: Option<&LineUser>,
    now: DateTime<Utc>,
) -> Evaluated {
    let payload = sources::find(&event.event_type).unwrap().parse_payload(&event.payload).unwrap();
    let zone = Zone::utc();
    let occasion = Occasion::new(event, &payload, user, now, &zone);
    let first = evaluate(&CompiledRule::stored(rule), &occasion);
    assert_eq!(evaluate(&CompiledRule::stored(rule), &occasion), first, "the same twice");
    let (examined, firing) = examine(&CompiledRule::stored(rule), &occasion);
    assert_eq!(examined.outcome, first.outcome, "a dry run comes to the same");
    assert_eq!(examined.gates[..first.gates.len()], first.gates);
    if let Outcome::Ready(ready) = &first.outcome {
        assert_eq!((firing.as_ref(), examined.gates.len()), (Ok(ready), first.gates.len()));
    }
    first
}

fn tell(rule: &TriggerRule, event: &Event) -> Evaluated {
    told(rule, event, Some(&user(rule, json!({"tier": "gold"}))), at(0))
}

fn fired(evaluated: Evaluated) -> Firing {
    match evaluated.outcome {
        Outcome::Ready(firing) => firing,
        other => panic!("{other:?}"),
    }
}

fn held(evaluated: &Evaluated) -> (GateName, &str) {
    match &evaluated.outcome {
        Outcome::HeldBack { gate, reason } => {
            let last = evaluated.gates.last().unwrap();
            assert_eq!((last.name, last.passed, &*last.saw), (*gate, false, reason.as_str()));
            (*gate, reason)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rule_that_is_met_fires_with_what_was_rendered() {
    let mut rule = form_rule(json!({"formId": "f", "condition": "user.attributes.tier == 'gold'"}));
    rule.action_config =
        json!({"messages": [{"type": "text", "text": "{{ event.payload.answers.n }}"}]});
    let evaluated = tell(&rule, &form(&rule, "f"));
    assert!(evaluated.gates.iter().all(|gate| gate.passed));
    let names: Vec<_> = evaluated.gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["enabled", "scope", "source", "condition", "user", "expiry"]);
    let firing = fired(evaluated);
    assert_eq!(firing.action_config, json!({"messages": [{"type": "text", "text": "5"}]}));
    assert_eq!((firing.execute_at, firing.expires_at), (at(0), None));
    assert_eq!((firing.subject, firing.application_id), (None, None));
}

#[test]
fn the_first_gate_that_is_not_passed_holds_it_back() {
    let good = form_rule(json!({"formId": "f", "condition": "user.attributes.tier == 'gold'"}));
    let form = form(&good, "f");
    let disabled = TriggerRule { enabled: false, ..good.clone() };
    assert_eq!(held(&tell(&disabled, &form)), (GateName::Enabled, "the rule is disabled"));
    let deleted = TriggerRule { deleted_date: Some(at(0)), ..good.clone() };
    assert_eq!(held(&tell(&deleted, &form)), (GateName::Enabled, "the rule is deleted"));
    let foreign = TriggerRule { line_oa_id: LineOaId::new(), ..good.clone() };
    assert_eq!(held(&tell(&foreign, &form)).0, GateName::Scope);
    let other = form_rule(json!({"formId": "g"}));
    let other = TriggerRule { source_config: other.source_config, ..good.clone() };
    assert_eq!(held(&tell(&other, &form)), (GateName::Source, "the form is f, not g"));
    let silver = user(&good, json!({"tier": "silver"}));
    let evaluated = told(&good, &form, Some(&silver), at(0));
    assert_eq!(held(&evaluated), (GateName::Condition, "it is false"));
    let evaluated = told(&good, &form, None, at(0));
    assert_eq!(held(&evaluated), (GateName::Condition, "tier is not set"));
    let reasons = [GateName::Enabled, GateName::Source, GateName::Condition, GateName::Expiry];
    assert_eq!(reasons.map(GateName::reason), ["disabled", "source", "condition", "expired"]);
}

#[test]
fn an_event_of_another_type_is_held_back() {
    let rule = form_rule(json!({}));
    let event = event(&rule, "friend_track_event_inserted", json!({}));
    let reason = held(&tell(&rule, &event)).1.to_owned();
    assert_eq!(reason, "the event is a friend_track_event_inserted, not a form_submitted");
}

#[test]
fn a_message_without_a_user_fails_and_a_call_does_not() {
    let mut rule = form_rule(json!({}));
    let event = Event { user_id: None, ..form(&rule, "f") };
    let evaluated = told(&rule, &event, None, at(0));
    let Outcome::Failed { reason, message } = evaluated.outcome else { panic!() };
    assert_eq!(
        (reason, message.as_str()),
        ("no_user", "send_message needs a user, and the event has none")
    );
    rule.action_type = "call_backend".to_owned();
    rule.action_config =
        json!({"applicationId": ID, "runKey": "x", "payload": {"user": "{{ user.id }}"}});
    let firing = fired(told(&rule, &event, None, at(0)));
    assert_eq!(firing.application_id, ID.parse().ok());
    assert_eq!(firing.action_config["payload"], json!({"user": ""}));
}

#[test]
fn what_can_not_be_rendered_fails_with_its_path() {
    let mut rule = form_rule(json!({}));
    rule.action_config = json!({"messages": [{"type": "text", "text": "{{ user.attributes.x }}"}]});
    let Outcome::Failed { reason, message } = tell(&rule, &form(&rule, "f")).outcome else {
        panic!()
    };
    assert_eq!(reason, "not_rendered");
    assert!(message.starts_with("actionConfig.messages[0].text: "), "{message}");
}

#[test]
fn a_rule_that_is_not_understood_says_so_for_each_event_that_it_would_have_met() {
    let mut broken = form_rule(json!({"formId": "f", "colour": "red"}));
    broken.source_key = "f".to_owned();
    let misfit = CompiledRule::compile(&broken).unwrap_err();
    assert_eq!(misfit.path, "sourceConfig.colour");
    let index = RuleIndex::build([&broken]);
    let keys = [String::new(), "f".to_owned()];
    assert_eq!(index.candidates("form_submitted", &keys).len(), 1);
    assert!(index.candidates("form_submitted", &keys[..1]).is_empty());
    let Outcome::Failed { reason, message } = tell(&broken, &form(&broken, "f")).outcome else {
        panic!()
    };
    assert_eq!(reason, "rule_invalid");
    assert!(message.starts_with("sourceConfig.colour: is not known"), "{message}");
}

#[test]
fn a_rule_that_resumes_must_name_workflow_and_node() {
    let mut rule = form_rule(json!({}));
    (rule.action_type, rule.action_config) = ("resume_workflow".to_owned(), json!({}));
    assert_eq!(CompiledRule::compile(&rule).unwrap_err().path, "workflowId");
    rule.workflow_id = Some(WorkflowId::new());
    assert_eq!(CompiledRule::compile(&rule).unwrap_err().path, "workflowNodePath");
    rule.workflow_node_path = Some("start/wait".to_owned());
    let firing = fired(tell(&rule, &form(&rule, "f")));
    assert_eq!(
        (firing.workflow_id, firing.workflow_node_path),
        (rule.workflow_id, rule.workflow_node_path)
    );
    assert_eq!(firing.action_config["executedAt"], "2027-01-15T08:00:00Z");
}

#[test]
fn types_that_are_not_known_are_refused_on_their_field() {
    let source = TriggerRule { source_type: "x".to_owned(), ..rule() };
    assert_eq!(CompiledRule::compile(&source).unwrap_err().path, "sourceType");
    let action = TriggerRule { action_type: "x".to_owned(), ..rule() };
    assert_eq!(CompiledRule::compile(&action).unwrap_err().path, "actionType");
}

fn booking(rule: &TriggerRule, starts_at: i64) -> Event {
    let payload = json!({"bookingId": "b", "status": "new", "startsAt": at(starts_at)});
    event(rule, "booking_event", payload)
}

fn reminder(offset: &str) -> TriggerRule {
    let source_config = json!({"status": "new", "offset": offset});
    TriggerRule { source_type: "booking_event".to_owned(), source_config, ..rule() }
}

#[test]
fn a_reminder_is_due_before_the_booking_starts() {
    let rule = reminder("-1h");
    let firing = fired(tell(&rule, &booking(&rule, 7_200)));
    assert_eq!(firing.execute_at, at(3_600));
    assert_eq!(firing.subject.as_deref(), Some("b"));
}

#[test]
fn a_reminder_whose_time_has_passed_when_the_booking_comes_is_held_back() {
    let rule = reminder("-1h");
    let evaluated = tell(&rule, &booking(&rule, 3_599));
    let (gate, reason) = held(&evaluated);
    assert_eq!((gate, gate.reason()), (GateName::Expiry, "expired"));
    assert!(reason.contains("had passed"), "{reason}");
    assert_eq!(fired(tell(&rule, &booking(&rule, 3_600))).execute_at, at(0));
}

#[test]
fn a_reminder_that_we_were_too_late_for_is_still_sent_unless_it_expired() {
    let mut rule = reminder("-1h");
    let booking = booking(&rule, 3_600);
    assert_eq!(fired(told(&rule, &booking, None, at(500))).execute_at, at(0));
    rule.action_config["expiresAfter"] = json!("5m");
    let firing = fired(told(&rule, &booking, None, at(299)));
    assert_eq!((firing.execute_at, firing.expires_at), (at(0), Some(at(300))));
    let evaluated = told(&rule, &booking, None, at(300));
    assert_eq!(held(&evaluated).0, GateName::Expiry);
}

#[test]
fn delay_and_time_of_day_count_from_now() {
    let mut rule = form_rule(json!({}));
    rule.action_config["delay"] = json!("30m");
    rule.action_config["at"] = json!("08:30");
    rule.action_config["expiresAfter"] = json!("1h");
    let firing = fired(tell(&rule, &form(&rule, "f")));
    assert_eq!((firing.execute_at, firing.expires_at), (at(1_800), Some(at(5_400))));
    assert!(firing.action_config.get("delay").is_none(), "nothing is left to be decided");
}

#[test]
fn an_event_meets_the_rules_that_could_match_it_in_the_order_of_their_ids() {
    let id = |n: u128| TriggerRuleId(uuid::Uuid::from_u128(n));
    let rules: Vec<_> = [
        (3, json!({})),
        (1, json!({"formId": "f"})),
        (2, json!({"formId": "g"})),
        (4, json!({"formId": "f"})),
    ]
    .into_iter()
    .map(|(n, config)| TriggerRule { id: id(n), ..form_rule(config) })
    .collect();
    let mut index = RuleIndex::build(&rules);
    let met = |index: &RuleIndex| -> Vec<_> {
        let keys = [String::new(), "f".to_owned()];
        index.candidates("form_submitted", &keys).iter().map(|rule| rule.rule.id).collect()
    };
    assert_eq!(met(&index), [id(1), id(3), id(4)]);
    assert!(index.candidates("booking_event", &[String::new()]).is_empty());
    assert!(index.candidates("form_submitted", &[]).is_empty());
    index.apply(&TriggerRule { source_config: json!({"formId": "g"}), ..rules[1].clone() });
    assert_eq!(met(&index), [id(3), id(4)], "it waits for something else now");
    index.apply(&TriggerRule { enabled: false, ..rules[0].clone() });
    index.apply(&TriggerRule { deleted_date: Some(at(0)), ..rules[3].clone() });
    assert!(met(&index).is_empty());
    assert_eq!((index.len(), index.get(id(3)).is_none()), (2, true));
    index.apply(&rules[0]);
    index.apply(&rules[0]);
    assert_eq!(met(&index), [id(3)]);
    index.remove(id(3));
    assert!(met(&index).is_empty() && !index.is_empty());
}

#[test]
fn a_dry_run_asks_behind_a_gate_that_was_not_passed_and_renders_what_can_be() {
    let config = json!({"formId": "g", "condition": "user.attributes.tier == 'gold'"});
    let rule = TriggerRule { enabled: false, ..form_rule(config) };
    let event = form(&rule, "f");
    let payload = sources::find("form_submitted").unwrap().parse_payload(&event.payload).unwrap();
    let (zone, user) = (Zone::utc(), user(&rule, json!({"tier": "gold"})));
    let occasion = Occasion::new(&event, &payload, Some(&user), at(0), &zone);
    let (examined, firing) = examine(&CompiledRule::stored(&rule), &occasion);
    let gates: Vec<_> =
        examined.gates.iter().map(|gate| (gate.name.as_str(), gate.passed)).collect();
    let asked = [
        ("enabled", false),
        ("scope", true),
        ("source", false),
        ("condition", true),
        ("user", true),
        ("expiry", true),
    ];
    assert_eq!(gates, asked);
    assert_eq!(held_at(&examined.outcome), Some(GateName::Enabled));
    let message = json!({"messages": [{"type": "text", "text": "Thank you"}]});
    assert_eq!(firing.unwrap().action_config, message);
    let broken = TriggerRule { action_type: "dance".to_owned(), ..rule };
    let (examined, firing) = examine(&CompiledRule::stored(&broken), &occasion);
    assert_eq!(examined.gates.len(), 2, "no source can be asked");
    let outcome = *firing.unwrap_err();
    assert!(matches!(outcome, Outcome::Failed { reason: "rule_invalid", .. }), "{outcome:?}");
    assert_eq!(held_at(&examined.outcome), Some(GateName::Enabled), "the first reason stays");
}

fn held_at(outcome: &Outcome) -> Option<GateName> {
    match outcome {
        Outcome::HeldBack { gate, .. } => Some(*gate),
        _ => None,
    }
}
