//! What the store promises, the same on both engines.

mod audit;
mod backends;
mod broken;
mod cancel;
mod claim;
mod finish;
mod line;
mod line_removal;
mod paging;
mod people;
mod plans;
mod records;
mod removal;
mod requeue;
mod retention;
mod retention_races;
mod schedule;
mod schema;
mod scope;
mod settle;
mod text;
mod traffic;
mod unique;
mod waiting;
mod withdrawal;
mod work;
pub mod world;
