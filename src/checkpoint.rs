//! Points that a simulation can hold up, fail, or let a process die at.
//!
//! The store passes one before each transaction begins, before each commit and after it; `egress`
//! before each request and after its answer. A server has no checkpoint: nothing in the
//! configuration makes one, and without one a point costs a look at a `None`.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::Result;

/// Where something is about to happen, or has just happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// Before a transaction begins. An error: it does not.
    BeforeBegin,
    /// Before a transaction is committed. An error: it is rolled back.
    BeforeCommit,
    /// After a commit that succeeded. An error: its answer is lost.
    AfterCommit,
    /// Before a request. An error: nothing of it is sent.
    BeforeSend,
    /// After a request has ended, however it did. An error: its answer is lost.
    AfterSend,
}

/// Decides, at each [`Point`], when to go on and whether to.
pub trait Checkpoint: Send + Sync {
    /// Ends when the point may be passed, or with the error that is to happen there.
    fn pass(&self, point: Point) -> BoxFuture<'_, Result<()>>;
}

/// A checkpoint that may be there.
pub(crate) type MaybeCheckpoint = Option<Arc<dyn Checkpoint>>;

/// Passes `point`, at once where there is no checkpoint.
pub(crate) async fn pass(checkpoint: &MaybeCheckpoint, point: Point) -> Result<()> {
    match checkpoint {
        None => Ok(()),
        Some(checkpoint) => checkpoint.pass(point).await,
    }
}
