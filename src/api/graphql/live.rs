//! Subscriptions: what the executors record, as it happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Context, ID, Subscription};
use futures::Stream;
use futures::stream::unfold;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::context::{app, scope};
use super::delivery::Delivery;
use super::error::Fault;
use super::occurrence::Occurrence;
use crate::app::{App, LogEntry, Watch};
use crate::domain::access::Scope;
use crate::domain::id::ApplicationId;
use crate::error::Result;

/// How often it is checked that the subscriber may still see what it sees.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// The credentials that a request came with, kept to look at them again.
#[derive(Clone, Default)]
pub struct Presented(pub Option<SecretString>);

/// The root of subscriptions.
pub struct SubscriptionRoot;

/// What can be subscribed to. A subscriber that is too slow misses something, and nobody waits for
/// it; queries of the history always have everything.
#[Subscription(name = "Subscription")]
impl SubscriptionRoot {
    /// The occurrences of an application, as they are from now on each time something is recorded
    /// of them: an attempt, or that they were skipped. Ends with an error when the caller may no
    /// longer see the application.
    async fn occurrences(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
    ) -> Result<impl Stream<Item = Result<Occurrence, Fault>>> {
        follow(ctx, &application_id).await
    }

    /// The deliveries of an application, as they are from now on after each attempt. Ends with an
    /// error when the caller may no longer see the application.
    async fn deliveries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
    ) -> Result<impl Stream<Item = Result<Delivery, Fault>>> {
        follow(ctx, &application_id).await
    }
}

/// What rows of the log are about.
trait Told: Sized + Send + 'static {
    /// Reads them as they are now.
    fn read(
        app: &App,
        scope: Scope,
        entries: &[LogEntry],
    ) -> impl Future<Output = Result<Vec<Self>>> + Send;
}

impl Told for Occurrence {
    async fn read(app: &App, scope: Scope, entries: &[LogEntry]) -> Result<Vec<Self>> {
        let rows = app.watched_occurrences(scope, entries).await?;
        Ok(rows.into_iter().map(Occurrence).collect())
    }
}

impl Told for Delivery {
    async fn read(app: &App, scope: Scope, entries: &[LogEntry]) -> Result<Vec<Self>> {
        let rows = app.watched_deliveries(scope, entries).await?;
        Ok(rows.into_iter().map(Delivery).collect())
    }
}

async fn follow<T: Told>(
    ctx: &Context<'_>,
    application: &ID,
) -> Result<impl Stream<Item = Result<T, Fault>> + use<T>> {
    let scope = scope(ctx)?;
    let application = ApplicationId::parse(application)?;
    let mut checks = interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let follower = Follower {
        watch: app(ctx).watch(scope, application).await?,
        app: Arc::clone(app(ctx)),
        presented: ctx.data_opt::<Presented>().cloned().unwrap_or_default(),
        application,
        scope,
        checks,
        read: VecDeque::new(),
        ended: false,
    };
    Ok(unfold(follower, async |mut follower| Some((follower.next().await?, follower))))
}

struct Follower<T> {
    app: Arc<App>,
    watch: Watch,
    presented: Presented,
    application: ApplicationId,
    scope: Scope,
    checks: Interval,
    read: VecDeque<T>,
    ended: bool,
}

impl<T: Told> Follower<T> {
    /// The next thing, waiting for it. An error is the last.
    async fn next(&mut self) -> Option<Result<T, Fault>> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(one) = self.read.pop_front() {
                return Some(Ok(one));
            }
            let step = tokio::select! {
                entries = self.watch.next() => match entries {
                    Some(entries) => self.load(&entries).await,
                    None => return None,
                },
                _ = self.checks.tick() => self.check().await,
            };
            if let Err(error) = step {
                self.ended = true;
                return Some(Err(error.into()));
            }
        }
    }

    async fn load(&mut self, entries: &[LogEntry]) -> Result<()> {
        self.read.extend(T::read(&self.app, self.scope, entries).await?);
        Ok(())
    }

    /// Whether the credentials still hold, and still let see the application.
    async fn check(&mut self) -> Result<()> {
        let presented = self.presented.0.as_ref().map(ExposeSecret::expose_secret);
        self.scope = self.app.authenticate(presented).await?.scope();
        self.app.may_watch(self.scope, self.application).await
    }
}
