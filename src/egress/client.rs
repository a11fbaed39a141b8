//! The outbound client: one pool, one deadline, one cap.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use reqwest::{Client, ClientBuilder, Request, Response, redirect, retry};
use url::Host;

use super::callback_url::CallbackUrl;
use super::failure::Failure;
use super::outcome::{FailureKind, Outgoing, Sending, Sent};
use super::policy::{AddressPolicy, Refusal};
use super::resolver::{CheckedResolver, LookupError, Names};
use crate::checkpoint::{self, Checkpoint, MaybeCheckpoint, Point};
use crate::error::{Error, Result};

/// Shorter than the five seconds after which common servers close an idle
/// connection: a request on a connection that the other side is just closing
/// fails with an unknown outcome, a new connection costs a round trip.
const IDLE: Duration = Duration::from_secs(4);

/// How the outbound client behaves.
#[derive(Debug, Clone)]
pub struct EgressConfig {
    /// Which addresses may be reached.
    pub policy: AddressPolicy,
    /// The deadline of a whole attempt: look-up, connection, head and body.
    pub timeout: Duration,
    /// How much of a body is read, and how large a head may be.
    pub max_response_bytes: usize,
    /// How many idle connections are kept for each host and port.
    pub max_idle_per_host: usize,
    /// The `user-agent` header. Must be a valid header value.
    pub user_agent: String,
}

/// The server's only outbound HTTP client. Clones share one connection pool.
#[derive(Clone)]
pub struct Egress {
    inner: Arc<Inner>,
    checkpoint: MaybeCheckpoint,
}

struct Inner {
    client: Client,
    policy: AddressPolicy,
    resolver: CheckedResolver,
    timeout: Duration,
    max_response_bytes: usize,
}

/// Makes ring the process's TLS provider. Does nothing if there is one already.
/// [`Egress::new`] calls it; other users of TLS must do so before they start.
pub fn install_tls_provider() {
    // An error means that a provider is installed, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Egress {
    /// A client with an empty pool. Reads the system's CA certificates (or
    /// `SSL_CERT_FILE`, `SSL_CERT_DIR`); without any it logs an error and every
    /// `https` callback will fail as [`FailureKind::Tls`], `http` ones work.
    ///
    /// # Errors
    /// `INTERNAL` if the client cannot be built, as with a `user_agent` that is
    /// no header value.
    pub fn new(config: EgressConfig) -> Result<Self> {
        Self::with_names(config, Names::System)
    }

    pub(super) fn with_names(config: EgressConfig, names: Names) -> Result<Self> {
        install_tls_provider();
        let resolver = CheckedResolver::new(config.policy.clone(), names);
        let inner = Arc::new(Inner {
            client: build(&config, &resolver)?,
            policy: config.policy,
            resolver,
            timeout: config.timeout,
            max_response_bytes: config.max_response_bytes,
        });
        Ok(Self { inner, checkpoint: None })
    }

    /// This client, with a checkpoint at its requests: for simulations.
    #[doc(hidden)]
    pub fn with_checkpoint(self, checkpoint: Arc<dyn Checkpoint>) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Which addresses may be reached.
    pub fn policy(&self) -> &AddressPolicy {
        &self.inner.policy
    }

    /// Whether the URL's host may be reached now: every address of a name is
    /// looked at. For the moment of registration; [`Self::send`] looks again.
    ///
    /// # Errors
    /// `CALLBACK_ADDRESS_REFUSED` if an address is refused, or if the name has
    /// none or was not answered within the configured deadline.
    pub async fn check(&self, url: &CallbackUrl) -> Result<(), Refusal> {
        let name = match url.host() {
            Some(Host::Domain(name)) => name,
            _ => return self.check_literal(url),
        };
        match tokio::time::timeout(self.inner.timeout, self.inner.resolver.addresses(name)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(LookupError::Refused(refusal))) => Err(refusal),
            Ok(Err(LookupError::Unresolved(_))) => Err(Refusal::address(
                "the callback URL's host does not resolve; use a name that has an address",
            )),
            Err(_) => Err(Refusal::address(
                "the callback URL's host was not resolved in time; try again or use another name",
            )),
        }
    }

    /// Sends the request once and reads the answer. Follows nothing, retries
    /// nothing (but for a kept connection that was closed before any byte of the
    /// request went out). Dropping the future drops the connection.
    pub async fn send(&self, request: Outgoing) -> Sent {
        if let Err(error) = checkpoint::pass(&self.checkpoint, Point::BeforeSend).await {
            return stopped(FailureKind::Connect, &error, Sending::NotSent);
        }
        let sent = self.send_once(request).await;
        match checkpoint::pass(&self.checkpoint, Point::AfterSend).await {
            Ok(()) => sent,
            Err(error) => stopped(FailureKind::Closed, &error, Sending::Unknown),
        }
    }

    async fn send_once(&self, request: Outgoing) -> Sent {
        let started = Instant::now();
        let deadline = request.timeout.unwrap_or(self.inner.timeout);
        let status = AtomicU16::new(0);
        let outcome = tokio::time::timeout(deadline, self.attempt(request, &status)).await;
        let elapsed = started.elapsed();
        match outcome {
            Ok(Ok(answer)) => answer.into_sent(elapsed),
            Ok(Err(Failure { kind, detail, sent })) => Sent::Failed { kind, detail, elapsed, sent },
            Err(_) => Sent::Failed {
                kind: FailureKind::Timeout,
                detail: overdue(deadline, status.into_inner()),
                elapsed,
                sent: Sending::Unknown,
            },
        }
    }

    /// `status` is set as soon as the head is there, for whoever gives up first.
    async fn attempt(&self, request: Outgoing, status: &AtomicU16) -> Result<Answer, Failure> {
        self.check_literal(&request.url).map_err(Failure::refused)?;
        let mut outgoing = Request::new(request.method, request.url.into_url());
        *outgoing.headers_mut() = request.headers;
        *outgoing.body_mut() = Some(request.body.into());
        let mut response = self.inner.client.execute(outgoing).await?;
        status.store(response.status().as_u16(), Ordering::Relaxed);
        let cap = self.inner.max_response_bytes;
        if head_bytes(response.headers()) > cap {
            let detail = format!("the answer's head is larger than {cap} bytes");
            return Err(Failure::answer(FailureKind::Protocol, detail));
        }
        let (body, complete) = read_body(&mut response, cap).await?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body,
            complete,
        })
    }

    /// The client's resolver is not asked about IP literals; this is.
    fn check_literal(&self, url: &CallbackUrl) -> Result<(), Refusal> {
        match url.host() {
            Some(Host::Ipv4(ip)) => self.inner.policy.permits(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => self.inner.policy.permits(IpAddr::V6(ip)),
            Some(Host::Domain(_)) => Ok(()),
            None => Err(Refusal::url("a callback URL must have a host")),
        }
    }
}

