//! The example backend: what a team's own service would do, in its smallest form.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::routing::post;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::egress::{AddressPolicy, Egress, Outgoing, Sent, SigningSecret, sign};
use crate::serve;

const HEARTBEAT: Duration = Duration::from_secs(20);

/// What the registration answered, and callbacks must show.
struct Secrets {
    token: String,
    signing_secret: SigningSecret,
}

#[derive(Clone, Default)]
struct Known(Arc<Mutex<Option<Secrets>>>);

pub(super) struct Backend {
    pub callback_url: String,
    known: Known,
    stop: CancellationToken,
}

impl Backend {
    /// Listens on a free port of the loopback address.
    pub async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let callback_url = format!("http://{}/triggers", listener.local_addr()?);
        let (known, stop) = (Known::default(), CancellationToken::new());
        let router = Router::new().route("/triggers", post(receive)).with_state(known.clone());
        let ended = stop.clone().cancelled_owned();
        tokio::spawn(
            async move { axum::serve(listener, router).with_graceful_shutdown(ended).await },
        );
        Ok(Self { callback_url, known, stop })
    }

    /// Registers with the machine user's token, as the published sample does.
    pub async fn register(&self, app: &App, api: SocketAddr, token: &str) -> Result<Registered> {
        let client = serve::egress(&app.config, vec!["127.0.0.0/8".parse()?])?;
        let registered = Registered { client, api, token: token.to_owned() };
        let body = json!({
            "name": "example-backend",
            "callbackUrl": self.callback_url,
            "description": "The demo's own backend",
        });
        let answer = registered.post("/api/machine/register-backend", &body).await?;
        let text = |key: &str| answer[key].as_str().map(str::to_owned).context("no secrets");
        let secrets = Secrets {
            token: text("token")?,
            signing_secret: SigningSecret::parse(&text("signingSecret")?)?,
        };
        *self.known.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(secrets);
        Ok(registered)
    }

    pub async fn stop(self) {
        self.stop.cancel();
    }
}

/// A backend that is registered.
pub(super) struct Registered {
    client: Egress,
    api: SocketAddr,
    token: String,
}

impl Registered {
    /// Sends a heartbeat now and then, until `stop`.
    pub async fn heartbeats(self, stop: CancellationToken) {
        while tokio::time::timeout(HEARTBEAT, stop.cancelled()).await.is_err() {
            let body = json!({ "name": "example-backend" });
            if let Err(error) = self.post("/api/machine/heartbeat", &body).await {
                println!("  no heartbeat: {error:#}");
            }
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("http://{}{path}", self.api);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let bearer = format!("Bearer {}", self.token);
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&bearer)?);
        let request = Outgoing {
            method: Method::POST,
            url: AddressPolicy::new(vec!["127.0.0.0/8".parse()?]).parse_url(&url)?,
            headers,
            body: serde_json::to_vec(body)?.into(),
            timeout: None,
        };
        match self.client.send(request).await {
            Sent::Answered { status: 200..300, body, .. } => Ok(serde_json::from_slice(&body)?),
            Sent::Answered { status, body, .. } => {
                bail!("{path} answered {status}: {}", String::from_utf8_lossy(&body))
            }
            Sent::Failed { detail, .. } => bail!("{path} did not answer: {detail}"),
        }
    }
}

/// Receives a callback: checks its token and signature, and shows it.
async fn receive(State(known): State<Known>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(secrets) = &*known else { return StatusCode::SERVICE_UNAVAILABLE };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let timestamp = text("webhook-timestamp").parse().unwrap_or_default();
    let expected = sign(&secrets.signing_secret, text("webhook-id"), timestamp, &body);
    let genuine = text("webhook-signature") == expected
        && text("authorization") == format!("Bearer {}", secrets.token);
    if !genuine {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(payload) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let field = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
    println!(
        "  {} {:18} {:22} attempt {} signature good",
        field("executed_at"),
        field("run_key"),
        field("trigger_name"),
        text("x-trigger-attempt"),
    );
    StatusCode::NO_CONTENT
}
