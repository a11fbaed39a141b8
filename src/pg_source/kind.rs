//! What a row of the outbox may be.

use clap::ValueEnum;

/// A type of event that comes from a table. Its name is also the channel of its hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum EventKind {
    /// A value of a user changed.
    AttributeChanged,
    /// A user sent a form.
    FormSubmitted,
    /// A user followed a link of a campaign.
    CampaignClick,
    /// A user added the account.
    FriendTrackEventInserted,
    /// A booking was made or changed.
    BookingEvent,
}

impl EventKind {
    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::AttributeChanged,
        Self::FormSubmitted,
        Self::CampaignClick,
        Self::FriendTrackEventInserted,
        Self::BookingEvent,
    ];

    /// The name of the type, of its channel, and in the name of its trigger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttributeChanged => "attribute_changed",
            Self::FormSubmitted => "form_submitted",
            Self::CampaignClick => "campaign_click",
            Self::FriendTrackEventInserted => "friend_track_event_inserted",
            Self::BookingEvent => "booking_event",
        }
    }

    /// Whether an update of a row is an event, beside its insert.
    pub fn on_update(self) -> bool {
        matches!(self, Self::AttributeChanged | Self::BookingEvent)
    }
}
