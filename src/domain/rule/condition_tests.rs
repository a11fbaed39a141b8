use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixture::{at, event, rule, user};
use super::*;

fn says_of(payload: &Value, attributes: Value, text: &str) -> Result<bool, String> {
    let rule = rule();
    let event = event(&rule, "form_submitted", payload.clone());
    let user = user(&rule, attributes);
    let facts = Facts::new(&event, payload, Some(&user), at(0));
    Condition::compile(text).map_err(|misfit| misfit.to_string())?.evaluate(&facts)
}

fn says(text: &str) -> Result<bool, String> {
    let payload = json!({
        "total": 250, "price": 9.5, "items": ["a", "b"], "rows": [{"n": 1}, {"n": 2}],
        "name": "Ada", "startsAt": "2027-01-15T09:00:00Z", "note": null,
    });
    says_of(&payload, json!({"tier": "gold", "visits": 3}), text)
}

fn refused(text: &str) -> String {
    Condition::compile(text).unwrap_err().reason
}

#[test]
fn a_part_that_nothing_has_and_a_single_equals_sign_are_refused_with_what_would_be_right() {
    for (text, slip, right) in [
        ("user.attributs.tier == 'gold'", "`user.attributs`", "user has id, following, attributes"),
        (
            "has(event.playload.a)",
            "`event.playload`",
            "event has id, type, userId, occurredAt, payload",
        ),
        ("now.year > 2026", "`now.year`", "now has no parts"),
        ("user.attributes.tier = 'gold'", "`=`", "write `==`"),
        ("a='b'", "`=`", "write `==`"),
    ] {
        let reason = refused(text);
        assert!(
            reason.contains(&format!("{slip} is not known")) && reason.contains(right),
            "{reason}"
        );
    }
    let line = refused("true &&\n user.attributes.a = 1");
    assert!(line.starts_with("line 2, column 20"), "{line}");
    for text in [
        "event.payload.total >= 250 && event.payload.total != 1 && event.payload.total<=250",
        "event.payload.name == 'a=b' || true",
        "event.payload.rows.exists(user, user.n == 1)",
    ] {
        assert_eq!(says(text), Ok(true), "{text}");
    }
}

#[test]
fn a_condition_speaks_of_event_user_and_now() {
    for text in [
        "true",
        "event.payload.total > 100 && user.attributes.tier == 'gold'",
        "event.type == 'form_submitted' && event.userId == user.id",
        "event.payload.total == 250 && event.payload.price > 9 && event.payload.price < 9.6",
        "user.following",
        "event.occurredAt < now && now - event.occurredAt < duration('1m')",
        "timestamp(event.payload.startsAt) - now < duration('3h')",
        "now.getFullYear() == 2027",
        "'a' in event.payload.items && size(event.payload.items) == 2",
        "event.payload.rows.exists(r, r.n == 2) && event.payload.rows.all(r, r.n + 1 > 1)",
        "size(event.payload.rows.filter(r, r.n > 1)) == 1",
        "event.payload.rows.exists_one(r, r.n in [2, 3])",
        "event.payload.name.startsWith('A') && event.payload.name.matches('^[A-Z][a-z]+$')",
        "has(user.attributes.tier) && !has(user.attributes.other)",
        "event.payload.note == null",
        "user.attributes.visits + 1 == 4 ? true : false",
        "// with a comment\nevent.payload['total'] == 250",
    ] {
        assert_eq!(says(text), Ok(true), "{text}");
    }
    assert_eq!(says("event.payload.total < 100"), Ok(false));
}

#[test]
fn what_is_not_set_is_said_and_is_no_crash() {
    assert_eq!(says("user.attributes.city == 'Bangkok'"), Err("city is not set".to_owned()));
    assert_eq!(says("event.payload.a.b.c > 1"), Err("a is not set".to_owned()));
    assert_eq!(says("has(user.attributes.city) && user.attributes.city == 'x'"), Ok(false));
    assert_eq!(says("user.attributes.city == 'x' || true"), Ok(true));
}

#[test]
fn what_can_not_be_answered_is_said_in_words() {
    for (text, reason) in [
        ("1 / (event.payload.total - 250) > 0", "it divides by zero"),
        ("event.payload.total % 0 == 1", "it divides by zero"),
        ("event.payload.total", "the condition must answer true or false, it answered a number"),
        ("user.attributes", "the condition must answer true or false, it answered an object"),
        ("event.payload.items[7] == 'a'", "a list is shorter than the index"),
        ("9223372036854775807 + event.payload.total > 0", "a number becomes too large"),
    ] {
        assert_eq!(says(text), Err(reason.to_owned()), "{text}");
    }
    let mixed = says("event.payload.name > 5").unwrap_err();
    assert!(mixed.contains("string") && mixed.contains("int"), "{mixed}");
    for text in [
        "-(-9223372036854775807 - 1) > 0",
        "-9223372036854775808 / -1 > 0",
        "timestamp('x') < now",
        "duration('x') < duration('1s')",
        "int('x') == 1",
        "int(1e300) == 1",
        "uint(-1) == 1u",
        "now.getHours('Nowhere/At_All') == 1",
        "timestamp('9999-12-31T23:59:59Z') + duration('1000000h') > now",
    ] {
        assert!(says(text).is_err(), "{text}: {:?}", says(text));
    }
    let _ = says("-9223372036854775808 % -1 == 0");
}

