//! A LINE Official Account, the users it knows, and what can be asked of the LINE platform.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::{LineOaId, ProjectId};
use crate::error::{Error, Result};

/// A LINE Official Account of a project. Its channel secret and access token are stored encrypted
/// and never leave the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineOa {
    /// The id.
    pub id: LineOaId,
    /// Its project.
    pub organization_id: ProjectId,
    /// The name shown.
    pub name: String,
    /// The channel's number at LINE, unique in the server.
    pub channel_id: String,
    /// Until when nothing is sent to the platform: it refused the token, or the month's messages
    /// are used up.
    pub paused_until: Option<DateTime<Utc>>,
    /// Why it is paused: `unauthorized` or `monthly_limit`.
    pub paused_reason: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The types of the message objects that the Messaging API sends (developers.line.biz, Messaging API
/// reference, "Message objects", read in November 2026).
pub const MESSAGE_TYPES: [&str; 11] = [
    "text", "textV2", "sticker", "image", "video", "audio", "location", "coupon", "imagemap",
    "template", "flex",
];

/// What is known of whether a user is a friend of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowState {
    /// The platform said nothing yet.
    #[default]
    Unknown,
    /// The user added the account, and did not block it since.
    Following,
    /// The user blocked the account.
    Blocked,
}

impl FollowState {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Following => "following",
            Self::Blocked => "blocked",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Unknown, Self::Following, Self::Blocked]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A user as one LINE OA knows them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineUser {
    /// The LINE OA.
    pub line_oa_id: LineOaId,
    /// Its project.
    pub organization_id: ProjectId,
    /// LINE's id of the user, which is another one for each provider.
    pub user_id: String,
    /// Whether the user is a friend.
    pub follow_state: FollowState,
    /// What is known of the user, by name.
    pub attributes: Map<String, Value>,
    /// When the user last became a friend.
    pub followed_at: Option<DateTime<Utc>>,
    /// When the user last blocked the account.
    pub unfollowed_at: Option<DateTime<Utc>>,
    /// When the user became known.
    pub created_at: DateTime<Utc>,
    /// When anything of the user last changed.
    pub updated_at: DateTime<Utc>,
}

/// A LINE user id as the platform writes it: `U` and 32 lower-case hexadecimal digits.
/// Refused with `INVALID` on `field`.
pub fn user_id(field: &'static str, text: &str) -> Result<String> {
    let digits = text.strip_prefix('U').unwrap_or_default();
    let fits = digits.len() == 32
        && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if fits {
        return Ok(text.to_owned());
    }
    let reason = format!(
        "{field} must be a LINE user id: U and 32 lower-case hexadecimal digits, for example U0123456789abcdef0123456789abcdef"
    );
    Err(Error::invalid(field, reason))
}

/// How long a call of the LINE platform is tried: the platform remembers a retry key for 24 hours, and
/// nothing is sent for longer.
pub const CALL_BUDGET: Duration = Duration::hours(23);

/// One call of the LINE platform. Whoever makes it adds the account's credentials.
#[derive(Debug, Clone, PartialEq)]
pub enum LineCall {
    /// Sends 1 to 5 messages to a user.
    Push {
        /// The user.
        to: String,
        /// LINE message objects.
        messages: Vec<Value>,
    },
    /// Gives a user a rich menu of their own.
    LinkRichMenu {
        /// The user.
        user_id: String,
        /// The menu's id at LINE.
        rich_menu_id: String,
    },
    /// Takes the user's own rich menu away, so that the account's default one shows.
    UnlinkRichMenu {
        /// The user.
        user_id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_user_id_is_u_and_32_lower_case_hexadecimal_digits() {
        let good = "U0123456789abcdef0123456789abcdef";
        assert_eq!(user_id("userId", good).unwrap(), good);
        for bad in ["", "U", "u0123456789abcdef0123456789abcdef", &good.to_uppercase(), &good[1..]]
        {
            assert_eq!(user_id("userId", bad).unwrap_err().field(), Some("userId"), "{bad:?}");
        }
    }
}
