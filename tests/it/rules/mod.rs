//! Trigger rules from event to effect: a real database, a stand-in of the LINE platform on
//! loopback, an executor that works when told.

mod backends;
mod bookings;
mod cost;
mod costly;
pub mod cycles;
mod effects;
mod events;
mod locks;
pub mod place;
mod queue;
mod races;
mod rates;
mod records;
mod weather;
mod withdrawal;
