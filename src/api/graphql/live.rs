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
use super::subscriber::Subscriber;
use super::trigger_log::TriggerLog;
use crate::app::{App, LogEntry, Watch, Watched};
use crate::domain::access::Scope;
use crate::domain::id::{ApplicationId, LineOaId};
use crate::error::Result;

/// How often it is checked that the subscriber may still see what it sees.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// How old the last check may be when something is shown.
const CHECKED_WITHIN: Duration = Duration::from_secs(2);

/// The credentials that a request came with, kept to look at them again.
#[derive(Clone, Default)]
pub struct Presented(pub Option<SecretString>);

/// The root of subscriptions.
pub struct SubscriptionRoot;

/// What can be subscribed to, over a websocket that speaks `graphql-transport-ws`. A subscriber that is
/// too slow misses something, and nobody waits for it; queries of the history always have everything.
/// Whether the credentials still hold is asked before something is shown, unless that was done in the
/// last two seconds, and every 15 s.
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
        follow(ctx, ApplicationId::parse(&application_id).map(Watched::Application)).await
    }

    /// The deliveries of an application, as they are from now on after each attempt. Ends with an
    /// error when the caller may no longer see the application.
    async fn deliveries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The application.")] application_id: ID,
    ) -> Result<impl Stream<Item = Result<Delivery, Fault>>> {
        follow(ctx, ApplicationId::parse(&application_id).map(Watched::Application)).await
    }

    /// The trigger log of a LINE OA as it grows from now on: each evaluation of a rule that is
    /// logged, and each attempt of an action. Ends with an error when the caller may no longer see
    /// the LINE OA. Machine users see none.
    async fn trigger_logs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The LINE OA.")] line_oa_id: ID,
    ) -> Result<impl Stream<Item = Result<TriggerLog, Fault>>> {
        follow(ctx, LineOaId::parse(&line_oa_id).map(Watched::LineOa)).await
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

impl Told for TriggerLog {
    async fn read(app: &App, scope: Scope, entries: &[LogEntry]) -> Result<Vec<Self>> {
        let rows = app.watched_logs(scope, entries).await?;
        Ok(rows.into_iter().map(TriggerLog).collect())
    }
}

async fn follow<T: Told>(
    ctx: &Context<'_>,
    watched: Result<Watched>,
) -> Result<impl Stream<Item = Result<T, Fault>> + use<T>> {
    let (scope, watched) = (scope(ctx)?, watched?);
    let presented = ctx.data_opt::<Presented>().cloned().unwrap_or_default();
    let subscriber = Arc::clone(ctx.data_unchecked::<Arc<Subscriber>>());
    let follower = Follower {
        watch: app(ctx).watch(scope, watched).await?,
        app: Arc::clone(app(ctx)),
        presented,
        watched,
        scope,
        checks: checks(),
        checked: Instant::now(),
        read: VecDeque::new(),
        subscriber,
    };
    Ok(unfold(follower, async |mut follower| Some((follower.next().await?, follower))))
}

fn checks() -> Interval {
    let mut checks = interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

struct Follower<T> {
    app: Arc<App>,
    watch: Watch,
    presented: Presented,
    watched: Watched,
    scope: Scope,
    checks: Interval,
    checked: Instant,
    read: VecDeque<T>,
    subscriber: Arc<Subscriber>,
}

impl<T: Told> Follower<T> {
    /// The next thing, waiting for it. An error is the last.
    async fn next(&mut self) -> Option<Result<T, Fault>> {
        loop {
            if self.subscriber.has_ended() {
                return None;
            }
            let step = match self.read.is_empty() {
                true => tokio::select! {
                    entries = self.watch.next() => match entries {
                        Some(entries) => self.load(&entries).await,
                        None => return None,
                    },
                    _ = self.checks.tick() => self.check().await,
                },
                // However long it took to take those before it.
                false => self.check_again().await,
            };
            if let Err(error) = step {
                self.subscriber.end();
                return Some(Err(error.into()));
            }
            if let Some(one) = self.read.pop_front() {
                return Some(Ok(one));
            }
        }
    }

    async fn load(&mut self, entries: &[LogEntry]) -> Result<()> {
        self.check_again().await?;
        self.read.extend(T::read(&self.app, self.scope, entries).await?);
        Ok(())
    }

    /// [`Self::check`], unless that was done just now.
    async fn check_again(&mut self) -> Result<()> {
        match self.checked.elapsed() > CHECKED_WITHIN {
            true => self.check().await,
            false => Ok(()),
        }
    }

    /// Whether the credentials still hold, and still let see what is watched. What is told from here on
    /// is told to whom they say.
    async fn check(&mut self) -> Result<()> {
        let presented = self.presented.0.as_ref().map(ExposeSecret::expose_secret);
        let actor = self.app.authenticate(presented).await?;
        self.scope = actor.scope();
        self.app.may_watch(self.scope, self.watched).await?;
        self.subscriber.is_now(actor);
        self.checked = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::Server;
    use super::*;
    use crate::domain::audit::Caller;

    /// A row that was read before.
    struct Row;

    impl Told for Row {
        async fn read(_: &App, _: Scope, _: &[LogEntry]) -> Result<Vec<Self>> {
            Ok(Vec::new())
        }
    }

    /// The administrator, who has not taken yet what was read.
    async fn slow(server: &Server, rows: usize) -> Follower<Row> {
        let application = ApplicationId::parse(&server.application("p").await).unwrap();
        let (app, watched) = (Arc::clone(&server.app), Watched::Application(application));
        let bearer = server.bearer();
        let actor = app.authenticate(Some(&bearer)).await.unwrap();
        let scope = actor.scope();
        Follower {
            watch: app.watch(scope, watched).await.unwrap(),
            app,
            presented: Presented(Some(bearer.into())),
            watched,
            scope,
            checks: checks(),
            checked: Instant::now(),
            read: (0..rows).map(|_| Row).collect(),
            subscriber: Arc::new(Subscriber::new(Caller { actor, request_id: None })),
        }
    }

    #[tokio::test]
    async fn what_was_read_for_a_slow_reader_is_not_told_once_its_token_is_gone() {
        let server = Server::new().await;
        let mut follower = slow(&server, 3).await;
        assert!(follower.next().await.unwrap().is_ok());
        let tokens = "{ personalAccessTokens { nodes { id } } }";
        let tokens = server.data(tokens, Value::Null).await;
        let id = &tokens["personalAccessTokens"]["nodes"][0]["id"];
        let delete = "mutation($id: ID!) { deletePersonalAccessToken(id: $id) { id } }";
        server.data(delete, json!({ "id": id })).await;
        tokio::time::pause();
        tokio::time::advance(CHECKED_WITHIN + Duration::from_millis(1)).await;
        tokio::time::resume();
        assert!(follower.next().await.unwrap().is_err());
        assert!(follower.next().await.is_none(), "an error is the last");
    }
}
