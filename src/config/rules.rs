//! Settings of trigger rules.

use serde::Serialize;

use super::{error::ConfigError, reader::Reader};

/// Trigger rules.
#[derive(Debug, Clone, Serialize)]
pub struct RulesConfig {
    /// Whether an evaluation leaves a row in the trigger log when the event was not what the rule
    /// waits for, or its condition was false. A rule that waits for another key is not evaluated.
    pub log_unmatched: bool,
}

impl RulesConfig {
    pub(super) fn read(r: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { log_unmatched: r.flag("rules.log_unmatched")? })
    }
}
