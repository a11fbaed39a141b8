//! What a text that comes in must look like. Parsed once, at the door.

use crate::error::{Error, Result};

/// The longest name, run key, user name and environment, in characters.
pub const NAME_MAX: usize = 100;
/// The longest description, in characters.
pub const DESCRIPTION_MAX: usize = 1000;
/// The longest slug, in characters.
pub const SLUG_MAX: usize = 63;

/// A required text of up to [`NAME_MAX`] characters: white space at both ends is cut.
/// Refused with `INVALID`: nothing left, too long, control characters.
pub fn name(field: &'static str, text: &str) -> Result<String> {
    let text = text.trim();
    if text.chars().all(is_invisible) {
        return Err(Error::invalid(field, format!("{field} is required")));
    }
    bounded(field, text, NAME_MAX)
}

/// An optional text of up to [`DESCRIPTION_MAX`] characters; line breaks and tabs may stand in it.
pub fn description(field: &'static str, text: &str) -> Result<String> {
    let flat = text.replace(['\n', '\r', '\t'], " ");
    bounded(field, &flat, DESCRIPTION_MAX)?;
    Ok(text.to_owned())
}

/// A slug: 1 to [`SLUG_MAX`] lower-case letters, digits and single hyphens between them.
pub fn slug(field: &'static str, text: &str) -> Result<String> {
    let fits = !text.is_empty()
        && text.len() <= SLUG_MAX
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--");
    if fits {
        return Ok(text.to_owned());
    }
    let reason = format!(
        "{field} must be 1 to {SLUG_MAX} lower-case letters, digits and single hyphens between them, for example nightly-reports"
    );
    Err(Error::invalid(field, reason))
}

/// An e-mail address, in lower case. Checked for its form only.
pub fn email(field: &'static str, text: &str) -> Result<String> {
    let text = text.trim().to_lowercase();
    let parts = text.split_once('@');
    let fits = text.len() <= 254
        && !text.contains(|c: char| c.is_control() || is_invisible(c) || turns_text_around(c))
        && parts.is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !host.contains('@')
        });
    if fits {
        return Ok(text);
    }
    Err(Error::invalid(field, format!("{field} must be an e-mail address such as ada@example.com")))
}

pub(super) fn bounded(field: &'static str, text: &str, max: usize) -> Result<String> {
    let length = text.chars().count();
    if length > max {
        let reason = format!("{field} must have at most {max} characters, it has {length}");
        return Err(Error::invalid(field, reason));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(field, format!("{field} must not contain control characters")));
    }
    if text.chars().any(turns_text_around) {
        let reason = format!("{field} must not contain characters that turn text around");
        return Err(Error::invalid(field, reason));
    }
    Ok(text.to_owned())
}

/// Characters that show nothing: white space, zero-width ones, the byte order mark.
fn is_invisible(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// The embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX 9): with them a
/// name can read as another.
fn turns_text_around(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text to search for, of up to [`NAME_MAX`] characters.
pub fn search(field: &'static str, text: Option<String>) -> Result<Option<String>> {
    text.map(|text| bounded(field, &text, NAME_MAX)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_counted_in_characters() {
        assert_eq!(name("name", " Täglich ").unwrap(), "Täglich");
        assert_eq!(name("name", &"ä".repeat(100)).unwrap().chars().count(), 100);
        let error = name("name", &"a".repeat(101)).unwrap_err();
        assert_eq!(error.to_string(), "name must have at most 100 characters, it has 101");
        assert_eq!(error.field(), Some("name"));
        assert!(name("name", "  ").is_err());
        assert!(name("name", "a\u{0}b").is_err());
        assert!(name("name", "\u{200b}\u{feff}").is_err(), "it shows nothing");
        assert!(name("name", "\u{202e}live").is_err(), "it reads as evil");
    }

    #[test]
    fn a_description_may_have_lines_but_no_null() {
        assert_eq!(description("description", "a\n\tb").unwrap(), "a\n\tb");
        assert!(description("description", &"x".repeat(1001)).is_err());
        assert!(description("description", "a\u{0}").is_err());
    }

    #[test]
    fn a_slug_is_lower_case_with_single_hyphens() {
        for good in ["a", "nightly-reports", "2fa"] {
            assert_eq!(slug("slug", good).unwrap(), good);
        }
        for bad in ["", "A", "-a", "a-", "a--b", "a b", "ä", &"a".repeat(64)] {
            assert!(slug("slug", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_email_has_two_parts_and_is_stored_in_lower_case() {
        assert_eq!(email("email", "Ada@Example.com").unwrap(), "ada@example.com");
        assert_eq!(email("email", "admin@localhost").unwrap(), "admin@localhost");
        for bad in ["", "a", "@b", "a@", "a b@c", "a@b@c"] {
            assert!(email("email", bad).is_err(), "{bad:?}");
        }
    }
}
