//! The server as its clients see it: over HTTP and websockets.

mod journey;
mod live;
mod metrics;
mod paging;
mod readme;
mod refusals;
