//! Refuses documents that would cost too much, before anything walks them.
//!
//! It runs before the library sees a request, whose own limits come too late: they are found by
//! walking the expanded document. First a scan bounds tokens and nesting, so that the parser can't
//! run out of stack; then the document is parsed, once; then its cost is counted with fragments
//! expanded. What passes is executed without being parsed again. (It is no extension of the
//! library, because with any extension each single field takes a longer way.)

use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, OperationDefinition, OperationType, Selection,
};
use async_graphql::{Pos, Positioned, Request, ServerError, ServerResult, Value, Variables};

use super::cost::{Cost, Counter, null_at};
use super::scan::{Scan, scan};
use crate::api::graphql::error::{PARSE_FAILED, VALIDATION_FAILED, about_request, about_value};
use crate::api::graphql::misfit::field;
use crate::config::GraphqlConfig;
use crate::domain::rule::misfit::cut;

/// The longest document, in bytes.
pub(super) const DOCUMENT_MAX: usize = 64 * 1024;
/// How deep brackets may nest. The parser takes about ten kilobytes of stack for each.
const NESTING_MAX: usize = 100;
/// Selections that are no fields, spreads and inline fragments, may be as many as fields, and as
/// many again.
const SELECTIONS_PER_FIELD: usize = 3;

/// The limits of documents.
#[derive(Debug, Clone)]
pub(super) struct Guard(Arc<GraphqlConfig>);

impl Guard {
    pub(super) fn new(config: &GraphqlConfig) -> Self {
        Self(Arc::new(config.clone()))
    }

    /// Parses the request's document, unless that was done, and checks it. Answers what kind of
    /// operation is asked for.
    pub(super) fn check(&self, request: &mut Request) -> ServerResult<OperationType> {
        self.before_parsing(&request.query)?;
        if request.operation_name.as_deref() == Some("") {
            request.operation_name = None;
        }
        request.parsed_query().map_err(|error| about_request(error, PARSE_FAILED))?;
        // What is parsed is borrowed from the whole request, so the parts are set aside.
        let text = std::mem::take(&mut request.query);
        let variables = std::mem::take(&mut request.variables);
        let name = request.operation_name.take();
        let checked = self.check_parsed(request, &text, (name.as_deref(), &variables));
        request.query = text;
        request.variables = variables;
        request.operation_name = name;
        checked
    }

    fn check_parsed(
        &self,
        request: &mut Request,
        text: &str,
        (name, variables): (Option<&str>, &Variables),
    ) -> ServerResult<OperationType> {
        let document = request.parsed_query()?;
        self.cost(document, text)?;
        let operation = choose(document, name)?;
        check_variables(&operation.node, variables)?;
        if operation.node.ty == OperationType::Subscription {
            one_field(document, operation)?;
        }
        Ok(operation.node.ty)
    }

    fn before_parsing(&self, document: &str) -> ServerResult<()> {
        if document.len() > DOCUMENT_MAX {
            return Err(invalid(too_long(document.len()), None));
        }
        let Scan { tokens, nesting, twice } = scan(document);
        limit("tokens", tokens, self.0.max_tokens)?;
        limit("nested brackets", nesting, NESTING_MAX)?;
        match twice {
            None => Ok(()),
            Some(name) => {
                let name = cut(&name, 50);
                Err(invalid(format!("an input object has the field {name} twice"), None))
            }
        }
    }

    fn cost(&self, document: &ExecutableDocument, text: &str) -> ServerResult<()> {
        let mut counter = Counter::new(document, text);
        let cost: Cost = counter.count().map_err(|reason| invalid(reason, None))?;
        limit("levels of fields", cost.depth, self.0.max_depth)?;
        limit("fields, with fragments expanded", cost.fields, self.0.max_complexity)?;
        limit("aliases", cost.aliases, self.0.max_aliases)?;
        limit("directives", cost.directives, self.0.max_directives)?;
        let selections = self.0.max_complexity.saturating_mul(SELECTIONS_PER_FIELD);
        limit("selections, with fragments expanded", cost.selections, selections)?;
        if counter.introspects && !self.0.introspection {
            return Err(invalid("introspection is switched off on this server", None));
        }
        counter.null_at.map_or(Ok(()), |path| Err(null_character(&path)))
    }
}

