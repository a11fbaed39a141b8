//! The server as its clients see it: over HTTP and websockets.

mod clock;
mod cost;
mod filters;
mod journey;
mod live;
mod metrics;
mod paging;
mod people;
mod readme;
mod refusals;
mod variables;
