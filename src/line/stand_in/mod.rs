//! A stand-in for the LINE platform: a small server on the loopback address, for tests and the
//! demo. It remembers, and it fails when told to.
//!
//! It knows three calls: push, link and unlink the rich menu of one user. It checks the bearer
//! token, the form of a push (`to`, one to five messages, a text message has text), and retry
//! keys: one that was accepted before is answered with 409 and the id of the request that was, one
//! on a rich menu call with 400. Each answer carries a request id.
//!
//! What it does not do: deliver anything; know users (any well-formed id is fine, as if all were
//! friends); look into messages other than text; keep a list of rich menus (an id that starts with
//! `richmenu-` exists); count a quota or a rate (a limit is hit when it is told so); forget a retry
//! key after 24 hours by itself; other calls of the API; webhooks. Its texts are not all the platform's.
//! What it passes the real platform may still refuse.
//!
//! All is kept in memory, the latest 100,000 of each kind.

mod push;
mod server;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::state::State;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 500, and nothing was done.
    ErrorBefore,
    /// Done, and 500 all the same.
    ErrorAfter,
    /// Done, and then no answer: the connection stays open until the caller leaves.
    SilenceAfter,
    /// Done, and then the connection is closed in the middle of the answer.
    CutAfter,
    /// 429: too many requests. Nothing was done.
    RateLimited,
    /// 429: the messages of the month are used up. Nothing was done.
    MonthlyLimit,
    /// 401, whatever the token. Nothing was done.
    Unauthorized,
}

/// A push that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The token of the channel that sent it.
    pub token: String,
    /// The user.
    pub to: String,
    /// The messages.
    pub messages: Vec<Value>,
    /// The retry key, if one was given.
    pub retry_key: Option<String>,
    /// The id of the request.
    pub request_id: String,
    /// When, since the stand-in started.
    pub at: Duration,
}

/// A request as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The path as it was sent, percent-encoded.
    pub path: String,
    /// The bearer token, if there was one.
    pub token: Option<String>,
    /// The retry key, if there was one.
    pub retry_key: Option<String>,
    /// The body.
    pub body: Bytes,
    /// The status of the answer, or the one that was held back by [`Fault::SilenceAfter`] and
    /// [`Fault::CutAfter`].
    pub status: u16,
}

/// A running stand-in. Ends when it is dropped.
pub struct StandIn {
    base_url: String,
    shared: Shared,
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    accepted: watch::Sender<usize>,
    stop: CancellationToken,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StandIn {
    /// Listens on a free port of the loopback address and takes the bearer tokens `tokens`, one a
    /// channel.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start<T: Into<String>>(
        tokens: impl IntoIterator<Item = T>,
    ) -> std::io::Result<Self> {
        Self::start_on(([127, 0, 0, 1], 0).into(), tokens).await
    }

    /// [`StandIn::start`] on an address of the caller's choice.
    ///
    /// # Errors
    /// The address can't be had.
    pub async fn start_on<T: Into<String>>(
        address: SocketAddr,
        tokens: impl IntoIterator<Item = T>,
    ) -> std::io::Result<Self> {
        let shared = Shared {
            state: Arc::new(Mutex::new(State::new(tokens.into_iter().map(Into::into)))),
            accepted: watch::Sender::new(0),
            stop: CancellationToken::new(),
        };
        let address = server::start(shared.clone(), address).await?;
        Ok(Self { base_url: format!("http://{address}"), shared })
    }

    /// What belongs into `line.api_base`; loopback must be allowed, as by
    /// `callbacks.allowed_networks: 127.0.0.0/8`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Takes `token` from now on.
    pub fn allow_token(&self, token: impl Into<String>) {
        self.shared.state().tokens.insert(token.into());
    }

    /// Refuses `token` from now on, with 401.
    pub fn revoke_token(&self, token: &str) {
        self.shared.state().tokens.remove(token);
    }

    /// Lets the next `times` calls go wrong, after those that are to go wrong already. Each call
    /// that it knows takes one.
    pub fn fail_next(&self, times: usize, fault: Fault) {
        self.shared.state().faults.extend(std::iter::repeat_n(fault, times));
    }

    /// Answers every push with the monthly limit, until [`Self::reset_month`].
    pub fn use_up_month(&self) {
        self.shared.state().month_used_up = true;
    }

    /// A new month: pushes are accepted again.
    pub fn reset_month(&self) {
        self.shared.state().month_used_up = false;
    }

    /// Forgets all retry keys, as the platform does 24 hours after a key was first used: what comes with one
    /// of them is done once more.
    pub fn forget_keys(&self) {
        self.shared.state().forget_keys();
    }

    /// The pushes that were accepted, in order. A repetition that was answered with 409 is not
    /// among them.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.shared.state().accepted.iter().cloned().collect()
    }

    /// All requests, in the order in which they were answered, those that were refused too.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.state().seen.iter().cloned().collect()
    }

    /// The rich menu that the channel of `token` linked to the user.
    pub fn rich_menu_of(&self, token: &str, user_id: &str) -> Option<String> {
        self.shared.state().menus.get(&(token.to_owned(), user_id.to_owned())).cloned()
    }

    /// Waits until `count` pushes were accepted since the start. Waits without end if they never
    /// are.
    pub async fn until_accepted(&self, count: usize) {
        let mut accepted = self.shared.accepted.subscribe();
        // The sender lives as long as `self`.
        let _ = accepted.wait_for(|so_far| *so_far >= count).await;
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