/// What is said of a document that is too long.
pub(super) fn too_long(length: usize) -> String {
    format!("the document has {length} bytes, at most {DOCUMENT_MAX} are allowed")
}

fn limit(what: &str, found: usize, max: usize) -> ServerResult<()> {
    if found <= max {
        return Ok(());
    }
    let found = if found == usize::MAX { "too many".to_owned() } else { found.to_string() };
    Err(invalid(format!("the document has {found} {what}; at most {max} are allowed"), None))
}

fn invalid(message: impl Into<String>, at: Option<Pos>) -> ServerError {
    about_request(ServerError::new(message, at), VALIDATION_FAILED)
}

fn null_character(path: &str) -> ServerError {
    let message = format!("{} must not contain the null character (U+0000)", field(path));
    about_value(ServerError::new(message, None), path)
}

/// The operation that is asked for (GraphQL specification, "GetOperation").
pub(super) fn choose<'a>(
    document: &'a ExecutableDocument,
    name: Option<&str>,
) -> ServerResult<&'a Positioned<OperationDefinition>> {
    match (&document.operations, name) {
        (DocumentOperations::Single(operation), None) => Ok(operation),
        (DocumentOperations::Multiple(all), Some(name)) if all.contains_key(name) => Ok(&all[name]),
        (DocumentOperations::Multiple(all), None) if all.len() == 1 => {
            all.values().next().ok_or_else(|| invalid("the document has no operation", None))
        }
        (_, Some(name)) => Err(invalid(format!("the document has no operation {name:?}"), None)),
        (_, None) => {
            Err(invalid("the document has several operations; name one in operationName", None))
        }
    }
}

/// A subscription has one field at its root (October 2021, 5.2.3.1); no more than one name in the answer.
fn one_field(
    document: &ExecutableDocument,
    operation: &Positioned<OperationDefinition>,
) -> ServerResult<()> {
    let (mut names, mut spread) = (HashSet::new(), HashSet::new());
    let mut sets = vec![&operation.node.selection_set.node];
    while let Some(set) = sets.pop() {
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    names.insert(&field.node.response_key().node);
                }
                Selection::InlineFragment(inline) => sets.push(&inline.node.selection_set.node),
                Selection::FragmentSpread(one) => {
                    let name = &one.node.fragment_name.node;
                    let fragment = document.fragments.get(name).filter(|_| spread.insert(name));
                    sets.extend(fragment.map(|found| &found.node.selection_set.node));
                }
            }
        }
    }
    match names.len() {
        0 | 1 => Ok(()),
        _ => Err(invalid("a subscription must have one field at its root", Some(operation.pos))),
    }
}

fn check_variables(operation: &OperationDefinition, variables: &Variables) -> ServerResult<()> {
    for definition in &operation.variable_definitions {
        let wanted = &definition.node;
        let given = variables.get(&wanted.name.node);
        let empty = given.is_none_or(|value| *value == Value::Null);
        let required = !wanted.var_type.node.nullable;
        if required && empty && (given.is_some() || wanted.default_value.is_none()) {
            let (name, kind) = (&wanted.name.node, &wanted.var_type.node);
            let message = format!("the variable ${name} of type {kind} must have a value");
            let error = ServerError::new(message, Some(definition.pos));
            return Err(about_value(error, name));
        }
    }
    let given = variables.iter();
    let defaults = operation.variable_definitions.iter().filter_map(|wanted| {
        Some((&wanted.node.name.node, &wanted.node.default_value.as_ref()?.node))
    });
    let null = given.chain(defaults).find_map(|(name, value)| null_at(name, value));
    null.map_or(Ok(()), |path| Err(null_character(&path)))
}
