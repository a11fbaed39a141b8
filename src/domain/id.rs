//! Identifiers, one type a noun, so that a project's id can't stand where a trigger's belongs.
//!
//! All are UUIDs of version 7 (RFC 9562): their order is the order of creation.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// What would be right where an id is expected and something else stands.
pub const MUST_BE_AN_ID: &str = "must be an id such as 0198c0de-0000-7000-8000-000000000001";

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh id, greater than those made before it by this process.
            #[expect(clippy::new_without_default, reason = "a default is not a fresh one")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The noun, as it reads in "… not found".
            pub const WHAT: &'static str = $what;

            /// Reads an id as a caller wrote it. Whatever is no UUID names nothing:
            /// the answer is that of a missing one.
            pub fn parse(text: &str) -> crate::error::Result<Self> {
                text.parse().map_err(|_| crate::error::Error::NotFound { what: $what })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
                text.parse().map_err(|_| serde::de::Error::custom(MUST_BE_AN_ID))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    )+};
}

ids! {
    /// A user's id.
    UserId = "user";
    /// A personal access token's id (not the token).
    PersonalAccessTokenId = "personal access token";
    /// A project's id.
    ProjectId = "project";
    /// A project membership's id.
    ProjectMemberId = "project member";
    /// An application's id.
    ApplicationId = "application";
    /// A tenant's id.
    TenantId = "tenant";
    /// A machine user's id.
    MachineUserId = "machine user";
    /// A backend registration's id.
    BackendId = "backend";
    /// A trigger's id.
    TriggerId = "trigger";
    /// An occurrence's id.
    OccurrenceId = "occurrence";
    /// A scheduled action's id; of a delivery also its `webhook-id`.
    ScheduledActionId = "scheduled action";
    /// A LINE Official Account's id (ours, not the channel's).
    LineOaId = "LINE OA";
    /// An audience's id.
    AudienceId = "audience";
    /// A workflow's id.
    WorkflowId = "workflow";
    /// A trigger rule's id.
    TriggerRuleId = "trigger rule";
    /// A stored event's id (ours; the sender's stands beside it).
    EventId = "event";
    /// A cycle's id: a `scheduled_trigger_execution` row.
    CycleId = "cycle";
    /// An audit row's id.
    AuditLogId = "audit log";
    /// An executor's id, new at each start of a process.
    ExecutorId = "executor";
}
