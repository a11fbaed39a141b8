//! From a due time to a backend, with everything real but the clock.

mod ahead;
mod attempts;
mod budget;
mod cost;
mod fan_out;
mod hand_over;
mod ledger;
mod liveness;
mod lost_answer;
mod mishaps;
mod off;
mod retry_many;
pub mod withdrawal;
