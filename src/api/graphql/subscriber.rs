//! Each event of a subscription is executed like a query of its own: with the rows, the loaders and the
//! time of one, for the subscriber as the last check found it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute};
use async_graphql::{Data, Pos, Response};
use tokio::time::timeout;

use super::context::Budget;
use super::error::Fault;
use super::loaders::Loaders;
use crate::api::ANSWERED_WITHIN;
use crate::app::App;
use crate::domain::access::Actor;
use crate::domain::audit::Caller;
use crate::error::Error;

/// Who follows something.
pub(super) struct Subscriber {
    caller: Mutex<Caller>,
    has_ended: AtomicBool,
}

impl Subscriber {
    pub(super) fn new(caller: Caller) -> Self {
        Self { caller: Mutex::new(caller), has_ended: AtomicBool::new(false) }
    }

    /// A check has found who it is now. Events from here on are told to that.
    pub(super) fn is_now(&self, actor: Actor) {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner).actor = actor;
    }

    fn caller(&self) -> Caller {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing is told any more.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// Executes events so. An event that takes too long is the last: what it had found and not told would
/// be told with the next one.
pub(super) struct EachEvent;

impl ExtensionFactory for EachEvent {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_trait]
impl Extension for EachEvent {
    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let subscriber = ctx.data_unchecked::<Arc<Subscriber>>();
        let data = equip(ctx.data_unchecked(), subscriber.caller());
        let executed = next.run_with_data(ctx, operation_name, data);
        timeout(ANSWERED_WITHIN, executed).await.unwrap_or_else(|_| {
            subscriber.end();
            let error = Fault::from(Error::Busy).into_server_error(Pos::default());
            Response::from_errors(vec![error])
        })
    }
}

fn equip(app: &Arc<App>, caller: Caller) -> Data {
    let mut data = Data::default();
    data.insert(Budget::default());
    data.insert(Loaders::of_request(Arc::clone(app), caller.actor.scope(), true));
    data.insert(caller);
    data
}
