//! Documents of the corpus, documents made of them, and documents of every shape, before the guard.
//! What it lets pass is counted by somebody else, who expands every fragment.

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use async_graphql::{Request, Value, Variables};
use proptest::prelude::*;
use proptest::sample::select;

use super::cost::{Counter, LEVELS};
use super::guard::{DOCUMENT_MAX, Guard};
use crate::api::graphql::error::{AboutRequest, BAD_USER_INPUT, PARSE_FAILED, VALIDATION_FAILED};
use crate::config::{Config, GraphqlConfig};
use crate::corpus::{cases, entries, mutated, texts};

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "{a",
    "a}",
    ":",
    "$",
    "$a",
    "!",
    "=",
    "|",
    "&",
    "@",
    "@a",
    "@skip(if: true)",
    "...",
    "...a",
    "...f0",
    "... on Query {",
    "on",
    "query",
    "mutation ",
    "subscription",
    "fragment f0 on Query { ...f0 }",
    "fragment a on Query { b }",
    "x: y",
    "a b c",
    "#",
    "\n",
    "\r",
    ",",
    "\"",
    "\"\"\"",
    "\\\"\"\"",
    "\"\\u0000\"",
    "\\u",
    "\u{feff}",
    "\u{0}",
    "1e999",
    "-0",
    "0x1",
    "null",
    "true",
    "é",
    "__schema",
    "__type",
];

fn config(settings: &[(&str, usize)]) -> GraphqlConfig {
    let settings = settings.iter();
    let settings =
        settings.map(|(key, value)| (format!("PFY_GRAPHQL_MAX_{key}"), value.to_string()));
    Config::load(None, settings).unwrap().graphql
}

/// Limits that documents of a line can pass.
fn narrow() -> GraphqlConfig {
    config(&[("DEPTH", 5), ("COMPLEXITY", 24), ("ALIASES", 6), ("TOKENS", 400), ("DIRECTIVES", 4)])
}

fn request(text: &str, variables: Variables) -> Request {
    let mut request = Request::new(text);
    request.variables = variables;
    request
}

/// The guard's word: `ok` or a code.
fn verdict(config: &GraphqlConfig, text: &str, variables: Variables) -> &'static str {
    match Guard::new(config).check(&mut request(text, variables)) {
        Ok(_) => "ok",
        Err(error) => {
            assert!(error.message.len() > 10, "{}", error.message);
            error.source::<AboutRequest>().unwrap_or_else(|| panic!("{error:?}")).0
        }
    }
}

/// What there is of a document with every fragment expanded, as far as it may be.
#[derive(Debug, Default)]
struct Expanded {
    fields: usize,
    selections: usize,
    aliases: usize,
    directives: usize,
    depth: usize,
    levels: usize,
}

/// Walks as a server would that knows no limits; false if it does not end within the most
/// selections that may be.
fn expand(
    document: &ExecutableDocument,
    set: &SelectionSet,
    (depth, level): (usize, usize),
    all: &mut Expanded,
) -> bool {
    all.levels = all.levels.max(level);
    for selection in &set.items {
        all.selections += 1;
        if all.selections > 100_000 || level > 2 * LEVELS {
            return false;
        }
        let (inner, depth) = match &selection.node {
            Selection::Field(field) => {
                let field = &field.node;
                all.fields += 1;
                all.aliases += usize::from(field.alias.is_some());
                all.directives += field.directives.len();
                all.depth = all.depth.max(depth + 1);
                (&field.selection_set, depth + 1)
            }
            Selection::InlineFragment(inline) => {
                all.directives += inline.node.directives.len();
                (&inline.node.selection_set, depth)
            }
            Selection::FragmentSpread(spread) => {
                all.directives += spread.node.directives.len();
                let name = &spread.node.fragment_name.node;
                let Some(fragment) = document.fragments.get(name) else { continue };
                all.directives += fragment.node.directives.len();
                (&fragment.node.selection_set, depth)
            }
        };
        if !inner.node.items.is_empty() && !expand(document, &inner.node, (depth, level + 1), all) {
            return false;
        }
    }
    true
}

