//! The spelling of keys: snake_case and camelCase come in, camelCase is kept.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::rule::misfit::{Misfit, join};

/// An object with its top-level keys in camelCase; what lies below is left as it is. Nothing is
/// copied where nothing changes.
///
/// # Errors
/// `value` is no object, or has one key in both spellings. `root` is the path of `value`.
pub fn camel<'a>(root: &str, value: &'a Value) -> Result<Cow<'a, Map<String, Value>>, Misfit> {
    let Value::Object(map) = value else {
        return Err(Misfit::new(root, "must be a JSON object"));
    };
    if map.keys().all(|key| matches!(camel_key(key), Cow::Borrowed(_))) {
        return Ok(Cow::Borrowed(map));
    }
    let mut spelt = Map::new();
    for (key, value) in map {
        let name = camel_key(key).into_owned();
        if spelt.insert(name.clone(), value.clone()).is_some() {
            let reason = "stands there in snake_case and in camelCase; give it once";
            return Err(Misfit::new(join(root, &name), reason));
        }
    }
    Ok(Cow::Owned(spelt))
}

/// A key in camelCase. Only an underscore between a letter or digit and a lower-case letter or
/// digit goes: `_id`, `a__b` and `A_B` stay.
pub fn camel_key(key: &str) -> Cow<'_, str> {
    let bytes = key.as_bytes();
    let goes = |at: usize| {
        bytes[at] == b'_'
            && at > 0
            && bytes[at - 1] != b'_'
            && bytes.get(at + 1).is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if !(0..bytes.len()).any(goes) {
        return Cow::Borrowed(key);
    }
    let mut name = String::with_capacity(key.len());
    let mut raise = false;
    for (at, character) in key.char_indices() {
        if character == '_' && goes(at) {
            raise = true;
            continue;
        }
        name.push(if raise { character.to_ascii_uppercase() } else { character });
        raise = false;
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_mean_the_same_key() {
        let given = json!({"form_id": 1, "submissionId": {"inner_key": 2}, "_id": 3});
        let spelt = camel("payload", &given).unwrap().into_owned();
        let expected = json!({"formId": 1, "submissionId": {"inner_key": 2}, "_id": 3});
        assert_eq!(Value::Object(spelt), expected);
    }

    #[test]
    fn a_key_in_both_spellings_is_refused() {
        let error = camel("payload", &json!({"form_id": 1, "formId": 1})).unwrap_err();
        assert_eq!(error.path, "payload.formId");
        assert_eq!(camel("payload", &json!([1])).unwrap_err().path, "payload");
    }

    #[test]
    fn what_is_spelt_right_is_not_copied() {
        assert!(matches!(camel("", &json!({"formId": 1})), Ok(Cow::Borrowed(_))));
    }

    proptest! {
        #[test]
        fn respelling_twice_changes_nothing_more(key in "[a-zA-Z0-9_ä]{0,12}") {
            let once = camel_key(&key).into_owned();
            prop_assert_eq!(camel_key(&once).into_owned(), once.clone());
            let letters = |text: &str| text.replace('_', "").to_lowercase();
            prop_assert_eq!(letters(&once), letters(&key));
        }
    }
}
