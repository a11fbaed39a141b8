//! `friend_track_event_inserted`: a user added the account, or came back to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Source;

/// Waits for a new friend.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FriendTrack {
    /// Whether a user who had blocked the account and came back does not count.
    #[serde(default)]
    first_only: bool,
}

/// A new friend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewFriend {
    /// Whether the user had blocked the account before.
    #[serde(default)]
    is_unblocked: bool,
    /// Whether the user was never a friend before, as far as the sender knows. Left out, a user who
    /// had not blocked the account counts as new.
    #[serde(default)]
    is_first: Option<bool>,
    /// Where the user came from, in the sender's words.
    #[serde(rename = "source", default)]
    _source: Option<String>,
}

impl Source for FriendTrack {
    const TYPE: &'static str = "friend_track_event_inserted";
    const DESCRIPTION: &'static str = "A user added the account as a friend, or came back to it.";
    type Payload = NewFriend;

    fn matches(&self, friend: &NewFriend) -> Result<(), String> {
        let is_new = friend.is_first.unwrap_or(true) && !friend.is_unblocked;
        if self.first_only && !is_new {
            return Err("the user came back, the rule waits for new friends only".to_owned());
        }
        Ok(())
    }
}
