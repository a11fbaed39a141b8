//! Variables that were not sent.
//!
//! In the library a nullable variable without a default that is not sent is null. In the
//! specification (October 2021) it has no value at all: "CoerceVariableValues" (6.1.2) adds no
//! entry for it, an argument that is such a variable is not given (6.4.1), nor is such a field of
//! an input object (3.10), so that its default holds; in a list it is null. The difference is that
//! of "leave it as it is" and "wipe it". So the library is given a document without such arguments
//! and fields. What is sent as null stays null.
//!
//! Whether a document is valid does not depend on its variables (5). What is left out would not be
//! looked at any more; so the library validates the document as it was sent first.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute};
use async_graphql::parser::types::{
    Directive, DocumentOperations, ExecutableDocument, FragmentDefinition, OperationDefinition,
    Selection, SelectionSet,
};
use async_graphql::{Name, Positioned, Request, Response, ServerError, Variables};
use async_graphql_value::Value;

use super::guard::choose;
use super::limited;
use crate::api::graphql::Schema;

/// Leaves out what was not sent.
#[derive(Default)]
pub(super) struct Absences {
    /// Made when it is first needed: not all clients leave variables out.
    validator: OnceLock<Schema>,
}

impl Absences {
    /// The request with its variables coerced: defaults stand among the variables, and nothing in
    /// the document speaks of a variable that has no value. The guard must have let it pass, and
    /// it must carry no data yet. Refused: a document that was not valid as it was sent.
    pub(super) async fn leave_out(
        &self,
        mut request: Request,
    ) -> Result<Request, Vec<ServerError>> {
        let mut variables = std::mem::take(&mut request.variables);
        let name = request.operation_name.clone();
        let rest = coerce(request.parsed_query()?, name.as_deref(), &mut variables);
        let Some(rest) = rest else {
            request.variables = variables;
            return Ok(request);
        };
        request.variables = variables.clone();
        let mut left = Request::new(std::mem::take(&mut request.query));
        left.operation_name = name;
        left.variables = variables;
        left.set_parsed_query(rest);
        let validated = self.validator().execute(request).await;
        if validated.is_err() { Err(validated.errors) } else { Ok(left) }
    }

    fn validator(&self) -> &Schema {
        self.validator.get_or_init(|| limited().extension(ValidateOnly).finish())
    }
}

/// Executes nothing. It has a schema of its own, because with any extension each single field takes
/// a longer way.
struct ValidateOnly;

impl ExtensionFactory for ValidateOnly {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_trait]
impl Extension for ValidateOnly {
    async fn execute(
        &self,
        _: &ExtensionContext<'_>,
        _: Option<&str>,
        _: NextExecute<'_>,
    ) -> Response {
        Response::default()
    }
}

/// Gives variables that are not sent their defaults. Where some have none, answers the document
/// without them: with the operation that is asked for alone, since others may share its fragments.
fn coerce(
    document: &ExecutableDocument,
    name: Option<&str>,
    variables: &mut Variables,
) -> Option<ExecutableDocument> {
    let operation = &choose(document, name).ok()?.node;
    let mut absent = HashSet::new();
    for definition in &operation.variable_definitions {
        let wanted = &definition.node;
        let name = &wanted.name.node;
        match &wanted.default_value {
            _ if variables.contains_key(name) => {}
            Some(default) => {
                variables.insert(name.clone(), default.node.clone());
            }
            None => {
                absent.insert(name.clone());
            }
        }
    }
    if absent.is_empty() {
        return None;
    }
    let mut rest = document.clone();
    Absent(absent).leave(&mut rest, name)?;
    Some(rest)
}

/// The names of variables that have no value. The guard has refused those that must have one.
struct Absent(HashSet<Name>);

impl Absent {
    /// None if there is no such operation.
    fn leave(&self, document: &mut ExecutableDocument, name: Option<&str>) -> Option<()> {
        let ExecutableDocument { operations, fragments } = document;
        let operation = &mut only(operations, name)?.node;
        let mut used = HashSet::new();
        spread(&operation.selection_set.node, fragments, &mut used);
        fragments.retain(|name, _| used.contains(name));
        operation.variable_definitions.retain(|one| !self.0.contains(&one.node.name.node));
        self.directives(&mut operation.directives);
        self.selections(&mut operation.selection_set.node);
        for fragment in fragments.values_mut() {
            self.directives(&mut fragment.node.directives);
            self.selections(&mut fragment.node.selection_set.node);
        }
        Some(())
    }

