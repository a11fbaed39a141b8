//! What a document costs, with its fragments expanded.
//!
//! Thirty fragments that each spread the next one twice are less than a kilobyte and stand for a
//! billion selections. Whoever walks the expanded document never comes back; so each fragment is
//! counted once and its cost is remembered. Sums stop at the greatest number there is.

use std::collections::HashMap;

use async_graphql::parser::types::{Directive, ExecutableDocument, Field, Selection, SelectionSet};
use async_graphql::{Name, Positioned, Value};

/// How deep selections and spreads may follow each other, whatever the limit on fields. Whoever
/// walks a document recurses so deep.
pub(super) const LEVELS: usize = 200;

/// What a part of a document costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Fields.
    pub fields: usize,
    /// Fields, spreads and inline fragments.
    pub selections: usize,
    /// Fields that have an alias.
    pub aliases: usize,
    /// Directives.
    pub directives: usize,
    /// How deep fields nest.
    pub depth: usize,
    /// How deep selections nest.
    pub levels: usize,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.fields = self.fields.saturating_add(other.fields);
        self.selections = self.selections.saturating_add(other.selections);
        self.aliases = self.aliases.saturating_add(other.aliases);
        self.directives = self.directives.saturating_add(other.directives);
        self.depth = self.depth.max(other.depth);
        self.levels = self.levels.max(other.levels);
    }
}

/// Why a document can't be counted, in words.
pub(super) type Refusal = String;

/// Counts a document.
pub(super) struct Counter<'a> {
    document: &'a ExecutableDocument,
    /// By fragment; none while it is being counted.
    known: HashMap<&'a Name, Option<Cost>>,
    /// Whether the schema is asked for.
    pub introspects: bool,
    /// The path of a text that holds a null character; looked for only where one may be.
    pub null_at: Option<String>,
    may_have_null: bool,
    /// How many sets of selections were looked at.
    #[cfg(test)]
    pub visited: usize,
}

impl<'a> Counter<'a> {
    /// A counter of `document`, whose text is `text`.
    pub(super) fn new(document: &'a ExecutableDocument, text: &str) -> Self {
        let may_have_null = text.contains('\0') || text.contains("\\u0000");
        let known = HashMap::new();
        Self {
            document,
            known,
            introspects: false,
            null_at: None,
            may_have_null,
            #[cfg(test)]
            visited: 0,
        }
    }

    /// The cost of all operations together, and at least that of each fragment. Refused: a
    /// fragment that contains itself, and more than [`LEVELS`] levels.
    pub(super) fn count(&mut self) -> Result<Cost, Refusal> {
        let document = self.document;
        let mut total = Cost::default();
        for (_, operation) in document.operations.iter() {
            Self::directives(&operation.node.directives, &mut total);
            total.add(self.set(&operation.node.selection_set.node, 1)?);
        }
        for name in document.fragments.keys() {
            let cost = self.fragment(name, 1)?;
            total.fields = total.fields.max(cost.fields);
            total.selections = total.selections.max(cost.selections);
            total.aliases = total.aliases.max(cost.aliases);
            total.directives = total.directives.max(cost.directives);
            total.depth = total.depth.max(cost.depth);
        }
        Ok(total)
    }

    fn set(&mut self, set: &'a SelectionSet, level: usize) -> Result<Cost, Refusal> {
        if level > LEVELS {
            return Err(too_deep());
        }
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let mut total = Cost::default();
        for selection in &set.items {
            total.selections = total.selections.saturating_add(1);
            match &selection.node {
                Selection::Field(field) => {
                    let cost = self.field(&field.node, level)?;
                    total.add(cost);
                }
                Selection::InlineFragment(inline) => {
                    Self::directives(&inline.node.directives, &mut total);
                    total.add(self.set(&inline.node.selection_set.node, level + 1)?);
                }
                Selection::FragmentSpread(spread) => {
                    Self::directives(&spread.node.directives, &mut total);
                    total.add(self.fragment(&spread.node.fragment_name.node, level + 1)?);
                }
            }
        }
        total.levels += 1;
        Ok(total)
    }

    fn field(&mut self, field: &'a Field, level: usize) -> Result<Cost, Refusal> {
        self.introspects |= matches!(field.name.node.as_str(), "__schema" | "__type");
        let mut cost = self.set(&field.selection_set.node, level + 1)?;
        cost.fields = cost.fields.saturating_add(1);
        cost.depth += 1;
        cost.aliases = cost.aliases.saturating_add(usize::from(field.alias.is_some()));
        Self::directives(&field.directives, &mut cost);
        if self.may_have_null {
            self.null_at = self.null_at.take().or_else(|| {
                let mut arguments = field.arguments.iter();
                arguments.find_map(|(name, value)| {
                    null_at(&name.node, &value.node.clone().into_const_with(known).ok()?)
                })
            });
        }
        Ok(cost)
    }

    /// A fragment that there is none of costs nothing here; validation refuses it.
    fn fragment(&mut self, name: &'a Name, level: usize) -> Result<Cost, Refusal> {
        match self.known.get(name) {
            // It was counted from another place, where less was above it perhaps.
            Some(Some(cost)) if level - 1 + cost.levels > LEVELS => return Err(too_deep()),
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err(format!("the fragment {name} contains itself")),
            None => {}
        }
        let Some(fragment) = self.document.fragments.get(name) else {
            return Ok(Cost::default());
        };
        self.known.insert(name, None);
        let mut cost = self.set(&fragment.node.selection_set.node, level)?;
        Self::directives(&fragment.node.directives, &mut cost);
        self.known.insert(name, Some(cost));
        Ok(cost)
    }

    fn directives(directives: &[Positioned<Directive>], cost: &mut Cost) {
        cost.directives = cost.directives.saturating_add(directives.len());
    }
}

fn too_deep() -> Refusal {
    format!("selections and fragments nest more than {LEVELS} levels deep")
}

/// Variables are looked at by themselves.
fn known(_: Name) -> Result<Value, std::convert::Infallible> {
    Ok(Value::Null)
}

/// The path, beginning with `at`, of a text in `value` that holds a null character, or of what has
/// such a key.
pub(super) fn null_at(at: &str, value: &Value) -> Option<String> {
    holds_null(value)
        .then(|| match value {
            Value::List(values) => {
                let mut values = values.iter().enumerate();
                values.find_map(|(place, value)| null_at(&format!("{at}.{place}"), value))
            }
            Value::Object(fields) => {
                fields.iter().find_map(|(name, value)| null_at(&format!("{at}.{name}"), value))
            }
            _ => None,
        })?
        .or_else(|| Some(at.to_owned()))
}

/// Whether a text or a key in `value` holds a null character.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::List(values) => values.iter().any(holds_null),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || holds_null(value))
        }
        _ => false,
    }
}