/// How many sets of selections the document has as it is written.
fn sets(document: &ExecutableDocument) -> usize {
    fn below(set: &SelectionSet) -> usize {
        let inner = set.items.iter().map(|selection| match &selection.node {
            Selection::Field(field) => below(&field.node.selection_set.node),
            Selection::InlineFragment(inline) => below(&inline.node.selection_set.node),
            Selection::FragmentSpread(_) => 0,
        });
        1 + inner.sum::<usize>()
    }
    let operations = document.operations.iter().map(|(_, one)| below(&one.node.selection_set.node));
    let fragments = document.fragments.values().map(|one| below(&one.node.selection_set.node));
    operations.chain(fragments).sum()
}

/// The texts in the document's arguments and defaults, as the parser shows them.
fn has_null(document: &ExecutableDocument) -> bool {
    let json = serde_json::to_value(document).unwrap();
    json.to_string().contains("\\u0000")
}

fn check(config: &GraphqlConfig, text: &str) -> Result<&'static str, TestCaseError> {
    let verdict = verdict(config, text, Variables::default());
    prop_assert!(["ok", PARSE_FAILED, VALIDATION_FAILED, BAD_USER_INPUT].contains(&verdict));
    if text.len() > DOCUMENT_MAX || super::scan::scan(text).nesting > 100 {
        prop_assert_eq!(verdict, VALIDATION_FAILED);
        return Ok(verdict);
    }
    let Ok(document) = parse_query(text) else {
        prop_assert!(matches!(verdict, PARSE_FAILED | VALIDATION_FAILED), "{}", verdict);
        return Ok(verdict);
    };
    let mut counter = Counter::new(&document, text);
    let counted = counter.count();
    prop_assert!(counter.visited <= sets(&document), "{} sets were looked at", counter.visited);
    if verdict != "ok" {
        return Ok(verdict);
    }
    prop_assert!(!has_null(&document));
    let mut all = Expanded::default();
    for (_, operation) in document.operations.iter() {
        all.directives += operation.node.directives.len();
        let ends = expand(&document, &operation.node.selection_set.node, (0, 1), &mut all);
        prop_assert!(ends, "it does not end");
    }
    prop_assert!(all.fields <= config.max_complexity, "{:?}", all);
    prop_assert!(all.selections <= 3 * config.max_complexity, "{:?}", all);
    prop_assert!(all.aliases <= config.max_aliases, "{:?}", all);
    prop_assert!(all.directives <= config.max_directives, "{:?}", all);
    prop_assert!(all.depth <= config.max_depth, "{:?}", all);
    prop_assert!(all.levels <= LEVELS + 1, "{:?}", all);
    let counted = counted.unwrap();
    prop_assert!(all.fields <= counted.fields && all.depth <= counted.depth);
    Ok(verdict)
}

fn any_value() -> impl Strategy<Value = String> {
    let leaf = select(
        &[
            "1",
            "-0",
            "1e999",
            "99999999999999999999",
            "\"\"",
            "\"x\"",
            "\"\\u0000\"",
            "\"\"\"{[(\"\"\"",
            "null",
            "true",
            "ENUM",
            "$a",
            "\"\\uD800\"",
        ][..],
    )
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 16, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let object = proptest::collection::vec(inner, 0..4);
        prop_oneof![
            list.prop_map(|all| format!("[{}]", all.join(", "))),
            object.prop_map(|all| {
                let fields = all.iter().enumerate().map(|(at, value)| format!("k{at}: {value}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(" "))
            }),
        ]
    })
}

