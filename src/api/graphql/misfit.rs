//! What the library says of values that do not fit, told as our own errors tell it: the field, and
//! what would be right.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use async_graphql::Pos;
use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};

use crate::domain::rule::misfit::join;

/// How the library begins what it says of a value, before the value's path in quotes.
const STARTS: [&str; 2] =
    ["Invalid value for argument \"", "Invalid default value for argument: \""];

/// What an enumeration or an input object may hold, by the type's name.
static NAMES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let Ok(schema) = parse_schema(super::sdl()) else { return BTreeMap::new() };
    let types = schema.definitions.into_iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Type(found) => Some(found.node),
        _ => None,
    });
    let named = types.filter_map(|found| {
        let names: Vec<String> = match found.kind {
            TypeKind::Enum(kind) => {
                kind.values.into_iter().map(|value| value.node.value.node.to_string()).collect()
            }
            TypeKind::InputObject(kind) => {
                kind.fields.into_iter().map(|field| field.node.name.node.to_string()).collect()
            }
            _ => return None,
        };
        Some((found.name.node.to_string(), names.join(", ")))
    });
    named.collect()
});

/// A value that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Where, in the spelling of our own errors: fields of an argument `input` stand alone.
    pub field: String,
    /// What would be right.
    pub message: String,
}

impl Misfit {
    /// Reads what the library says; none when it does not speak of a value.
    pub fn read(message: &str) -> Option<Self> {
        let said = STARTS.iter().find_map(|start| message.strip_prefix(start))?;
        let (path, reason) = said.split_once("\", ")?;
        let quoted: Vec<_> = reason.split('"').skip(1).step_by(2).collect();
        let told = |path: &str, what: &str| {
            let field = field(path);
            Self { message: format!("{field} {what}"), field }
        };
        Some(match quoted[..] {
            [kind, value] if reason.starts_with("enumeration type") => {
                told(path, &format!("{}; \"{value}\" is not", right(kind)))
            }
            [kind] if reason.starts_with("expected type") => told(path, &right(kind)),
            [name, ..] if reason.ends_with("is required but not provided") => {
                told(&join(path, name), "is required")
            }
            [name, kind] if reason.starts_with("unknown field") => {
                let known = NAMES.get(kind).map_or("nothing", String::as_str);
                told(&join(path, name), &format!("is no field of {kind}; it has {known}"))
            }
            _ => told(path, &format!("does not fit: {reason}")),
        })
    }
}

/// What a value of that type must be.
fn right(kind: &str) -> String {
    match kind {
        "DateTime" => {
            "must be an instant as in RFC 3339, for example 2026-03-01T09:00:00Z".to_owned()
        }
        "Int" => "must be a whole number".to_owned(),
        "String" => "must be a text".to_owned(),
        "Boolean" => "must be true or false".to_owned(),
        _ => match NAMES.get(kind) {
            Some(names) => format!("must be one of {names}"),
            None => format!("must be of type {kind}"),
        },
    }
}

/// A path of the library, such as `input.messages.0.text`, as our own errors write it.
pub(super) fn field(path: &str) -> String {
    let path = path.strip_prefix("input.").unwrap_or(path);
    path.split('.').fold(String::new(), |path, part| {
        let is_place = part.bytes().all(|byte| byte.is_ascii_digit());
        join(&path, &if is_place { format!("[{part}]") } else { part.to_owned() })
    })
}

/// The name of the argument whose value begins at `pos` of a document.
pub(super) fn argument_at(document: &str, pos: Pos) -> Option<&str> {
    let before = document.get(..offset(document, pos)?)?;
    let named = before.trim_end_matches(is_blank).strip_suffix(':')?.trim_end_matches(is_blank);
    let name = named.rsplit(|one: char| !one.is_ascii_alphanumeric() && one != '_').next();
    name.filter(|name| !name.is_empty())
}

/// Where a position is, in bytes. Columns are counted as the parser counts them.
fn offset(document: &str, pos: Pos) -> Option<usize> {
    let mut at = Pos { line: 1, column: 1 };
    for (offset, one) in document.char_indices() {
        if at == pos {
            return Some(offset);
        }
        at = match one {
            '\n' => Pos { line: at.line + 1, column: 1 },
            '\r' => Pos { column: 1, ..at },
            _ => Pos { column: at.column + 1, ..at },
        };
    }
    None
}

/// What may stand between tokens. After a comment nothing is found.
fn is_blank(one: char) -> bool {
    matches!(one, ' ' | ',' | '\t' | '\u{feff}' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_found_by_the_place_of_its_value() {
        let document = "{ é: a(b: \"ü\", c_1 :\r\n\t,7) {\n d(e:{f: 1}) } # g\n }";
        let at = |line, column| argument_at(document, Pos { line, column });
        assert_eq!(at(1, 11), Some("b"));
        assert_eq!(at(2, 3), Some("c_1"));
        assert_eq!(at(3, 6), Some("e"));
        assert_eq!(at(3, 2), None);
        for (line, column) in [(0, 0), (1, 1), (3, 99), (9, 1)] {
            assert_eq!(at(line, column), None, "{line}:{column}");
        }
        assert_eq!(argument_at("{ a(: 1) }", Pos { line: 1, column: 7 }), None);
        assert_eq!(argument_at("", Pos::default()), None);
    }
}
