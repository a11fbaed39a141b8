//! Typed configurations from untyped JSON, for sources and actions alike.
//!
//! A configuration has keys of its own type and keys that all of its kind share (`condition`;
//! `delay`, `at`, …). The two are separate types here, and one object and one schema outside.

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::misfit::{Misfit, join};
use crate::domain::keys;

/// Reads `value` as a `T` and a `C`, which share no key. Keys may be in snake_case.
///
/// # Errors
/// The path, below `root`, of what is missing, unknown or of a wrong type.
pub fn read<T, C>(root: &str, value: &Value) -> Result<(T, C), Misfit>
where
    T: DeserializeOwned + JsonSchema + 'static,
    C: DeserializeOwned + JsonSchema + 'static,
{
    let map = keys::camel(root, value)?;
    let (own, common) = (properties::<T>(), properties::<C>());
    if let Some(key) = map.keys().find(|key| !own.contains(*key) && !common.contains(*key)) {
        let known: Vec<_> = own.union(&common).map(String::as_str).collect();
        let reason = format!("is not known; known are {}", known.join(", "));
        return Err(Misfit::new(join(root, key), reason));
    }
    let (common, own): (Map<_, _>, Map<_, _>) = map
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .partition(|(key, _)| common.contains(key));
    Ok((typed(root, &Value::Object(own))?, typed(root, &Value::Object(common))?))
}

/// Reads `value` as a `T`.
///
/// # Errors
/// The path, below `root`, of what does not fit.
pub fn typed<T: DeserializeOwned>(root: &str, value: &Value) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let reason = error.inner().to_string();
        match error.path().to_string() {
            path if path == "." => match missing(&reason) {
                Some(key) => Misfit::new(join(root, key), "is required"),
                None => Misfit::new(root, reason),
            },
            path => Misfit::new(join(root, &path), reason),
        }
    })
}

/// The key of serde's "missing field `key`".
fn missing(reason: &str) -> Option<&str> {
    reason.strip_prefix("missing field `")?.strip_suffix('`')
}

/// The two as the one object that is stored: complete, in camelCase.
pub fn write<T: Serialize, C: Serialize>(own: &T, common: &C) -> Result<Value, Misfit> {
    let mut all = Map::new();
    for part in [serde_json::to_value(own), serde_json::to_value(common)] {
        match part {
            Ok(Value::Object(part)) => all.extend(part),
            Ok(_) => {}
            Err(error) => return Err(Misfit::new("", error.to_string())),
        }
    }
    Ok(Value::Object(all))
}

/// The JSON Schema (2020-12) of the one object that `T` and `C` are together.
pub fn schema<T: JsonSchema, C: JsonSchema>() -> Value {
    let mut schema = schema_of::<T>();
    let mut common = schema_of::<C>();
    for part in ["properties", "required"] {
        match (schema.get_mut(part), common.get_mut(part).map(Value::take)) {
            (Some(Value::Object(all)), Some(Value::Object(more))) => all.extend(more),
            (Some(Value::Array(all)), Some(Value::Array(more))) => all.extend(more),
            (None, Some(more)) => schema[part] = more,
            _ => {}
        }
    }
    schema
}

/// The JSON Schema (2020-12) of `T`, without references.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The keys of an object of type `T`. Made once a type, as the schema costs more than the reading.
fn properties<T: JsonSchema + 'static>() -> Arc<BTreeSet<String>> {
    static KNOWN: LazyLock<Mutex<HashMap<TypeId, Arc<BTreeSet<String>>>>> =
        LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let keys = || {
        let schema = schema_of::<T>();
        let properties = schema.get("properties").and_then(Value::as_object);
        Arc::new(properties.map(|all| all.keys().cloned().collect()).unwrap_or_default())
    };
    known.entry(TypeId::of::<T>()).or_insert_with(keys).clone()
}

/// Reads a key whose absence and whose `null` differ: with `#[serde(default)]`, an absent one is
/// `None` and `null` is `Some(Null)`.
pub fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Own {
        form_id: String,
        #[serde(default)]
        parts: Vec<u8>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Common {
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
    }

    fn refused(value: Value) -> String {
        read::<Own, Common>("sourceConfig", &value).unwrap_err().to_string()
    }

    #[test]
    fn one_object_becomes_two_types_and_one_object_again() {
        let given = json!({"form_id": "f", "condition": "true"});
        let (own, common) = read::<Own, Common>("sourceConfig", &given).unwrap();
        let stored = write(&own, &common).unwrap();
        assert_eq!(stored, json!({"formId": "f", "parts": [], "condition": "true"}));
        assert_eq!(read::<Own, Common>("sourceConfig", &stored).unwrap(), (own, common));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_path() {
        assert_eq!(refused(json!({})), "sourceConfig.formId: is required");
        let unknown = "sourceConfig.formIds: is not known; known are condition, formId, parts";
        assert_eq!(refused(json!({"formIds": 1})), unknown);
        let kind = refused(json!({"formId": "f", "parts": [1, "x"]}));
        assert!(kind.starts_with("sourceConfig.parts[1]: invalid type: string"), "{kind}");
        assert_eq!(refused(json!([])), "sourceConfig: must be a JSON object");
        assert!(
            refused(json!({"formId": "f", "condition": 1})).starts_with("sourceConfig.condition")
        );
    }

    #[test]
    fn the_schema_is_of_both() {
        let schema = schema::<Own, Common>();
        let keys: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["condition", "formId", "parts"]);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], json!(["formId"]));
    }
}