fn any_selections() -> impl Strategy<Value = String> {
    let directive = prop_oneof![6 => Just(""), 1 => Just(" @a"), 1 => Just(" @skip(if: true) @b")];
    let name = select(&["a", "b", "me", "__typename", "__schema", "x: y", "__type", "z: a"][..]);
    let arguments = proptest::option::weighted(0.2, any_value());
    let field = (name, arguments, directive.clone()).prop_map(|(name, value, directive)| {
        let arguments = value.map(|value| format!("(v: {value})")).unwrap_or_default();
        format!("{name}{arguments}{directive}")
    });
    let field = field.boxed();
    let spread = (0..5_usize, directive).prop_map(|(at, directive)| format!("...f{at}{directive}"));
    let leaf = prop_oneof![3 => field.clone(), 2 => spread];
    leaf.prop_recursive(6, 24, 4, move |inner| {
        let inner = proptest::collection::vec(inner, 1..4).prop_map(|all| all.join(" "));
        prop_oneof![
            3 => (field.clone(), inner.clone()).prop_map(|(field, inner)| format!("{field} {{ {inner} }}")),
            1 => inner.clone().prop_map(|inner| format!("... {{ {inner} }}")),
            1 => inner.prop_map(|inner| format!("... on Query @a {{ {inner} }}")),
        ]
    })
}

/// Operations and fragments that spread each other, in circles too.
fn any_document() -> impl Strategy<Value = String> {
    let default = proptest::option::weighted(0.3, any_value());
    let head = (select(&["", "query ", "mutation ", "query q", "query q @a "][..]), default)
        .prop_map(|(head, default)| match (head.trim_end(), default) {
            ("query q", Some(value)) => format!("query q($a: A = {value}) "),
            _ => head.to_owned(),
        });
    let fragment = proptest::collection::vec(any_selections(), 0..5);
    (head, any_selections(), fragment).prop_map(|(head, selections, fragments)| {
        let fragments = fragments.iter().enumerate();
        let fragments =
            fragments.map(|(at, body)| format!(" fragment f{at} on Query {{ {body} }}"));
        format!("{head}{{ {selections} }}{}", fragments.collect::<String>())
    })
}

fn any_text() -> impl Strategy<Value = String> {
    let document = any_document();
    prop_oneof![
        4 => document,
        4 => mutated(texts("graphql"), PIECES),
        1 => "[{}()\\[\\]a-c:.@$!\"#, \n]{0,60}",
        1 => any::<String>(),
    ]
}

#[test]
fn documents_of_the_corpus_have_their_verdicts() {
    let mut wrong = Vec::new();
    for entry in entries("graphql") {
        let checked = check(&config(&[]), &entry.text);
        let verdict = checked.unwrap_or_else(|error| panic!("{}: {error}", entry.at));
        if verdict != entry.verdict {
            wrong.push(entry.but(verdict));
        }
        check(&narrow(), &entry.text).unwrap_or_else(|error| panic!("{}: {error}", entry.at));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_null_character_is_refused_wherever_a_variable_holds_it() {
    let text = "query($a: JSON) { a(b: $a) }";
    let holding =
        [r#""\u0000""#, r#"["x\u0000"]"#, r#"{"b": [{"c": "\u0000"}]}"#, r#"{"\u0000": 1}"#];
    for json in holding {
        let json = serde_json::from_str(&format!("{{\"a\": {json}}}")).unwrap();
        let variables = Variables::from_json(json);
        assert_eq!(verdict(&config(&[]), text, variables.clone()), BAD_USER_INPUT, "{variables:?}");
    }
    let fine = Variables::from_value(Value::from_json(serde_json::json!({ "a": "0" })).unwrap());
    assert_eq!(verdict(&config(&[]), text, fine), "ok");
}

#[test]
fn a_subscription_has_one_field_at_its_root_however_it_is_written() {
    let of = |text: &str| verdict(&config(&[]), text, Variables::default());
    for text in [
        "subscription { a b }",
        "subscription { a ...f } fragment f on S { ... on S { b } }",
        "subscription { x: a y: a }",
    ] {
        assert_eq!(of(text), VALIDATION_FAILED, "{text}");
    }
    for text in ["subscription { a }", "subscription { a ...f } fragment f on S { a }", "{ a b }"] {
        assert_eq!(of(text), "ok", "{text}");
    }
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn what_the_guard_lets_pass_costs_no_more_than_its_limits(text in any_text()) {
        check(&narrow(), &text)?;
        check(&config(&[]), &text)?;
    }
}