/// What a checkpoint makes of an attempt that it does not let pass.
fn stopped(kind: FailureKind, error: &Error, sent: Sending) -> Sent {
    Sent::Failed { kind, detail: error.to_string(), elapsed: Duration::ZERO, sent }
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    complete: bool,
}

impl Answer {
    fn into_sent(self, elapsed: Duration) -> Sent {
        let Self { status, headers, body, complete } = self;
        Sent::Answered { status, headers, body, complete, elapsed }
    }
}

fn build(config: &EgressConfig, resolver: &CheckedResolver) -> Result<Client> {
    match builder(config, resolver).build() {
        Ok(client) => Ok(client),
        Err(error) => {
            let client = builder(config, resolver)
                .tls_certs_only(std::iter::empty())
                .build()
                .map_err(Error::internal)?;
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "no CA certificates: https callbacks will fail until a CA bundle is installed \
                 or SSL_CERT_FILE names one"
            );
            Ok(client)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one legal site")]
fn builder(config: &EgressConfig, resolver: &CheckedResolver) -> ClientBuilder {
    Client::builder()
        .dns_resolver(resolver.clone())
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        // Shared out between a name's addresses, so that a dead first one does
        // not use up the whole deadline.
        .connect_timeout(config.timeout.mul_f64(0.9))
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(config.max_idle_per_host)
        .user_agent(config.user_agent.as_str())
}

/// The body up to `cap` bytes, and whether that is all of it.
async fn read_body(response: &mut Response, cap: usize) -> Result<(Bytes, bool), Failure> {
    let Some(first) = response.chunk().await? else { return Ok((Bytes::new(), true)) };
    if first.len() > cap {
        return Ok((Bytes::copy_from_slice(&first[..cap]), false));
    }
    let Some(second) = response.chunk().await? else { return Ok((first, true)) };
    let mut body = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        let room = cap - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok((body.freeze(), false));
        }
        body.extend_from_slice(&chunk);
        next = response.chunk().await?;
    }
    Ok((body.freeze(), true))
}

/// The head's size on the wire, near enough.
fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

fn overdue(deadline: Duration, status: u16) -> String {
    let deadline = deadline.as_millis();
    match status {
        0 => format!("no answer within {deadline} ms"),
        _ => format!("answered {status}, but the answer did not end within {deadline} ms"),
    }
}
