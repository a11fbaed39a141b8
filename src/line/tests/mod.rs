//! Tests of the LINE side: the client against the stand-in, signatures, webhooks.

mod answers;
mod client;
mod faults;
mod pace;
mod signature;
mod stand_in;
mod webhook;

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::stand_in::StandIn;
use super::{ChannelAccess, LineAnswer, LineClient};
use crate::config::LineConfig;
use crate::domain::id::LineOaId;
use crate::domain::line::LineCall;
use crate::egress::{AddressPolicy, Egress, EgressConfig};
use crate::error::Result;

/// Long enough never to pass in a test that does not wait for it.
const AMPLE: Duration = Duration::from_secs(20);
/// Passes in tests that are about the deadline.
const SHORT: Duration = Duration::from_millis(300);
const TOKEN: &str = "token-of-the-channel";
const USER: &str = "U0123456789abcdef0123456789abcdef";

fn egress(networks: &[&str]) -> Egress {
    let networks = networks.iter().map(|net| net.parse().unwrap()).collect();
    Egress::new(EgressConfig {
        policy: AddressPolicy::new(networks),
        timeout: AMPLE,
        max_response_bytes: 65_536,
        max_idle_per_host: 4,
        user_agent: "line-test".to_owned(),
    })
    .unwrap()
}

fn config(api_base: &str, timeout: Duration) -> LineConfig {
    LineConfig {
        api_base: api_base.parse().unwrap(),
        rate_limit: 2000,
        timeout,
        monthly_limit_pause: AMPLE,
        unauthorized_pause: AMPLE,
    }
}

fn client(api_base: &str, timeout: Duration) -> Result<LineClient> {
    LineClient::new(egress(&["127.0.0.0/8"]), &config(api_base, timeout))
}

fn channel(token: &str) -> ChannelAccess {
    ChannelAccess { line_oa_id: LineOaId::new(), access_token: token.into() }
}

fn push(messages: Value) -> LineCall {
    let Value::Array(messages) = messages else { panic!("no list") };
    LineCall::Push { to: USER.to_owned(), messages }
}

fn hello() -> LineCall {
    push(json!([{ "type": "text", "text": "Hello" }]))
}

fn link(rich_menu_id: &str) -> LineCall {
    LineCall::LinkRichMenu { user_id: USER.to_owned(), rich_menu_id: rich_menu_id.to_owned() }
}

fn unlink() -> LineCall {
    LineCall::UnlinkRichMenu { user_id: USER.to_owned() }
}

/// A stand-in, and a client of it.
struct Pair {
    platform: StandIn,
    client: LineClient,
    channel: ChannelAccess,
}

impl Pair {
    async fn start() -> Self {
        Self::with_timeout(AMPLE).await
    }

    async fn with_timeout(timeout: Duration) -> Self {
        let platform = StandIn::start([TOKEN]).await.unwrap();
        let client = client(platform.base_url(), timeout).unwrap();
        Self { platform, client, channel: channel(TOKEN) }
    }

    async fn call(&self, call: &LineCall, key: Uuid) -> LineAnswer {
        self.client.call(&self.channel, call, key, Duration::MAX).await
    }

    async fn once(&self, call: &LineCall) -> LineAnswer {
        self.call(call, Uuid::now_v7()).await
    }
}
