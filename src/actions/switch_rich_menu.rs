//! `switch_rich_menu`: gives the user another rich menu.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{Action, Doing, Preparing, Work, stored};
use crate::domain::line::LineCall;
use crate::domain::rule::misfit::Misfit;

/// The longest id of a rich menu.
const ID_MAX: usize = 100;

/// Gives the user a rich menu of their own, or takes it away.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwitchRichMenu {
    /// The menu's id at LINE; null takes the user's own menu away, so that the default one shows.
    #[serde(deserialize_with = "or_null")]
    #[schemars(schema_with = "id_or_null")]
    rich_menu_id: Option<String>,
}

fn id_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": "^[A-Za-z0-9_-]{1,100}$" })
}

/// A text or null, and not nothing.
fn or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

impl Action for SwitchRichMenu {
    const TYPE: &'static str = "switch_rich_menu";
    const DESCRIPTION: &'static str = "Gives the user another rich menu, or the default one.";
    const NEEDS_USER: bool = true;

    fn check(&self) -> Result<(), Misfit> {
        // The id becomes a part of an address.
        let fits = |id: &String| {
            (1..=ID_MAX).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        if self.rich_menu_id.as_ref().is_none_or(fits) {
            return Ok(());
        }
        let reason = "must be the id of a rich menu, such as richmenu-88c05ef6921ae53f8b58a25f3a65faf7, or null";
        Err(Misfit::new("richMenuId", reason))
    }

    fn prepare(&self, _: &Preparing<'_>) -> Result<Value, Misfit> {
        Ok(json!({ "richMenuId": self.rich_menu_id }))
    }

    fn doing(rendered: &Value, work: &Work) -> Result<Doing, String> {
        let ready: Self = stored(rendered)?;
        let user_id = work.user()?;
        Ok(Doing::Line(match ready.rich_menu_id {
            Some(rich_menu_id) => LineCall::LinkRichMenu { user_id, rich_menu_id },
            None => LineCall::UnlinkRichMenu { user_id },
        }))
    }
}
