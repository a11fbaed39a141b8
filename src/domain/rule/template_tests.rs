use proptest::prelude::*;
use serde_json::json;

use super::super::fixture::{at, event, rule, user};
use super::*;

fn with<T>(payload: Value, attributes: Value, what: impl FnOnce(&Facts<'_>) -> T) -> T {
    let rule = rule();
    let event = event(&rule, "form_submitted", payload.clone());
    let user = user(&rule, attributes);
    what(&Facts::new(&event, &payload, Some(&user), at(0)))
}

fn rendered(text: &str) -> Result<String, String> {
    check(text).map_err(|misfit| misfit.reason)?;
    let payload = json!({
        "total": 250, "price": 9.5, "items": ["tea", "cake"], "long": "x".repeat(6_000),
        "many": (0..5_000).collect::<Vec<_>>(), "quote": "say \"hi\" <b> \\ \n", "zero": "a\u{0}b",
    });
    with(payload, json!({"name": "Ada", "tier": "gold", "nick": null}), |facts| render(text, facts))
}

fn refused(text: &str) -> String {
    check(text).unwrap_err().reason
}

#[test]
fn a_template_speaks_of_event_user_and_now() {
    for (text, result) in [
        ("no template { } at all", "no template { } at all"),
        ("Hello {{ user.attributes.name }}!", "Hello Ada!"),
        ("{{ event.payload.total }} {{ event.payload.price * 2 }}", "250 19.0"),
        ("{{ event.payload['total'] / 100 }}", "2.5"),
        ("{% if user.attributes.tier == 'gold' %}A{% else %}B{% endif %}", "A"),
        (
            "{% for x in event.payload.items %}{{ loop.index }}.{{ x }} {% endfor %}",
            "1.tea 2.cake ",
        ),
        ("{{ event.payload.items | join(', ') | upper }}", "TEA, CAKE"),
        ("{{ now }} {{ event.occurredAt }}", "2027-01-15T08:00:00Z 2027-01-15T07:59:55Z"),
        ("{{ event.type }} {{ user.following }}", "form_submitted true"),
        ("{# a note #}{{ '{{' }}", "{{"),
        ("{% for k, v in user.attributes | items %}{{ k }} {% endfor %}", "name nick tier "),
    ] {
        assert_eq!(rendered(text).as_deref(), Ok(result), "{text}");
    }
}

#[test]
fn what_is_not_set_renders_as_nothing_and_default_fills_in() {
    assert_eq!(rendered("[{{ user.attributes.city }}]").unwrap(), "[]");
    assert_eq!(rendered("[{{ event.payload.a.b.c }}]").unwrap(), "[]");
    assert_eq!(rendered("[{{ user.attributes.nick }}]").unwrap(), "[]");
    assert_eq!(rendered("{{ user.attributes.nick | default('you') }}").unwrap(), "you");
    assert_eq!(rendered("{{ user.attributes.city | default('you') }}").unwrap(), "you");
    assert_eq!(rendered("{% if user.attributes.name is not defined %}x{% endif %}").unwrap(), "");
    assert_eq!(rendered("{% for x in event.payload.none %}x{% endfor %}").unwrap(), "");
}

#[test]
fn what_has_no_value_is_named_once_and_in_order() {
    let config = json!({ "messages": [
        { "text": "{{ user.attributes.nick }} {{ user.attributes.name }} {{ event.payload.a.b }}" },
        { "text": "{% for x in event.payload.none %}{{ x.y }}{% endfor %} user.attributes.city" },
        "{{ user.attributes.nick | default('you') }} {{ event.payload.items }} {{ now }}",
    ]});
    let missing = with(json!({ "items": [] }), json!({ "name": "Ada", "nick": null }), |facts| {
        without_value(&config, facts)
    });
    assert_eq!(missing, ["event.payload.a.b", "event.payload.none", "user.attributes.nick"]);
}

#[test]
fn nothing_is_escaped_and_nothing_breaks_the_json() {
    assert_eq!(rendered("{{ event.payload.quote }}").unwrap(), "say \"hi\" <b> \\ \n");
    let zero = rendered("{{ event.payload.zero }}").unwrap_err();
    assert_eq!(zero, "must not contain the character U+0000");
}

#[test]
fn a_slip_is_refused_with_its_line() {
    assert!(refused("a\n{{ user. }}").starts_with("line 2: "), "{}", refused("a\n{{ user. }}"));
    assert!(refused("\n\n{{ user").starts_with("line 3: "));
    assert!(refused("{% if user %}").starts_with("line 1: "));
    assert!(refused("{{ usr.name }}").contains("`usr` is not known"));
    assert!(refused("{{ user.name }}").contains("`user.name` is not known; user has id, "));
    assert!(refused("{{ event.a.b }}").contains("`event.a.b` is not known; event has id, "));
    assert!(refused("{{ now.year }}").contains("`now.year` is not known; now has no parts"));
    assert!(refused("{{ user.name | shout }}").contains("the filter `shout` is not known"));
    assert!(refused("{% if user.name is shouted %}{% endif %}").contains("the test `shouted`"));
    assert!(refused("{{ user.name.upper() }}").contains("there are no functions"));
    assert!(refused("{{ user['name']() }}").contains("there are no functions"));
    assert!(refused(&"ä".repeat(5_001)).contains("at most 5000"));
    assert_eq!(check(&"ä".repeat(5_000)), Ok(()));
}

#[test]
fn statements_that_name_read_or_repeat_are_not_known() {
    for text in [
        "{% set x = 1 %}",
        "{% with x = 1 %}{% endwith %}",
        "{% macro a() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% block a %}{% endblock %}",
        "{% raw %}{% endraw %}",
        "{% filter upper %}{% endfilter %}",
        "{% do x %}",
        "{%- set x = 1 -%}",
        "{% autoescape true %}{% endautoescape %}",
        "{% call a() %}{% endcall %}",
    ] {
        assert!(refused(text).contains("is not known; known are if"), "{text}: {}", refused(text));
    }
    let nested = "{% for x in user.a %}{% for y in x %}{% endfor %}{% endfor %}";
    assert!(refused(nested).contains("loops can't stand in each other"));
    for text in [
        "{% for x in [user, user] %}{% endfor %}",
        "{% for x in user.a + user.a %}{% endfor %}",
        "{% for x in user.a recursive %}{% endfor %}",
        "{% for x in range(10) %}{% endfor %}",
    ] {
        assert!(refused(text).contains("the name of a list"), "{text}: {}", refused(text));
    }
    assert!(refused("{{ range(1000000) }}").contains("there are no functions"));
}

#[test]
fn what_could_explode_is_refused() {
    for text in [
        "{{ 'x' * 100000000 }}",
        "{{ 'x' * 100 * 100 }}",
        "{{ user.a * user.b }}",
        "{{ 2 ** 99 ** 9 }}",
    ] {
        assert!(refused(text).contains("`*` can stand once"), "{text}: {}", refused(text));
    }
    assert!(refused("{{ user.a ~ user.a }}").contains("next to each other"));
    let tag = format!("{{{{ user.a{} }}}}", " + user.a".repeat(50));
    assert!(refused(&tag).contains("at most 300 bytes"));
    for (open, close) in [("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("{1:", "}")] {
        let times = 280 / (open.len() + close.len());
        let deep = format!("{{{{ {}1{} }}}}", open.repeat(times), close.repeat(times));
        let _ = rendered(&deep);
    }
    let ifs = "{% if user %}".repeat(200) + &"{% endif %}".repeat(180);
    let _ = rendered(&ifs);
}

#[test]
fn steps_and_output_are_bounded() {
    let long = rendered("{{ event.payload.long }}").unwrap_err();
    assert!(long.contains("at most 5000 characters"), "{long}");
    let steps = rendered("{% for x in event.payload.many %}{% if x > 9 %}{% endif %}{% endfor %}")
        .unwrap_err();
    assert!(steps.contains("too many steps"), "{steps}");
    let output = rendered("{% for x in event.payload.items %}{{ event.payload.long }}{% endfor %}");
    assert!(output.unwrap_err().contains("at most 5000"));
}

#[test]
fn what_a_step_looks_at_in_nested_values_is_bounded_too() {
    let nested = || json!([vec![0; 14_000]]);
    let map: Map<_, _> = (0..6_000).map(|n| (format!("k{n}"), json!(n))).collect();
    let payload = json!({ "a": nested(), "b": nested(), "m": map, "n": map, "few": [1, [2, 3]], "same": [1, [2, 3]] });
    with(payload, json!({}), |facts| {
        for text in [
            "{{ event.payload.a == event.payload.b }}",
            "{{ event.payload.a in 'a text' }}",
            "{{ event.payload.a in [event.payload.b] }}",
            "{% if event.payload.m | items == event.payload.n | items %}{% endif %}",
            "{% if event.payload.m == event.payload.n %}{% endif %}",
            "{% for x in event.payload.few %}{{ event.payload.a < event.payload.b }}{% endfor %}",
        ] {
            check(text).unwrap();
            assert_eq!(render(text, facts).unwrap_err(), TOO_MANY_STEPS, "{text}");
        }
        let text = "{{ event.payload.few == event.payload.same }} {{ event.payload.few }} \
            {{ event.payload.few | last | first }} {{ event.payload.few[-1] }} {{ event.payload.a[0][1:3] }} \
            {{ event.payload.a | length }} {{ event.payload.m.k7 }} {{ event.payload.few[0:1] == [1] }}";
        let rendered = render(text, facts).unwrap();
        assert_eq!(rendered, "true [1, [2, 3]] 2 [2, 3] [0, 0] 1 7 true");
    });
}

#[test]
fn a_template_is_counted_as_what_it_may_cost() {
    let plain = cost(&json!({ "a": "plain", "b": [1, "text"] }));
    assert_eq!(plain, 9);
    assert!(cost(&json!("{{ event.payload.a == event.payload.b }}")) > 1_000);
    assert!(cost(&json!("{% if user %}{% endif %}")) > FUEL as usize);
}

#[test]
fn every_text_of_a_value_is_rendered_and_keys_are_not() {
    let value =
        json!({"messages": [{"{{ x }}": "{{ user.attributes.name }}", "n": 1, "b": [null, true]}]});
    let result = with(json!({}), json!({"name": "Ada"}), |facts| render_strings(&value, facts));
    let expected = json!({"messages": [{"{{ x }}": "Ada", "n": 1, "b": [null, true]}]});
    assert_eq!(result.unwrap(), expected);
}

#[test]
fn an_error_names_the_path_of_the_text() {
    let value = json!({"messages": [{"text": "fine"}, {"text": "{{ user. }}"}]});
    assert_eq!(check_strings(&value).unwrap_err().path, "messages[1].text");
    let value = json!({"messages": [{"text": "{{ event.payload.a }}"}]});
    let failed = with(json!({"a": "\u{0}"}), json!({}), |facts| render_strings(&value, facts));
    assert_eq!(failed.unwrap_err().path, "messages[0].text");
    let value = Value::Array(vec![json!("x".repeat(4_900)); 11]);
    assert_eq!(check_strings(&value).unwrap_err().reason, WHOLE);
    assert_eq!(
        with(json!({}), json!({}), |facts| render_strings(&value, facts)).unwrap_err().reason,
        WHOLE
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_text_never_panics_and_stays_in_bounds(text in ".{0,80}") {
        if let Ok(text) = rendered(&text) {
            prop_assert!(text.encode_utf16().count() <= RENDERED_MAX && !text.contains('\0'));
        }
    }

    #[test]
    fn arbitrary_tags_never_panic_and_stay_in_bounds(tokens in proptest::collection::vec(prop::sample::select(vec![
        "{{ ", " }}", "{% ", " %}", "{# ", " #}", "if ", "else", "endif", "for x in ", "endfor", "user", "event",
        ".payload", ".many", ".long", ".items", "now", "x", "loop", ".index", "|", "join", "(", ")", "[", "]", "{", "}",
        "'a'", "\"", "'", "1", "100", "1.5", "*", "+", "-", "/", "//", "%", "==", "is ", "not ", "defined", "in ", ":",
        "default", "round", "int", "items", "upper", ",", "\\", "\n", "recursive", "self", "super()", "caller",
    ]), 0..25)) {
        if let Ok(text) = rendered(&tokens.concat()) {
            prop_assert!(text.encode_utf16().count() <= RENDERED_MAX && !text.contains('\0'));
        }
    }
}