#[test]
fn an_error_names_line_and_column() {
    assert_eq!(
        refused("true &&\n  foo == 1"),
        "line 2, column 3: `foo` is not known; known are event, user and now"
    );
    assert!(
        refused("event.payload.total >").starts_with("line 1, column"),
        "{}",
        refused("event. >")
    );
    assert!(refused("now.shout()").contains("the function `shout` is not known"));
    assert!(refused("'abc").ends_with("this text does not end"));
    assert!(refused("  ").contains("must not be empty"));
    assert!(refused(&"a".repeat(2_001)).contains("at most 2000 characters"));
}

#[test]
fn what_could_explode_is_refused() {
    for (text, why) in [
        ("[1].all(x, [1].all(y, true))", "can't stand in each other"),
        ("[1].filter(x, true).filter(y, true) == [1]", "can't stand in each other"),
        ("[1].map(x, x) == [1]", "map is not known"),
        ("['a'].map(x, x + x).map(x, x + x) == []", "can't stand in each other"),
        ("event.payload.items.all(x, x + x == 'aa')", "only a written number can be added"),
        ("[event.payload.name + event.payload.name].all(x, true)", "only a written number"),
        ("event.payload.items.all(x, x.matches('a'))", "matches can't stand inside a loop"),
        ("event.payload.items.all(x, [x, x] == [x])", "plain values only"),
        ("event.payload.items.all(x, {'a': x} == {})", "no object can be made"),
        ("'a'.matches(event.payload.name)", "must be written out"),
        ("'a'.matches('(')", "not a regular expression"),
        (r"'a'.matches('((\\pL{100}){100}){100}')", "too large"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
    let many = ["'a'.matches('a')"; 6].join(" && ");
    assert!(refused(&many).contains("at most 5"));
}

#[test]
fn deep_nesting_is_refused_before_it_is_parsed() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("!", ""),
        ("-", ""),
        ("- ", ""),
        ("size(", ")"),
        ("a?b:", "c"),
        ("a.", ""),
        ("1+", ""),
        ("x[", "]"),
        ("a in ", ""),
        ("[(", ")]"),
    ] {
        let times = 1_900 / (open.len() + close.len());
        let text = format!("{}1{}", open.repeat(times), close.repeat(times));
        assert!(refused(&text).contains("nests too deep"), "{open}: {}", refused(&text));
    }
    let tail = format!("a{}", "[0]".repeat(600));
    assert!(refused(&tail).contains("nests too deep"));
    let calls = format!("a{}", "()".repeat(600));
    assert!(refused(&calls).contains("nests too deep"));
}

#[test]
fn a_long_but_flat_condition_is_fine() {
    let any: Vec<_> = (0..55).map(|n| format!("event.payload.name == 'name{n}'")).collect();
    assert_eq!(says(&any.join("||")), Ok(false));
    assert_eq!(says(&any.join("&&")), Ok(false));
    let list: Vec<_> = (0..150).map(|n| format!("'name{n}'")).collect();
    assert_eq!(says(&format!("event.payload.name in [{}]", list.join(","))), Ok(false));
}

#[test]
fn brackets_in_texts_and_comments_do_not_count() {
    let many = "(".repeat(500);
    for text in [
        format!("'{many}' != ''"),
        format!("r'{many}\\' != ''"),
        format!("true // {many}"),
        format!("'''{many}''' != \"\"\"'\"\"\""),
    ] {
        assert_eq!(says(&text), Ok(true), "{text}");
    }
}

#[test]
fn a_loop_over_too_much_is_held_back_and_one_over_little_is_not() {
    let text = "event.payload.items.all(x, x in event.payload.items)";
    let items = |n: usize| json!({"items": (0..n).collect::<Vec<_>>()});
    assert_eq!(says_of(&items(500), json!({}), text), Ok(true));
    let error = says_of(&items(20_000), json!({}), text).unwrap_err();
    assert_eq!(error, "the event and the user hold too much for a condition with a loop");
    assert_eq!(says_of(&items(20_000), json!({}), "20 in event.payload.items"), Ok(true));
}

#[test]
fn a_pattern_is_counted_as_being_read_each_time() {
    let cost = |text: &str| {
        let rule = rule();
        let (event, payload) = (event(&rule, "form_submitted", json!({})), json!({}));
        Condition::compile(text).unwrap().cost(&Facts::new(&event, &payload, None, at(0)))
    };
    let plain = cost("event.payload.a == 'x'");
    assert_eq!(cost("event.payload.a.matches('^x')") - plain, PATTERN_COST);
    let two = "event.payload.a.matches('^x') || event.payload.a.matches('y$')";
    assert_eq!(cost(two) - plain, 2 * PATTERN_COST);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,60}") {
        let _ = says(&text);
    }

    #[test]
    fn arbitrary_tokens_never_panic(tokens in proptest::collection::vec(prop::sample::select(vec![
        "event", ".payload", ".total", "user", "now", "(", ")", "[", "]", "{", "}", "'a'", "r'", "1", "-", "!",
        "2u", "1.5", "==", "<", "&&", "||", "?", ":", "in", ",", ".all(x,", ".filter(x,", "x", ".map(x,",
        "has(", "size(", ".matches(", "b'\\xff'", "null", "+", "*", "%", "/", "//", "\n", "\"", "'''", "`",
        "duration('1h')", "timestamp(", "int(", "string(", "type(", "@", "\\", "dyn(", ".?", "[?",
    ]), 0..25)) {
        let _ = says(&tokens.concat());
        let _ = says(&tokens.join(" "));
    }
}
