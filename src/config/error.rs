//! What is wrong with the settings, all of it at once.

use std::fmt;

use super::layers::Origin;

/// The settings do not fit; the program must not start.
///
/// Names every problem, not only the first. Never contains the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// One setting that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key with dots, or the variable's or file's name where no key is known.
    pub key: String,
    /// The file, variable or layer the value came from.
    pub origin: String,
    /// What is wrong with the value and what would be right.
    pub reason: String,
}

impl Problem {
    pub(super) fn new(key: impl Into<String>, origin: &Origin, reason: impl Into<String>) -> Self {
        Self { key: key.into(), origin: origin.to_string(), reason: reason.into() }
    }
}

impl ConfigError {
    pub(super) fn one(key: impl Into<String>, origin: &Origin, reason: impl Into<String>) -> Self {
        Self { problems: vec![Problem::new(key, origin, reason)] }
    }

    pub(super) fn many(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// The problems, in the order in which they were met; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration does not fit:")?;
        for Problem { key, origin, reason } in &self.problems {
            if key == origin {
                write!(f, "\n  {key}: {reason}")?;
            } else {
                write!(f, "\n  {key} (from {origin}): {reason}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
