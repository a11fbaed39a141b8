//! What is known of a LINE user, by name: how attributes are changed, and how large they may be.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The most attributes that a user has.
pub const ATTRIBUTES_MAX: usize = 200;
/// The longest name of an attribute, in characters.
pub const ATTRIBUTE_NAME_MAX: usize = 100;
/// The largest that all attributes of a user may be together, in bytes of JSON.
pub const ATTRIBUTES_SIZE_MAX: usize = 32 * 1024;

/// An attribute that has another value than before.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeChange {
    /// Its name.
    pub attribute: String,
    /// What it was; null when there was none.
    pub old_value: Value,
    /// What it is; null when there is none any more.
    pub new_value: Value,
}

/// The attributes `current` with the top-level keys of `patch` over them, and what of them really
/// changed, by name. Null takes an attribute away.
///
/// # Errors
/// `INVALID` on `field`: a patch that is no object; a name that is empty, longer than
/// [`ATTRIBUTE_NAME_MAX`] or holds a control character; the character U+0000 in any text; more than
/// [`ATTRIBUTES_MAX`] attributes, or more than [`ATTRIBUTES_SIZE_MAX`] together, afterwards.
pub fn merge(
    field: &'static str,
    current: &Map<String, Value>,
    patch: Value,
) -> Result<(Map<String, Value>, Vec<AttributeChange>)> {
    let invalid = |reason: String| Error::invalid(field, format!("{field} {reason}"));
    let Value::Object(patch) = patch else {
        return Err(invalid("must be a JSON object: attributes by name".to_owned()));
    };
    let mut merged = current.clone();
    let mut changes = Vec::new();
    for (attribute, new_value) in patch {
        if !is_name(&attribute) {
            return Err(invalid(format!(
                "must have names of 1 to {ATTRIBUTE_NAME_MAX} characters without control characters"
            )));
        }
        if holds_null_character(&new_value) {
            return Err(invalid(format!("must not hold the character U+0000, {attribute} does")));
        }
        let old_value = match &new_value {
            Value::Null => merged.remove(&attribute),
            value => merged.insert(attribute.clone(), value.clone()),
        };
        let old_value = old_value.unwrap_or_default();
        if old_value != new_value {
            changes.push(AttributeChange { attribute, old_value, new_value });
        }
    }
    if merged.len() > ATTRIBUTES_MAX {
        let reason = format!("must be at most {ATTRIBUTES_MAX} together with those of the user");
        return Err(invalid(format!("{reason}, they are {}", merged.len())));
    }
    let size = serde_json::to_vec(&merged).map_err(Error::internal)?.len();
    if size > ATTRIBUTES_SIZE_MAX {
        let reason = format!("must have at most {ATTRIBUTES_SIZE_MAX} bytes of JSON together with");
        return Err(invalid(format!("{reason} those of the user, they have {size}")));
    }
    Ok((merged, changes))
}

fn is_name(text: &str) -> bool {
    let length = text.chars().count();
    (1..=ATTRIBUTE_NAME_MAX).contains(&length) && !text.chars().any(char::is_control)
}

fn holds_null_character(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(holds_null_character),
        Value::Object(all) => {
            all.iter().any(|(key, value)| key.contains('\0') || holds_null_character(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn keys_are_set_replaced_and_taken_away_and_the_others_stay() {
        let current = object(json!({ "a": 1, "b": "x", "c": [1], "d": true }));
        let patch = json!({ "a": 1, "b": "y", "c": null, "new": { "deep": null }, "none": null });
        let (merged, changes) = merge("attributes", &current, patch).unwrap();
        assert_eq!(json!(merged), json!({ "a": 1, "b": "y", "d": true, "new": { "deep": null } }));
        let mut told: Vec<_> = changes
            .iter()
            .map(|change| (change.attribute.as_str(), &change.old_value, &change.new_value))
            .collect();
        told.sort_by_key(|change| change.0);
        let (x, y, one, none, deep) =
            (json!("x"), json!("y"), json!([1]), Value::Null, json!({ "deep": null }));
        assert_eq!(told, [("b", &x, &y), ("c", &one, &none), ("new", &none, &deep)]);
    }

    #[test]
    fn what_is_too_much_is_refused_and_the_bound_itself_is_not() {
        let many =
            |n: usize| json!((0..n).map(|i| (i.to_string(), 1.into())).collect::<Map<_, Value>>());
        let empty = Map::new();
        assert!(merge("attributes", &empty, many(200)).is_ok());
        assert!(merge("attributes", &empty, many(201)).is_err());
        let full = object(many(200));
        assert!(merge("attributes", &full, json!({ "0": null, "one more": 1 })).is_ok());
        assert!(merge("attributes", &full, json!({ "one more": 1 })).is_err());
        // {"k":"…"}: eight bytes beside the text.
        let sized = |bytes: usize| json!({ "k": "x".repeat(bytes - 8) });
        assert!(merge("attributes", &empty, sized(ATTRIBUTES_SIZE_MAX)).is_ok());
        assert!(merge("attributes", &empty, sized(ATTRIBUTES_SIZE_MAX + 1)).is_err());
        assert!(merge("attributes", &empty, json!({ "ä".repeat(100): 1 })).is_ok());
        assert!(merge("attributes", &empty, json!({ "ä".repeat(101): 1 })).is_err());
    }

    #[test]
    fn what_is_no_object_has_no_name_or_can_not_be_stored_is_refused_on_the_field() {
        for bad in [
            json!(null),
            json!([1]),
            json!("text"),
            json!({ "": 1 }),
            json!({ "a\u{0}": null }),
            json!({ "a\n": 1 }),
            json!({ "a": "\u{0}" }),
            json!({ "a": [{ "b\u{0}": 1 }] }),
        ] {
            let error = merge("attributes", &Map::new(), bad.clone()).unwrap_err();
            assert_eq!((error.code(), error.field()), ("INVALID", Some("attributes")), "{bad}");
        }
    }
}