    fn selections(&self, set: &mut SelectionSet) {
        for selection in &mut set.items {
            self.directives(selection.node.directives_mut());
            match &mut selection.node {
                Selection::Field(field) => {
                    self.arguments(&mut field.node.arguments);
                    self.selections(&mut field.node.selection_set.node);
                }
                Selection::InlineFragment(inline) => {
                    self.selections(&mut inline.node.selection_set.node);
                }
                Selection::FragmentSpread(_) => {}
            }
        }
    }

    fn directives(&self, directives: &mut [Positioned<Directive>]) {
        for directive in directives {
            self.arguments(&mut directive.node.arguments);
        }
    }

    fn arguments(&self, arguments: &mut Vec<(Positioned<Name>, Positioned<Value>)>) {
        arguments.retain(|(_, value)| !self.is(&value.node));
        arguments.iter_mut().for_each(|(_, value)| self.value(&mut value.node));
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| !self.is(value));
                fields.values_mut().for_each(|value| self.value(value));
            }
            Value::List(values) => values.iter_mut().for_each(|value| self.value(value)),
            // Of a list: everywhere else it was left out.
            value if self.is(value) => *value = Value::Null,
            _ => {}
        }
    }

    fn is(&self, value: &Value) -> bool {
        matches!(value, Value::Variable(name) if self.0.contains(name))
    }
}

/// Removes all operations but the one that is asked for.
fn only<'a>(
    operations: &'a mut DocumentOperations,
    name: Option<&str>,
) -> Option<&'a mut Positioned<OperationDefinition>> {
    match operations {
        DocumentOperations::Single(operation) => Some(operation),
        DocumentOperations::Multiple(all) => {
            all.retain(|one, _| name.is_none_or(|name| one.as_str() == name));
            all.values_mut().next()
        }
    }
}

