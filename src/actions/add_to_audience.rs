//! `add_to_audience`: puts the user into an audience.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Action, Doing, Effect, Needs, Preparing, Work, stored};
use crate::domain::id::AudienceId;
use crate::domain::rule::misfit::Misfit;

/// Puts the user into an audience.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddToAudience {
    /// The audience.
    #[schemars(with = "uuid::Uuid")]
    audience_id: AudienceId,
}

impl Action for AddToAudience {
    const TYPE: &'static str = "add_to_audience";
    const DESCRIPTION: &'static str = "Puts the user into an audience.";
    const NEEDS_USER: bool = true;

    fn needs(&self) -> Needs {
        Needs { audience_id: Some(self.audience_id), ..Needs::default() }
    }

    fn prepare(&self, _: &Preparing<'_>) -> Result<Value, Misfit> {
        Ok(json!({ "audienceId": self.audience_id }))
    }

    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String> {
        let ready: Self = stored(rendered)?;
        let (audience_id, user_id) = (ready.audience_id, work.user()?);
        Ok(Doing::Store(Effect::AddToAudience { audience_id, user_id }))
    }
}
