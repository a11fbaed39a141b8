//! Cases of queued work.

use super::case::Case;
use super::cases::id;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("cancelScheduledAction", "scheduled_action.cancel", id("$waitingAction"))
            .inside("$waitingAction"),
        Case::new("retryScheduledAction", "scheduled_action.retry", id("$cancelledAction"))
            .inside("$cancelledAction"),
    ]
}
