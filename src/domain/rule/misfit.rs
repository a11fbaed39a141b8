//! Why a configuration or a payload was refused, and where in it.

use std::fmt;

use crate::error::Error;

/// A part of a JSON document that does not fit. Always the caller's to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// A stable code in upper case: `INVALID` unless a finer one exists.
    pub code: &'static str,
    /// Where, in camelCase, for example `actionConfig.messages[0].text`.
    pub path: String,
    /// A sentence that says what would be right.
    pub reason: String,
}

impl Misfit {
    /// A misfit at `path`.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: "INVALID", path: path.into(), reason: reason.into() }
    }

    /// The same misfit with a finer code.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The same misfit, seen from one level above: `root` is put before the path.
    pub fn below(self, root: &str) -> Self {
        Self { path: join(root, &self.path), ..self }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl From<Misfit> for Error {
    fn from(misfit: Misfit) -> Self {
        let reason = misfit.to_string();
        Error::invalid_code(misfit.code, misfit.path, reason)
    }
}

/// One path after the other: `a` and `[0].b` are `a[0].b`.
pub fn join(root: &str, path: &str) -> String {
    match (root, path) {
        (root, "") => root.to_owned(),
        ("", path) => path.to_owned(),
        (root, path) if path.starts_with('[') => format!("{root}{path}"),
        (root, path) => format!("{root}.{path}"),
    }
}

/// A required text: 1 to `max` characters, none of them a control character.
pub fn text(path: &str, text: &str, max: usize) -> Result<(), Misfit> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > max || text.chars().any(char::is_control) {
        let reason = format!("must be a text of 1 to {max} characters without control characters");
        return Err(Misfit::new(path, reason));
    }
    Ok(())
}

/// At most `most` characters of a text, the last of them `…` if there were more: for messages.
pub fn cut(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_grows_from_the_inside() {
        let misfit = Misfit::new("[0].text", "is missing").below("messages").below("actionConfig");
        assert_eq!(misfit.to_string(), "actionConfig.messages[0].text: is missing");
        assert_eq!(Error::from(misfit).field(), Some("actionConfig.messages[0].text"));
    }

    #[test]
    fn a_finer_code_stays_on_the_way_out() {
        assert_eq!(Error::from(Misfit::new("a", "is missing")).code(), "INVALID");
        let finer = Misfit::new("a", "is missing").with_code("CRON_SYNTAX").below("sourceConfig");
        assert_eq!(Error::from(finer).code(), "CRON_SYNTAX");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "ä…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
