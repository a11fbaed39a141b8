//! The demo's rules: a LINE OA against a stand-in of the platform, three rules, and a user to whom
//! things happen.
//!
//! What happens comes in as it would in earnest: a signed webhook and the events endpoint, over
//! loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::{App, CreateLineOa, CreateTriggerRule, Watched};
use crate::domain::access::Scope;
use crate::domain::application::Application;
use crate::domain::audit::Caller;
use crate::domain::id::LineOaId;
use crate::domain::line::LineOa;
use crate::domain::rule::Frequency;
use crate::domain::trigger_log::{LogStatus, TriggerLog};
use crate::egress::{AddressPolicy, Egress, Outgoing, Sent};
use crate::line::signature;
use crate::serve;

/// The channel access token that the stand-in takes.
pub(super) const ACCESS_TOKEN: &str = "demo-channel-access-token";
const CHANNEL_SECRET: &str = "demo-channel-secret";
const USER: &str = "U00000000000000000000000000000001";
/// How often the user clicks on the campaign's link.
const CLICKS: Duration = Duration::from_secs(10);

/// Makes the LINE OA and its rules, as the administrator would.
pub(super) async fn sample(
    app: &App,
    caller: &Caller,
    application: &Application,
) -> Result<LineOa> {
    let new = CreateLineOa {
        project_id: application.project_id,
        name: "Sample shop".into(),
        channel_id: "1234567890".into(),
        channel_secret: SecretString::from(CHANNEL_SECRET),
        channel_access_token: SecretString::from(ACCESS_TOKEN),
    };
    let line_oa = app.create_line_oa(caller, new).await?;
    let message = |text: &str| json!({"messages": [{"type": "text", "text": text}]});
    let mut later = message("Anything we can help you with?");
    later["delay"] = "5s".into();
    let rules = [
        ("Welcome", "friend_track_event_inserted", message("Welcome! You are {{ user.id }}.")),
        ("Follow up after 5 s", "friend_track_event_inserted", later),
        ("Thanks for a click", "campaign_click", message("Thanks for {{ event.payload.linkId }}!")),
    ];
    for (name, source_type, action_config) in rules {
        let new = CreateTriggerRule {
            line_oa_id: line_oa.id,
            name: name.into(),
            description: String::new(),
            source_type: source_type.into(),
            source_config: json!({}),
            action_type: "send_message".into(),
            action_config,
            enabled: true,
            frequency: Frequency::OncePerHour,
            cooldown_seconds: 0,
            workflow_id: None,
            workflow_node_path: None,
        };
        app.create_trigger_rule(caller, new).await?;
    }
    Ok(line_oa)
}

/// The user: becomes a friend, and clicks on a link now and then.
pub(super) struct User {
    client: Egress,
    api: SocketAddr,
    machine_token: String,
    line_oa: LineOaId,
}

impl User {
    pub fn new(app: &App, api: SocketAddr, machine_token: &str, line_oa: &LineOa) -> Result<Self> {
        let client = serve::egress(&app.config, vec!["127.0.0.0/8".parse()?])?;
        Ok(Self { client, api, machine_token: machine_token.to_owned(), line_oa: line_oa.id })
    }

    /// Lives until `stop`.
    pub async fn live(self, stop: CancellationToken) {
        if let Err(error) = self.follow().await {
            println!("  the webhook was not taken: {error:#}");
        }
        while tokio::time::timeout(CLICKS, stop.cancelled()).await.is_err() {
            if let Err(error) = self.click().await {
                println!("  the click was not taken: {error:#}");
            }
        }
    }

    /// What LINE posts when somebody adds the account, signed with the channel's secret.
    async fn follow(&self) -> Result<()> {
        let body = json!({ "destination": "demo", "events": [{
            "type": "follow",
            "mode": "active",
            "timestamp": 1_767_225_600_000_i64,
            "webhookEventId": "01DEMO00000000000000000000",
            "deliveryContext": { "isRedelivery": false },
            "source": { "type": "user", "userId": USER },
            "follow": { "isUnblocked": false },
        }]});
        let bytes = serde_json::to_vec(&body)?;
        let signed = signature::sign(&SecretString::from(CHANNEL_SECRET), &bytes);
        let mut headers = HeaderMap::new();
        headers.insert(signature::HEADER, HeaderValue::from_str(&signed)?);
        println!("  a user adds the account (a signed webhook of LINE)");
        self.post(&format!("/api/line/webhook/{}", self.line_oa), headers, bytes).await
    }

    async fn click(&self) -> Result<()> {
        let body = json!({
            "eventId": Uuid::new_v4(),
            "type": "campaign_click",
            "lineOaId": self.line_oa,
            "userId": USER,
            "payload": { "campaignId": "spring", "linkId": "catalogue", "url": "https://example.com/" },
        });
        let mut headers = HeaderMap::new();
        let bearer = SecretString::from(format!("Bearer {}", self.machine_token));
        let bearer = HeaderValue::from_str(bearer.expose_secret())?;
        headers.insert(header::AUTHORIZATION, bearer);
        println!("  the user clicks on a link (POST /api/machine/events)");
        self.post("/api/machine/events", headers, serde_json::to_vec(&body)?).await
    }

    async fn post(&self, path: &str, mut headers: HeaderMap, body: Vec<u8>) -> Result<()> {
        let url = format!("http://{}{path}", self.api);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Outgoing {
            method: Method::POST,
            url: AddressPolicy::new(vec!["127.0.0.0/8".parse()?]).parse_url(&url)?,
            headers,
            body: body.into(),
            timeout: None,
        };
        match self.client.send(request).await {
            Sent::Answered { status: 200..300, .. } => Ok(()),
            Sent::Answered { status, body, .. } => {
                bail!("{path} answered {status}: {}", String::from_utf8_lossy(&body))
            }
            Sent::Failed { detail, .. } => bail!("{path} did not answer: {detail}"),
        }
    }
}

/// Shows what the trigger log says of the rules, as it is written.
pub(super) async fn tell(app: Arc<App>, line_oa: LineOaId) -> Result<()> {
    let mut watch = app.watch(Scope::Everything, Watched::LineOa(line_oa)).await?;
    while let Some(entries) = watch.next().await {
        for log in app.watched_logs(Scope::Everything, &entries).await? {
            show(&app, &log).await?;
        }
    }
    Ok(())
}

async fn show(app: &App, log: &TriggerLog) -> Result<()> {
    let Some(rule) = log.trigger_rule_id else { return Ok(()) };
    let names = app.rule_names(Scope::Everything, &[rule]).await?;
    let name = names.get(&rule).map_or("a rule", String::as_str);
    let said = match log.status {
        LogStatus::Queued => "fires, its action is queued".to_owned(),
        LogStatus::Success => "its action was done".to_owned(),
        LogStatus::HeldBack => log.error_message.clone().unwrap_or_default(),
        other => {
            let message = log.error_message.as_deref().unwrap_or_default();
            format!("{}: {message}", other.as_str())
        }
    };
    println!("  rule \"{name}\" on {}: {said}", log.trigger_on);
    Ok(())
}