/// Adds to `used` the names of the fragments that the set stands on.
fn spread(
    set: &SelectionSet,
    fragments: &HashMap<Name, Positioned<FragmentDefinition>>,
    used: &mut HashSet<Name>,
) {
    for selection in &set.items {
        match &selection.node {
            Selection::Field(field) => spread(&field.node.selection_set.node, fragments, used),
            Selection::InlineFragment(inline) => {
                spread(&inline.node.selection_set.node, fragments, used);
            }
            Selection::FragmentSpread(one) => {
                let name = &one.node.fragment_name.node;
                if let Some(fragment) = fragments.get(name)
                    && used.insert(name.clone())
                {
                    spread(&fragment.node.selection_set.node, fragments, used);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use serde_json::json;

    use super::*;

    fn arguments(all: &[(Positioned<Name>, Positioned<Value>)]) -> String {
        let shown: Vec<_> =
            all.iter().map(|(name, value)| format!("{}: {}", name.node, value.node)).collect();
        if shown.is_empty() { String::new() } else { format!("({})", shown.join(", ")) }
    }

    fn directives(all: &[Positioned<Directive>]) -> String {
        let shown = all.iter();
        shown
            .map(|one| format!(" @{}{}", one.node.name.node, arguments(&one.node.arguments)))
            .collect()
    }

    fn selections(set: &SelectionSet) -> String {
        let shown = set.items.iter().map(|one| {
            let held = directives(one.node.directives());
            match &one.node {
                Selection::Field(field) => {
                    let field = &field.node;
                    let inner = selections(&field.selection_set.node);
                    format!("{}{}{held}{inner}", field.name.node, arguments(&field.arguments))
                }
                Selection::InlineFragment(inline) => {
                    format!("...{held}{}", selections(&inline.node.selection_set.node))
                }
                Selection::FragmentSpread(one) => {
                    format!("...{}{held}", one.node.fragment_name.node)
                }
            }
        });
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() { String::new() } else { format!(" {{ {} }}", shown.join(" ")) }
    }

    /// The variables and selections of each operation, then its fragments by name.
    fn shown(document: &ExecutableDocument) -> String {
        let operations = document.operations.iter().map(|(_, operation)| {
            let operation = &operation.node;
            let defined = operation.variable_definitions.iter();
            let defined: String = defined.map(|one| format!("${} ", one.node.name.node)).collect();
            let held = directives(&operation.directives);
            format!("{defined}{held}{}", selections(&operation.selection_set.node))
        });
        let mut fragments: Vec<_> = document.fragments.iter().collect();
        fragments.sort_by_key(|(name, _)| name.as_str());
        let fragments = fragments.into_iter().map(|(name, fragment)| {
            let held = directives(&fragment.node.directives);
            format!("{name}{held}{}", selections(&fragment.node.selection_set.node))
        });
        operations.chain(fragments).collect::<Vec<_>>().join(" | ").trim().to_owned()
    }

    /// What is left of `text`; none if all of it.
    fn left(text: &str, name: Option<&str>, variables: serde_json::Value) -> Option<String> {
        let mut variables = Variables::from_json(variables);
        coerce(&parse_query(text).unwrap(), name, &mut variables).map(|rest| shown(&rest))
    }

    #[test]
    fn an_argument_and_a_field_that_are_a_variable_without_a_value_are_left_out() {
        let none = json!({});
        for (text, rest) in [
            ("query($a: A) { f(x: $a) }", "{ f }"),
            ("query($a: A) { f(x: $a, y: 1) { g(z: $a) } }", "{ f(y: 1) { g } }"),
            ("query($a: A) { f(x: { y: $a, z: 1 }) }", "{ f(x: {z: 1}) }"),
            ("query($a: A) { f(x: { y: { z: $a } }) }", "{ f(x: {y: {}}) }"),
            ("query($a: A) { f(x: [{ y: $a, z: 2 }, { z: $a }]) }", "{ f(x: [{z: 2}, {}]) }"),
            ("query($a: A) { f(x: [1, $a, [$a]]) }", "{ f(x: [1, null, [null]]) }"),
            ("query($a: A) { f(x: \"$a\", y: a) }", "{ f(x: \"$a\", y: a) }"),
            ("query($a: A) { ... @d(x: $a, y: 1) { f } }", "{ ... @d(y: 1) { f } }"),
            ("query($a: A) { f @d(x: [$a]) }", "{ f @d(x: [null]) }"),
            ("query($a: A) @d(x: $a) { f }", "@d { f }"),
        ] {
            assert_eq!(left(text, None, none.clone()).as_deref(), Some(rest), "{text}");
        }
    }

    #[test]
    fn a_variable_with_a_value_stays_be_it_null() {
        for value in [json!(null), json!(1), json!([]), json!({ "b": null })] {
            let text = "query($a: A, $b: B) { f(x: $a, y: $b) }";
            let rest = left(text, None, json!({ "a": value }));
            assert_eq!(rest.as_deref(), Some("$a  { f(x: $a) }"), "{value}");
            let all = json!({ "a": value, "b": value, "c": 1 });
            assert_eq!(left(text, None, all), None, "{value}");
        }
    }

    #[test]
    fn a_variable_that_is_not_sent_has_its_default_and_one_that_is_sent_its_value() {
        let document = parse_query("query($a: A = 1, $b: B = 2, $c: C = 3) { f(x: $a) }").unwrap();
        let mut variables = Variables::from_json(json!({ "b": 5, "c": null }));
        assert!(coerce(&document, None, &mut variables).is_none());
        let expected = json!({ "a": 1, "b": 5, "c": null });
        assert_eq!(serde_json::to_value(&variables).unwrap(), expected);
    }

    #[test]
    fn fragments_are_gone_through_and_others_go_with_their_operations() {
        let text = "query one($a: A) { ...f } query two($a: A) { ...f ...h } query three { i }
            fragment f on Q @d(x: $a) { f(x: $a) ...g } fragment g on Q { g(x: [$a]) { ...g2 @d(y: $a) } }
            fragment g2 on Q { k(x: 1) } fragment h on Q { h(x: $a) }";
        let common = "f @d { f ...g } | g { g(x: [null]) { ...g2 @d } } | g2 { k(x: 1) }";
        let one = format!("{{ ...f }} | {common}");
        assert_eq!(left(text, Some("one"), json!({})), Some(one));
        let two = format!("{{ ...f ...h }} | {common} | h {{ h }}");
        assert_eq!(left(text, Some("two"), json!({})), Some(two));
        assert_eq!(left(text, Some("three"), json!({})), None);
        assert_eq!(left(text, Some("four"), json!({})), None);
        assert_eq!(left(text, None, json!({})), None);
        let alone = "query one($a: A) { f(x: $a) }";
        assert_eq!(left(alone, None, json!({})).as_deref(), Some("{ f }"));
    }

    #[test]
    fn what_is_left_keeps_its_place() {
        let document = parse_query("query($a: A) { f(x: $a, y: 1) }").unwrap();
        let rest = coerce(&document, None, &mut Variables::default()).unwrap();
        let (_, operation) = rest.operations.iter().next().unwrap();
        let Selection::Field(field) = &operation.node.selection_set.node.items[0].node else {
            panic!("no field")
        };
        assert_eq!((field.pos.column, field.node.arguments[0].1.pos.column), (16, 28));
    }
}
